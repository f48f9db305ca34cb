"""The products of δ alone: the cycles and bytes that its zeros save."""

import numpy as np

from etalstm.formats.codec import encode, index_words, stream_words
from etalstm.network.shape import GATES
from etalstm.plan.program.walk import walk
from etalstm_hw.contract import STREAM_INDEX, Opcode
from etalstm_sim.trials.products.side import SidePrograms


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
