"""Reads the LSTM layers of an ONNX file, whoever wrote it."""

from pathlib import Path

import numpy as np

from etalstm.errors import ModelError
from etalstm.interchange.onnx_write import DIRECTIONS, TO_ONNX, load_onnx
from etalstm.interchange.state import Direction, LstmState

ACTIVATIONS = ("sigmoid", "tanh", "tanh")  # of one direction
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
FROM_ONNX = tuple(TO_ONNX.index(gate) for gate in range(len(TO_ONNX)))


def read_onnx(path: Path) -> LstmState:
    """Read the LSTM nodes of a file as one stack of layers; all other nodes are left out.

    Parameters
    ----------
    path : Path

    Returns
    -------
    LstmState
        A node's biases become ``bias_ih`` and ``bias_hh``.

    Raises
    ------
    ModelError
        If the file is no ONNX model, has no LSTM node, or one of them is not what PyTorch's LSTM computes: peepholes,
        clip, coupled gates, other activations, a projection, the reverse direction alone, constant initial states that
        are not zero, weights that the graph computes; or if the nodes are no stack. The message names file and node.
    """
    onnx = load_onnx()
    try:
        model = onnx.load(path)
    except OSError:
        raise
    except Exception as error:  # protobuf's own, which no module promises
        raise ModelError(f"{path}: no ONNX model: {error}") from error
    nodes = [node for node in model.graph.node if node.op_type == "LSTM" and node.domain in ("", "ai.onnx")]
    if not nodes:
        others = sorted({node.op_type for node in model.graph.node})
        raise ModelError(f"{path}: no LSTM node, only {', '.join(others) or 'none'}")
    constants = _constants(onnx, model)
    try:
        return LstmState(tuple(_layer(onnx, node, constants) for node in nodes))
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error


def _constants(onnx, model) -> dict[str, np.ndarray]:
    """Give the values that the graph holds by name."""
    to_array = onnx.numpy_helper.to_array
    found = {tensor.name: to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0]] = to_array(node.attribute[0].t)
        elif node.op_type == "Identity" and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]]
    return found


def _layer(onnx, node, constants) -> tuple[Direction, ...]:
    name = f"LSTM node {node.name or node.output[0]!r}"
    options = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    inputs = dict(zip(INPUTS, node.input, strict=False))
    count = _directions(name, options)
    _refuse_other_cells(name, options, inputs, count)
    for state in ("initial_h", "initial_c"):
        if np.any(constants.get(inputs.get(state), 0)):
            raise ModelError(f"{name} has a constant {state} that is not zero")
    hidden = options.get("hidden_size")
    if not isinstance(hidden, int) or hidden < 1:
        raise ModelError(f"{name} has hidden_size {hidden}, expected a number above 0")
    w = _weights(name, "W", inputs, constants, (count, 4 * hidden, None))
    r = _weights(name, "R", inputs, constants, (count, 4 * hidden, hidden))
    b = np.zeros((count, 8 * hidden), np.float32)
    if inputs.get("B"):
        b = _weights(name, "B", inputs, constants, (count, 8 * hidden))
    halves = b[:, : 4 * hidden], b[:, 4 * hidden :]
    return tuple(Direction(*(_turned(part[n]) for part in (w, r, *halves))) for n in range(count))


def _directions(name: str, options: dict) -> int:
    direction = options.get("direction", b"forward").decode()
    for count, known in DIRECTIONS.items():
        if direction == known:
            return count
    raise ModelError(f"{name} has direction {direction!r}, expected {' or '.join(DIRECTIONS.values())}")


def _refuse_other_cells(name: str, options: dict, inputs: dict, count: int) -> None:
    """Refuse what makes the node another cell than PyTorch's."""
    if inputs.get("P"):
        raise ModelError(f"{name} has peepholes (input P)")
    if options.get("clip"):
        raise ModelError(f"{name} has clip {options['clip']}")
    if options.get("input_forget"):
        raise ModelError(f"{name} has input_forget {options['input_forget']}: its gates are coupled")
    activations = tuple(activation.decode() for activation in options.get("activations", ()))
    if activations and tuple(activation.lower() for activation in activations) != ACTIVATIONS * count:
        raise ModelError(f"{name} has activations {', '.join(activations)}, expected Sigmoid, Tanh, Tanh")


def _weights(name: str, letter: str, inputs: dict, constants: dict, expected: tuple) -> np.ndarray:
    """Give the constant behind an input; None in the expected shape is any size."""
    array = constants.get(inputs.get(letter))
    if array is None:
        raise ModelError(f"{name}: its {letter} is not stored in the file but computed in the graph")
    fits = len(array.shape) == len(expected) and all(e in (None, n) for n, e in zip(array.shape, expected, strict=True))
    if not fits:
        shape = ", ".join("any" if size is None else str(size) for size in expected)
        raise ModelError(f"{name}: its {letter} has shape {array.shape}, expected ({shape}): a projection, or damaged")
    return array


def _turned(rows: np.ndarray) -> np.ndarray:
    """Put rows back into PyTorch's order of gates."""
    return np.ascontiguousarray(rows.reshape(4, -1, *rows.shape[1:])[list(FROM_ONNX)].reshape(rows.shape))
