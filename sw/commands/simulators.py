"""``eta-lstm bench simulators``: how fast the in-process simulator is, beside cocotb on the same Verilog."""

import importlib
import importlib.util
import json
import sys
from typing import Annotated

from typer import Option

from etalstm.device import TrainingShape
from etalstm.errors import DeviceError
from etalstm.network import NetworkShape

_OPTIONAL = {"cocotb": "cocotb", "cocotbext": "cocotbext-axi"}  # module: package


def simulators(
    preset: Annotated[str, Option(help="Configuration of the accelerator")] = "sim",
    inputs: Annotated[int, Option("--input", help="Inputs")] = 8,
    hidden: Annotated[int, Option(help="Units of a layer")] = 32,
    layers: Annotated[int, Option(help="LSTM layers")] = 1,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 2,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Run one training iteration on the in-process simulator and under cocotb, and measure both."""
    missing = [package for module, package in _OPTIONAL.items() if importlib.util.find_spec(module) is None]
    if missing:
        names = " ".join(missing)
        raise DeviceError(f"the comparison needs {' and '.join(missing)}. Try: pip install {names}")
    shape = TrainingShape(NetworkShape(inputs, hidden, layers), batch, steps)
    found = importlib.import_module("etalstm.sim.simulators").compare_simulators(
        preset, shape, lambda text: print(text, file=sys.stderr, flush=True)
    )
    if as_json:
        print(json.dumps(found))
        return
    print(f"in process  {found['cycles']:10,} cycles  {found['sim_cycles_per_second']:12,.0f} cycles/s")
    print(f"cocotb      {found['cocotb_cycles']:10,} cycles  {found['cocotb_cycles_per_second']:12,.0f} cycles/s")
    print(f"the simulator in process is {found['ratio']:.1f} times as fast")
