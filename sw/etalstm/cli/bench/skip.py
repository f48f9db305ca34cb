"""``eta-lstm bench skip``: cycles that are saved because zeros of δ are skipped."""

import json
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.devices import open_machine
from etalstm.cli.options import parse_densities
from etalstm.device import TrainingShape
from etalstm.device.machine.programs import SidePrograms
from etalstm.formats.codec import encode, index_words, stream_words
from etalstm.network.execution import PRESET_HELP, Execution
from etalstm.network.shape import GATES, NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.plan.program.walk import walk
from etalstm_hw.contract import STREAM_INDEX, Opcode


class DeltaProducts:
    """The products Wᵀδ (``backward``) and dW (``gradient``) of a session's top layer, as programs of their own.

    `session`: the only one of the device, with compressed storage.
    """

    def __init__(self, device, session):
        self._accelerator, self._placement = device.accelerator, session.placement
        self._map, self._programs = session.plan.map, session.plan.product_programs()
        self._layer = self._map.layers[-1]
        self._words, self._side = {}, SidePrograms(device, session, self._programs)

    def fill(self, density: float) -> None:
        """Draw δ anew, about a share of `density` not zero, and write its streams as the machine would."""
        generator, config = np.random.default_rng(0), self._accelerator.config
        log, index, batch = self._map.stored.deltas, self._layer.delta_index, self._map.batch
        for channel in range(config.channels):
            log_beats, indices = [], np.zeros((index.vectors, config.lanes), np.uint32)
            beat = log.first * config.vector_beats
            for number in range(index.vectors):
                tile = number // self._layer.tiling.units.tiles % batch.count
                values = generator.standard_normal(GATES * batch.size_of(tile) * config.lanes, np.float32)
                values[generator.random(values.size) >= density] = 0
                words = encode(values, beat_words=config.beat_words).reshape(-1, config.beat_words)
                kept = np.count_nonzero(values)
                address = (index.first + number) * config.vector_beats
                indices[number, : len(STREAM_INDEX)] = index_words(beat, len(words), values.size, kept, address)
                self._words[channel, address] = stream_words(kept, values.size)
                log_beats.append(words)
                beat += len(words)
            for array, words in ((index, indices), (log, np.concatenate(log_beats))):
                address = self._placement.window(channel).start + array.first * self._map.memory.vector_bytes
                self._accelerator.transport.write_memory(address, words)

    def measure(self) -> dict[str, dict]:
        """Run both; give their counters."""
        return self._side.run()

    def stream_bytes(self) -> dict[str, int]:
        """Give the bytes that each program reads of masks and kept words; a stream counts each time it is read."""
        return {name: 4 * sum(self._cast_words(program)) for name, program in self._programs.items()}

    def _cast_words(self, program):
        for step in walk(program.words):
            cast = step.fields
            for n in range(cast["blocks"] if step.opcode == Opcode.CAST else 0):
                channel, tile = divmod(cast["tile"] + n, cast["tiles_per_channel"])
                index = step.address + tile * self._accelerator.config.vector_beats
                yield self._words[cast["channel"] + channel, index]


def savings(dense: dict, sparse: dict, stream_bytes: int, channels: int) -> dict:
    """Compare a product's cycles with those of a dense δ, and the bytes of δ that it read with those that it needs.

    ``ideal_cycles``: the dense cycles less the zeros' share of the dense MACs. ``efficiency``: which share of that
    difference is really saved. ``lost``: cycles without a MAC by their cause, averages over channels; those of
    ``broadcast_empty`` wait for the memory, the codec or the search for the next scalar.

    ``delta_bytes``: all bytes that were read of δ, streams filled up to whole beats and their indices.
    ``stream_bytes``: bytes of the masks and the kept words. ``overhead``: the first over the second.
    """
    zeros = sparse["scalars_skipped"] / sparse["scalars_seen"]
    saveable = zeros * dense["channel_cycles"]["mac"] / channels
    saved = dense["cycles"] - sparse["cycles"]
    return {
        "dense_cycles": dense["cycles"],
        "cycles": sparse["cycles"],
        "ideal_cycles": dense["cycles"] - saveable,
        "efficiency": saved / saveable if saveable else 1.0,
        "delta_bytes": sparse["read_bytes"]["deltas"],
        "stream_bytes": stream_bytes,
        "overhead": sparse["read_bytes"]["deltas"] / stream_bytes,
        "lost": {kind: count / channels for kind, count in sparse["channel_cycles"].items() if kind != "mac" and count},
    }


def skip(
    preset: Annotated[str, Option(help=PRESET_HELP)] = "bench",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 256,
    hidden: Annotated[int, Option(help="Units of a layer")] = 256,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 8,
    densities: Annotated[str, Option(help="Shares of δ that are not zero, separated by commas")] = "0.75,0.5,0.25,0.1",
    stall: Annotated[float, Option(help="Probability that a memory handshake waits a cycle")] = 0.0,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure what zeros of δ save in the two products that broadcast it, Wᵀδ and dW: cycles, and bytes moved."""
    wanted = parse_densities(densities)
    shape = TrainingShape(NetworkShape(inputs, hidden), batch, steps, Execution(storage=Storage("ms1")))
    with open_machine(preset, stall=stall) as device:
        session = device.create(shape)
        session.load(initial_parameters(shape.network, 0))
        products = DeltaProducts(device, session)
        channels = device.accelerator.config.channels
        products.fill(1.0)
        dense = products.measure()
        results = []
        for density in wanted:
            products.fill(density)
            sparse = products.measure()
            streams = products.stream_bytes()
            found = {name: savings(dense[name], sparse[name], streams[name], channels) for name in dense}
            results.append({"density": density, **found})
            if not as_json:
                print(_skip_line(density, found), flush=True)
    if as_json:
        print(json.dumps({"preset": preset, "densities": results}))


def _skip_line(density: float, found: dict) -> str:
    products = [
        f"{name} {entry['cycles']:11,} of {entry['dense_cycles']:11,} cycles, efficiency {entry['efficiency']:.4f}, "
        f"waited {entry['lost'].get('broadcast_empty', 0) / entry['cycles']:.2%} for δ, "
        f"{entry['overhead']:.3f} × its masks and kept words"
        for name, entry in found.items()
    ]
    return f"density {density:4.2f}:  " + f"\n{'':15s}".join(products)
