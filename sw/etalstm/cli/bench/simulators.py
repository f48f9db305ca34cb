"""``eta-lstm bench simulators``: speed of the in-process simulator, and of another one of the same Verilog."""

import importlib
import importlib.util
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

from typer import Option

from etalstm.cli.output import print_result, say
from etalstm.device import TrainingShape
from etalstm.errors import DeviceError
from etalstm.network.execution import PRESET_HELP
from etalstm.network.shape import NetworkShape
from etalstm_hw.config import preset as named_preset

_OPTIONAL = {"cocotb": "cocotb", "cocotbext": "cocotbext-axi"}  # module: package


class Against(StrEnum):
    """The other simulator of a comparison."""

    COCOTB = "cocotb"
    WHOLE = "whole"
    UNCHECKED = "unchecked"


def simulators(
    preset: Annotated[str, Option(help=PRESET_HELP)] = "sim",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 8,
    hidden: Annotated[int, Option(help="Units of a layer")] = 32,
    layers: Annotated[int, Option(help="LSTM layers")] = 1,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 2,
    against: Annotated[
        Against | None, Option(help="What to measure it beside; default: whole for machines of many channels")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Run one training iteration on the in-process simulator and on another one, and measure both.

    The other one is cocotb; or the in-process simulator compiled in one piece instead of a channel at a time, or
    without its AXI checkers.
    """
    shape = TrainingShape(NetworkShape(inputs, hidden, layers), batch, steps)
    if against is None:
        against = _default_against(preset)
    compare, show = {
        Against.COCOTB: (_with_cocotb, _show_cocotb),
        Against.WHOLE: (_trial("etalstm_sim.trials.speed.builds", "compare_builds"), _show_whole),
        Against.UNCHECKED: (_trial("etalstm_sim.trials.speed.protocol_cost", "compare_checkers"), _show_unchecked),
    }[against]
    print_result(compare(preset, shape, say), as_json, show)


def _default_against(preset):
    apart = importlib.import_module("etalstm_sim.compiled.library").is_apart(named_preset(preset))
    return Against.WHOLE if apart else Against.COCOTB


def _with_cocotb(preset, shape, log):
    missing = [package for module, package in _OPTIONAL.items() if importlib.util.find_spec(module) is None]
    if missing:
        names = " ".join(missing)
        raise DeviceError(f"the comparison needs {' and '.join(missing)}. Try: pip install {names}")
    return _trial("etalstm_sim.trials.speed.simulators", "compare_simulators")(preset, shape, log)


def _trial(module: str, name: str) -> Callable[..., dict]:
    """Give a function that imports a trial when it is called, as trials need the hardware description."""
    return lambda *arguments: getattr(importlib.import_module(module), name)(*arguments)


def _show_cocotb(found):
    print(f"in process  {found['cycles']:10,} cycles  {found['sim_cycles_per_second']:12,.0f} cycles/s")
    print(f"cocotb      {found['cocotb_cycles']:10,} cycles  {found['cocotb_cycles_per_second']:12,.0f} cycles/s")
    print(f"the simulator in process is {found['ratio']:.1f} times as fast")


def _show_whole(found):
    for name in ("whole", "apart"):
        speed, seconds = found[f"{name}_cycles_per_second"], found[f"{name}_build_seconds"]
        print(f"{name}  {found['cycles']:10,} cycles  {speed:10,.0f} cycles/s  built in {seconds:8,.1f} s of CPU time")
    print(f"compiled by channel: {found['ratio']:.1f} times as fast, built in 1/{found['build_ratio']:.1f} of the time")


def _show_unchecked(found):
    for name in ("checked", "unchecked"):
        print(f"{name:10}{found['cycles']:10,} cycles  {found[name]:12,.0f} cycles/s")
    print(f"with its checkers the simulator is {found['ratio']:.2f} times as fast")
