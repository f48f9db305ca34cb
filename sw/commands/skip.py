"""``eta-lstm bench skip``: how many of the cycles that zeros of δ would take are saved."""

import json
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.commands.devices import open_named
from etalstm.device import TrainingShape
from etalstm.device.accelerator import PAGE_BYTES
from etalstm.network import NetworkShape, initial_parameters


class DeltaProducts:
    """The products Wᵀδ (``backward``) and dW (``gradient``) of a session's top layer, as programs of their own.

    Parameters
    ----------
    device : HardwareDevice
    session : HardwareSession
        The only one of the device.
    """

    def __init__(self, device, session):
        self._accelerator, self._base = device.accelerator, session.base
        self._map = session.plan.map
        self._programs = {}
        address = session.base + session.size_bytes
        for name, program in session.plan.product_programs().items():
            address = -(-address // PAGE_BYTES) * PAGE_BYTES
            image = program.image()
            self._programs[name] = self._accelerator.load(image, address)
            address += len(image)

    def fill(self, density: float) -> None:
        """Draw every word of δ anew; about a share of `density` is not zero."""
        generator, memory = np.random.default_rng(0), self._map.memory
        array, lanes = self._map.layers[-1].delta.array, self._accelerator.config.lanes
        start = self._base + array.first * memory.vector_bytes
        for channel in range(self._accelerator.config.channels):
            words = generator.standard_normal((array.vectors, lanes), np.float32)
            words[generator.random(words.shape) >= density] = 0
            self._accelerator.transport.write_memory(start + channel * memory.window_bytes, words)

    def measure(self) -> dict[str, dict]:
        """Run both; give their counters."""
        self._accelerator.set_windows(self._base, self._map.memory.window_bytes)
        counters = {}
        for name, program in self._programs.items():
            self._accelerator.run(program)
            counters[name] = self._accelerator.counters()
        return counters


def savings(dense: dict, sparse: dict, channels: int) -> dict:
    """Compare a product's cycles with those of a dense δ.

    ``ideal_cycles`` are the dense ones less the zeros' share of the dense MACs; ``efficiency`` is the share of that
    difference that is really saved. ``lost`` are cycles without a MAC by their cause, averages over channels.
    """
    zeros = sparse["scalars_skipped"] / sparse["scalars_seen"]
    saveable = zeros * dense["channel_cycles"]["mac"] / channels
    saved = dense["cycles"] - sparse["cycles"]
    return {
        "dense_cycles": dense["cycles"],
        "cycles": sparse["cycles"],
        "ideal_cycles": dense["cycles"] - saveable,
        "efficiency": saved / saveable if saveable else 1.0,
        "lost": {kind: count / channels for kind, count in sparse["channel_cycles"].items() if kind != "mac" and count},
    }


def parse_densities(text: str) -> list[float]:
    """Read shares of nonzero values, separated by commas.

    Raises
    ------
    ValueError
        If one is not a number from 0 to 1.
    """
    densities = []
    for part in text.split(","):
        try:
            density = float(part)
        except ValueError:
            density = np.nan
        if not 0 <= density <= 1:
            raise ValueError(f"densities must be numbers from 0 to 1, separated by commas, got {part!r} in {text!r}")
        densities.append(density)
    return densities


def skip(
    preset: Annotated[str, Option(help="Configuration of the accelerator")] = "bench",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 256,
    hidden: Annotated[int, Option(help="Units of a layer")] = 256,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 8,
    densities: Annotated[str, Option(help="Shares of δ that are not zero, separated by commas")] = "0.75,0.5,0.25,0.1",
    stall: Annotated[float, Option(help="Probability that a memory handshake waits a cycle")] = 0.0,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure the cycles that zeros of δ save in the two products that broadcast it: Wᵀδ and dW."""
    wanted = parse_densities(densities)
    shape = TrainingShape(NetworkShape(inputs, hidden), batch, steps)
    with open_named("sim", preset, stall=stall) as device:
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
            found = {name: savings(dense[name], sparse[name], channels) for name in dense}
            results.append({"density": density, **found})
            if not as_json:
                print(_line(density, found), flush=True)
    if as_json:
        print(json.dumps({"preset": preset, "densities": results}))


def _line(density: float, found: dict) -> str:
    parts = [
        f"{name} {entry['cycles']:11,} of {entry['dense_cycles']:11,} cycles, efficiency {entry['efficiency']:.3f}"
        for name, entry in found.items()
    ]
    return f"density {density:4.2f}:  " + ";  ".join(parts)
