"""``eta-lstm bench golden``: how fast the exact golden trainer is, beside PyTorch on the same work."""

import importlib
import importlib.util
import json
from collections.abc import Callable
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.output import warn_if_busy
from etalstm.device import GOLDEN, Session, TrainingShape, open_device
from etalstm.host.turns import take_turns
from etalstm.network.arithmetic import FLOAT32
from etalstm.network.execution import (
    ARITHMETIC_HELP,
    DELTA_BITS_HELP,
    INPUT_THRESHOLD_HELP,
    Execution,
)
from etalstm.network.shape import NetworkShape, check_sizes, initial_parameters, operations
from etalstm.network.storage import Usage, default_policy
from etalstm.train.control import DELTA_START, ShareControl, check_target

SETTLING = 60  # iterations in which the threshold of δ comes to its target


def golden_work(session: Session, delta_threshold: float) -> Callable[[], object]:
    """Make a call that runs a session forward and backward once, on the same data every time."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal(session.shape.x_shape, np.float32)
    dy = generator.standard_normal(session.shape.y_shape, np.float32)

    def work() -> object:
        session.forward(x)
        session.backward(dy, delta_threshold=delta_threshold)
        return session.gradients()

    return work


def threshold_of(session: Session, target: float) -> float:
    """Find the threshold that leaves a share of δ."""
    control = ShareControl(target, DELTA_START)
    for _ in range(SETTLING):
        golden_work(session, control.threshold)()
        control.take(sum(session.usage(), Usage()).delta_density)
    return control.threshold


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
    arithmetic: Annotated[str, Option(help=ARITHMETIC_HELP)] = FLOAT32.name,
    delta_bits: Annotated[int | None, Option(help=DELTA_BITS_HELP)] = None,
    input_threshold: Annotated[str, Option(help=INPUT_THRESHOLD_HELP)] = "0",
    delta_target: Annotated[float | None, Option(help="Leave this share of the gates' gradients")] = None,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Measure the exact golden forward and backward pass, and PyTorch on the same work if it is installed.

    PyTorch always does the dense work.
    """
    shape = NetworkShape(hidden if inputs is None else inputs, hidden, layers)
    check_sizes(batch=batch, steps=steps, runs=runs)
    execution = Execution.read(
        storage=default_policy(0.0, prunes=delta_target is not None), input_threshold=input_threshold,
        arithmetic=arithmetic, delta_bits=delta_bits,
    )  # fmt: skip
    if delta_target is not None:
        check_target("delta_target", delta_target)
    giga = operations(shape, batch, steps) / 1e9
    with open_device(GOLDEN) as device:
        session = device.create(TrainingShape(shape, batch, steps, execution))
        session.load(initial_parameters(shape, 0))
        works = [golden_work(session, 0.0 if delta_target is None else threshold_of(session, delta_target))]
        if importlib.util.find_spec("torch"):
            works.append(torch_work(shape, batch, steps))
        warn_if_busy()
        seconds, theirs = [*take_turns(works, runs).min(axis=1).tolist(), None][:2]
        usage = sum(session.usage(), Usage())
    result = {"seconds": seconds, "gflops": giga / seconds, "arithmetic": arithmetic}
    result |= {"delta_density": usage.delta_density, "input_density": usage.input_density}
    result |= {"torch_seconds": theirs, "torch_gflops": None, "ratio": None}
    if theirs:
        result |= {"torch_gflops": giga / theirs, "ratio": theirs / seconds}
    if as_json:
        print(json.dumps(result))
        return
    print(f"golden  {seconds * 1e3:9.1f} ms  {result['gflops']:7.1f} GFLOP/s of the dense work")
    print(f"        of δ {usage.delta_density:.3f} is not zero, of x and h {usage.input_density:.3f}")
    if result["ratio"] is None:
        print("torch   not installed")
    else:
        print(f"torch   {theirs * 1e3:9.1f} ms  {result['torch_gflops']:7.1f} GFLOP/s")
        print(f"golden is {result['ratio']:.2f} of torch's speed")
