"""``eta-lstm bench codec``: the codec's throughput, and how much it slows down products beside it."""

import json
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.devices import open_machine
from etalstm.cli.options import parse_densities
from etalstm.device import TrainingShape
from etalstm.device.machine.session import HardwareSession
from etalstm.network.execution import PRESET_HELP, Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import KINDS, Storage
from etalstm_hw.contract import PARAMETER_THRESHOLDS
from etalstm_sim.trials.products.side import SidePrograms
from etalstm_sim.trials.products.streams import rates, threshold_for


def codec(
    preset: Annotated[str, Option(help=PRESET_HELP)] = "bench",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 256,
    hidden: Annotated[int, Option(help="Units of a layer")] = 256,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 4,
    storage: Annotated[str, Option(help="ms1 or ms1-bf16")] = "ms1",
    densities: Annotated[str, Option(help="Shares that are kept, separated by commas")] = "0.9,0.5,0.1",
    stall: Annotated[float, Option(help="Probability that a memory handshake waits a cycle")] = 0.0,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure the codec alone, and products with x alone and beside it."""
    wanted = parse_densities(densities)
    policy = Storage(storage)
    if not policy.compressed:
        raise ValueError(f"storage must be one that compresses, got {storage!r}")
    shape = TrainingShape(NetworkShape(inputs, hidden), batch, steps, Execution(storage=policy), log_share=1.0)
    with open_machine(preset, stall=stall) as device:
        session = device.create(shape)
        if not isinstance(session, HardwareSession):
            raise ValueError("the batch is too large for the machine's memory")
        session.load(initial_parameters(shape.network, 0))
        generator = np.random.default_rng(0)
        states = (generator.standard_normal(shape.state_shape, np.float32) for _ in range(2))
        session.forward(generator.standard_normal(shape.x_shape, np.float32), None, *states)
        programs = SidePrograms(device, session, session.plan.stream_programs())
        config, results = device.accelerator.config, []
        tiles = session.plan.map.layers[-1].tiling.units.tiles
        elements = len(KINDS) * steps * batch * tiles * config.lanes
        products = programs.run_one("products")
        for density in wanted:
            for kind in range(len(KINDS)):
                device.accelerator.set_parameter(PARAMETER_THRESHOLDS + kind, threshold_for(density))
            alone, beside = programs.run_one("streams"), programs.run_one("both")
            results.append({"density": density, **rates(alone, products, beside, elements, config.channels)})
            if not as_json:
                print(_line(results[-1]), flush=True)
    if as_json:
        print(json.dumps({"preset": preset, "densities": results}))


def _line(found: dict) -> str:
    products = f"products {found['mac_cycles']:,.0f} cycles, beside {found['beside_mac_cycles']:,.0f}"
    elements = f"{found['elements_per_cycle']:.3f} elements a cycle each way"
    return f"density {found['density']:4.2f}:  {elements}; {products}: {found['stalled']:.2%} lost"
