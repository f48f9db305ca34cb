"""``eta-lstm bench skip``: cycles that are saved because zeros of δ are skipped."""

import json
from typing import Annotated

from typer import Option

from etalstm.cli.devices import open_machine
from etalstm.cli.options import parse_densities
from etalstm.device import TrainingShape
from etalstm.network.execution import PRESET_HELP, Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm_sim.trials.products.delta import DeltaProducts, savings


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
