"""Writes a network as an ONNX file: embedding, LSTM layers, output layer.

There is one ``LSTM`` node for each layer, time first (layout 0), with gates in ONNX's order i, o, f, c. The operators
mean the same in all of ``OPSETS``.
"""

import importlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.state import LstmState, check_values, reordered
from etalstm.host.durable import write_whole

OPSETS = range(17, 21)
IR_VERSION = 8  # of opset 17: older programs read it too
TO_ONNX = (0, 3, 1, 2)  # i, f, g, o become i, o, f, c
DIRECTIONS = {1: "forward", 2: "bidirectional"}


@dataclass(frozen=True)
class Network:
    """The network that is exported."""

    lstm: LstmState
    # float32, (tokens, I): the input is tokens, (T, B), int64; without it, x, (T, B, I), float32
    embedding: np.ndarray | None = None
    # float32, (C, D·H) and (C,): weights and bias of an output layer. The result is logits, (B, C), of
    # each sequence's last step. Without it the results are y, (T, B, D·H), and h_n and c_n, (L·D, B, H).
    output: tuple[np.ndarray, np.ndarray] | None = None
    per_step: bool = False  # logits of every step instead, (T, B, C)


@dataclass
class _Graph:
    """Nodes and constants of the graph that is being built."""

    helper: Any
    numpy_helper: Any
    nodes: list = field(default_factory=list)
    constants: list = field(default_factory=list)

    def add(self, operator: str, inputs: list[str], outputs: list[str], **attributes) -> str:
        """Append a node; gives the name of its first output."""
        self.nodes.append(self.helper.make_node(operator, inputs, outputs, name=outputs[0], **attributes))
        return outputs[0]

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant; gives its name."""
        self.constants.append(self.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name


def write_onnx(path: Path, network: Network, opset: int = OPSETS.start) -> None:
    """Write a network as an ONNX file of an opset from 17 to 20, atomically.

    Inputs are ``tokens`` or ``x``, and ``lengths``, (B,), int32: the steps of each sequence. Steps and batch are free.
    Raises :class:`InterchangeError` if the shapes do not fit together, an array is not of float32 or not finite,
    `per_step` has no output layer, there is no such opset, or ``onnx`` is not installed; ``OSError`` if the file cannot
    be written.
    """
    if opset not in OPSETS:
        raise InterchangeError(f"opset must be {OPSETS.start} to {OPSETS.stop - 1}, got {opset}")
    _check(network)
    onnx = load_onnx()
    model = _model(onnx, network, opset)
    onnx.checker.check_model(model, full_check=True)
    write_whole(path, model.SerializeToString(deterministic=True))


def load_onnx():
    """Give the module ``onnx``; :class:`InterchangeError` says how to install it."""
    try:
        return importlib.import_module("onnx")
    except ImportError as error:
        raise InterchangeError("ONNX files need the package onnx: pip install 'etalstm[onnx]'") from error


def _check(network: Network) -> None:
    lstm = network.lstm
    if network.embedding is not None:
        if network.embedding.shape[1:] != (lstm.input_size,):
            raise InterchangeError(
                f"embedding has shape {network.embedding.shape}, expected (tokens, {lstm.input_size})"
            )
        check_values("embedding", network.embedding)
    if network.output is None:
        if network.per_step:
            raise InterchangeError("per_step gives logits of every step, and needs an output layer")
        return
    weights, bias = network.output
    expected = *bias.shape, lstm.directions * lstm.hidden_size
    if weights.shape != expected:
        raise InterchangeError(f"the output layer's weights have shape {weights.shape}, expected {expected}")
    check_values("the output layer's weight", weights)
    check_values("the output layer's bias", bias)


def _model(onnx, network: Network, opset: int):
    helper, kinds = onnx.helper, onnx.TensorProto
    graph, lstm = _Graph(helper, onnx.numpy_helper), network.lstm
    value = helper.make_tensor_value_info
    if network.embedding is None:
        first = value("x", kinds.FLOAT, ["steps", "batch", lstm.input_size])
    else:
        first = value("tokens", kinds.INT64, ["steps", "batch"])
    lengths = value("lengths", kinds.INT32, ["batch"])
    y, states = _layers(graph, network)
    width, count = lstm.directions * lstm.hidden_size, lstm.directions * len(lstm.layers)
    if network.output is None:
        graph.add("Identity", [y], ["y"])
        results = [value("y", kinds.FLOAT, ["steps", "batch", width])]
        for position, name in enumerate(("h_n", "c_n")):
            graph.add("Concat", [pair[position] for pair in states], [name], axis=0)
            results.append(value(name, kinds.FLOAT, [count, "batch", lstm.hidden_size]))
    else:
        axes = ["steps", "batch"] if network.per_step else ["batch"]
        _output(graph, network.output, y if network.per_step else _last(graph, states[-1][0], width))
        results = [value("logits", kinds.FLOAT, [*axes, len(network.output[1])])]
    body = helper.make_graph(graph.nodes, "etalstm", [first, lengths], results, graph.constants)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(body, opset_imports=imports, ir_version=IR_VERSION, producer_name="etalstm")


def _layers(graph: _Graph, network: Network) -> tuple[str, list[tuple[str, str]]]:
    """Add embedding and layers; gives the names of the top layer's y and of all layers' last h and c."""
    x, lstm, states = "x", network.lstm, []
    if network.embedding is not None:
        x = graph.add("Gather", [graph.constant("embedding", network.embedding), "tokens"], ["x"])
    shape = graph.constant("shape", np.array([0, 0, lstm.directions * lstm.hidden_size], np.int64))
    for number, layer in enumerate(lstm.layers):
        arrays = {
            "W": [reordered(direction.weight_ih, TO_ONNX) for direction in layer],
            "R": [reordered(direction.weight_hh, TO_ONNX) for direction in layer],
            "B": [np.concatenate([reordered(b, TO_ONNX) for b in (d.bias_ih, d.bias_hh)]) for d in layer],
        }
        names = [graph.constant(f"{name}{number}", np.stack(by_direction)) for name, by_direction in arrays.items()]
        results = [f"y{number}", f"h{number}", f"c{number}"]
        options = {"hidden_size": lstm.hidden_size, "direction": DIRECTIONS[lstm.directions]}
        graph.add("LSTM", [x, *names, "lengths"], results, **options)
        beside = graph.add("Transpose", [results[0]], [f"beside{number}"], perm=[0, 2, 1, 3])
        x = graph.add("Reshape", [beside, shape], [f"x{number + 1}"])
        states.append((results[1], results[2]))
    return x, states


def _last(graph: _Graph, state: str, width: int) -> str:
    """Lay the directions' last h (D, B, H) side by side: (B, D·H)."""
    beside = graph.add("Transpose", [state], ["last_beside"], perm=[1, 0, 2])
    return graph.add("Reshape", [beside, graph.constant("last_shape", np.array([0, width], np.int64))], ["last"])


def _output(graph: _Graph, layer: tuple[np.ndarray, np.ndarray], inputs: str) -> None:
    weights, bias = layer
    product = graph.add("MatMul", [inputs, graph.constant("output_weights", weights.T)], ["product"])
    graph.add("Add", [product, graph.constant("output_bias", bias)], ["logits"])
