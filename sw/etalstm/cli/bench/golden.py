"""``eta-lstm bench golden``: how fast the exact golden trainer is, beside PyTorch on the same work."""

import importlib
import importlib.util
import json
from collections.abc import Callable
from typing import Annotated

import numpy as np
from typer import Option

from etalstm.cli.output import warn_if_busy
from etalstm.golden.trainer import Rows, network_backward, network_forward
from etalstm.host.turns import take_turns
from etalstm.network.shape import NetworkShape, check_sizes, initial_parameters, operations


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
    warn_if_busy()
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
