"""``eta-lstm bench golden``, ``torch``, ``boards``, ``simulators``: how fast software is, beside other software."""

import importlib
import importlib.util
import json
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.output import give, say, with_extra
from etalstm.device import TrainingShape
from etalstm.device.ranks.bench import Sizes, measure
from etalstm.device.ranks.team import find_team
from etalstm.errors import DeviceError
from etalstm.golden.trainer import Rows, network_backward, network_forward
from etalstm.host.turns import take_turns
from etalstm.network.execution import PRESET_HELP
from etalstm.network.shape import NetworkShape, check_sizes, initial_parameters, operations
from etalstm_hw.config import preset as named_preset


def golden_work(shape: NetworkShape, batch: int, steps: int) -> Callable[[], object]:
    """Make a call that runs the compiled golden trainer forward and backward once."""
    layers = [Rows.of(entry) for entry in initial_parameters(shape, 0)]
    generator = np.random.default_rng(0)
    x = generator.standard_normal((steps, batch, shape.input_size), np.float32)
    dy = generator.standard_normal((steps, batch, shape.hidden_size), np.float32)
    states = np.zeros((shape.layers, batch, shape.hidden_size), np.float32)
    lengths = np.full(batch, steps)

    def work():
        passes = network_forward(layers, x, lengths, states, states)
        return network_backward(layers, passes, dy, states, states)

    return work


def torch_work(shape: NetworkShape, batch: int, steps: int) -> Callable[[], object]:
    """Make a call that runs ``torch.nn.LSTM`` of the same sizes forward and backward once."""
    torch = importlib.import_module("torch")  # optional: the package works without it
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(shape.input_size, shape.hidden_size, shape.layers)
    x = torch.randn(steps, batch, shape.input_size, requires_grad=True)
    dy = torch.randn(steps, batch, shape.hidden_size)

    def work():
        lstm.zero_grad()
        x.grad = None
        lstm(x)[0].backward(dy)

    return work


def golden(
    hidden: Annotated[int, Option(help="Units of a layer")] = 256,
    layers: Annotated[int, Option(help="LSTM layers")] = 2,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 35,
    inputs: Annotated[int | None, Option("--input", help="Inputs [default: as many as units]")] = None,
    runs: Annotated[int, Option(help="Runs, of which the best counts")] = 7,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure the exact golden forward and backward pass, and PyTorch on the same work if it is installed."""
    shape = NetworkShape(hidden if inputs is None else inputs, hidden, layers)
    check_sizes(batch=batch, steps=steps, runs=runs)
    giga = operations(shape, batch, steps) / 1e9
    works = [golden_work(shape, batch, steps)]
    if importlib.util.find_spec("torch"):
        works.append(torch_work(shape, batch, steps))
    seconds, theirs = [*take_turns(works, runs).min(axis=1).tolist(), None][:2]
    result = {"seconds": seconds, "gflops": giga / seconds}
    result |= {"torch_seconds": theirs, "torch_gflops": None, "ratio": None}
    if theirs:
        result |= {"torch_gflops": giga / theirs, "ratio": theirs / seconds}
    if as_json:
        print(json.dumps(result))
        return
    print(f"golden  {seconds * 1e3:9.1f} ms  {result['gflops']:7.1f} GFLOP/s")
    if result["ratio"] is None:
        print("torch   not installed")
    else:
        print(f"torch   {theirs * 1e3:9.1f} ms  {result['torch_gflops']:7.1f} GFLOP/s")
        print(f"golden is {result['ratio']:.2f} of torch's speed")


def torch(
    hidden: Annotated[int, Option(help="Units of the layer, and its inputs")] = 256,
    batch: Annotated[int, Option(help="Sequences")] = 32,
    steps: Annotated[int, Option(help="Steps")] = 35,
    longest: Annotated[int, Option(help="Steps of the longest sequence of the packed batch")] = 64,
    runs: Annotated[int, Option(help="Turns, of three passes of each; medians count")] = 15,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure etalstm.nn.LSTM on golden, forward and backward."""
    bench = with_extra("etalstm.nn.bench")
    result = bench.measure(bench.Sizes(hidden, batch, steps, longest, runs))
    if as_json:
        print(json.dumps(result))
        return
    for name in ("session", "bare", "module", "stock"):
        print(f"{name:8}{result[f'{name}_seconds'] * 1e3:9.1f} ms")
    print(f"the module takes {result['module_overhead']:.1%} more than its session, of which ", end="")
    print(f"{result['bare_overhead']:.1%} are autograd's own,")
    print(f"and has {result['of_stock']:.2f} of the speed of PyTorch's LSTM")
    print(f"a packed batch of {bench.SHORTEST} to {longest} steps takes ", end="")
    print(f"{result['packed_over_real_steps']:.2f} times what its real steps take")


def boards(
    hidden: Annotated[int, Option(help="Units of a layer, and its inputs")] = 1024,
    layers: Annotated[int, Option(help="LSTM layers")] = 8,
    device_ratio: Annotated[float, Option(help="What a device's iteration takes, over the exchange")] = 2.0,
    runs: Annotated[int, Option(help="Iterations; medians count")] = 10,
    pipeline: Annotated[int, Option(help="Processes over which the layers are spread; 1: each has all")] = 1,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure how much of the exchange of gradients several processes wait for, on devices that only wait.

    To be started on several processes: eta-lstm launch -n 2 -- bench boards.
    """
    found = measure(find_team(), Sizes(hidden, layers, device_ratio, runs, pipeline))
    if as_json:
        print(json.dumps(found))
        return
    print(f"{found['ranks']} ranks, {found['gradient_bytes'] / 1e6:.1f} MB of gradients")
    for name in ("device", "exchange", "iteration"):
        print(f"{name:10}{found[f'{name}_seconds'] * 1e3:9.1f} ms")
    print(f"an iteration takes {found['over_longer']:.3f} of the longer of device and exchange")


_OPTIONAL = {"cocotb": "cocotb", "cocotbext": "cocotbext-axi"}  # module: package


class Against(StrEnum):
    """What the simulator is measured beside."""

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
        against = _default(preset)
    compare, show = {
        Against.COCOTB: (_with_cocotb, _show_cocotb),
        Against.WHOLE: (_trial("etalstm_sim.trials.speed.builds", "compare_builds"), _show_whole),
        Against.UNCHECKED: (_trial("etalstm_sim.trials.speed.protocol_cost", "compare_checkers"), _show_unchecked),
    }[against]
    give(compare(preset, shape, say), as_json, show)


def _default(preset):
    apart = importlib.import_module("etalstm_sim.compiled.library").is_apart(named_preset(preset))
    return Against.WHOLE if apart else Against.COCOTB


def _with_cocotb(preset, shape, log):
    missing = [package for module, package in _OPTIONAL.items() if importlib.util.find_spec(module) is None]
    if missing:
        names = " ".join(missing)
        raise DeviceError(f"the comparison needs {' and '.join(missing)}. Try: pip install {names}")
    return _trial("etalstm_sim.trials.speed.simulators", "compare_simulators")(preset, shape, log)


def _trial(module: str, name: str) -> Callable[..., dict]:
    """Give a function that imports a trial, which needs the hardware description, when it is called."""
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
