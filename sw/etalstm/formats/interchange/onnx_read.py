"""Reads the LSTM layers of an ONNX file of any exporter.

Axes: T steps, D directions, B sequences, H units.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_graph import DataFiles, Graph, brief, name_of, shown
from etalstm.formats.interchange.onnx_write import DIRECTIONS, TO_ONNX, load_onnx
from etalstm.formats.interchange.state import Direction, LstmState, reordered
from etalstm.network.shape import GATES

ACTIVATIONS = ("sigmoid", "tanh", "tanh")  # of one direction
INPUTS = ("X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P")
SHARING = 8  # the weights of all layers may take so many times the bytes of the files, as nodes may share them
FROM_ONNX = tuple(TO_ONNX.index(gate) for gate in range(len(TO_ONNX)))


def read_onnx(path: Path) -> LstmState:
    """Read the LSTM nodes of a file as one stack of layers; all other nodes are left out.

    A node's biases become ``bias_ih`` and ``bias_hh``. Raises :class:`InterchangeError` if the file is no ONNX model,
    has no LSTM node, or a node computes something other than PyTorch's LSTM: peepholes, clip, coupled gates, other
    activations, a projection, the reverse direction alone, initial states that are neither zero nor an input of the
    graph, weights that the graph computes; if its data are damaged, or lie outside the model's folder; if the layers
    take more than :data:`SHARING` times the bytes of the files; or if the nodes are no stack, see :func:`check_stack`.
    The message names file and node. Raises ``OSError`` or ``MemoryError`` if the model's file cannot be read, or does
    not fit into memory.
    """
    onnx = load_onnx()
    try:
        files, model = DataFiles(path), onnx.load(path, load_external_data=False)
    except (OSError, MemoryError):  # they say nothing about what the file holds
        raise
    except Exception as error:  # protobuf's own, which no module promises
        raise InterchangeError(f"{path}: no ONNX model: {brief(error)}") from error
    try:
        return _stack(Graph(onnx, model.graph, files), files)
    except InterchangeError as error:
        raise InterchangeError(f"{path}: {error}") from error


def _stack(graph: Graph, files: DataFiles) -> LstmState:
    """Read the layers one by one, and stop early: nodes that share weights could take far more bytes than the file."""
    nodes = [node for node in graph.nodes if node.op_type == "LSTM" and node.domain in ("", "ai.onnx")]
    if not nodes:
        others = ", ".join(sorted({node.op_type for node in graph.nodes}))
        raise InterchangeError(f"no LSTM node, only {brief(others) or 'none'}")
    layers, taken = [], 0
    for node in nodes:
        layers.append(_layer(graph, node))
        taken += sum(array.nbytes for direction in layers[-1] for array in vars(direction).values())
        if taken > SHARING * files.size_bytes:
            raise InterchangeError(
                f"{name_of(node)}: its weights and those before take {taken} bytes, too many share them"
            )
    state = LstmState(tuple(layers))
    check_stack(graph, nodes)
    return state


def _layer(graph: Graph, node) -> tuple[Direction, ...]:
    name, options = name_of(node), graph.options(node)
    inputs = dict(zip(INPUTS, node.input, strict=False))
    count = _directions(name, options)
    _refuse_other_cells(name, options, inputs, count)
    for state in ("initial_h", "initial_c"):
        check_state(graph, node, INPUTS.index(state), state)
    hidden = options.get("hidden_size")
    if not isinstance(hidden, int) or hidden < 1:
        raise InterchangeError(f"{name} has hidden_size {shown(hidden)}, expected a number above 0")
    rows = GATES * hidden
    w = _weights(name, "W", inputs, graph, (count, rows, None))
    r = _weights(name, "R", inputs, graph, (count, rows, hidden))
    b = np.zeros((count, 2 * rows), np.float32)
    if inputs.get("B"):
        b = _weights(name, "B", inputs, graph, (count, 2 * rows))
    halves = b[:, :rows], b[:, rows:]
    return tuple(Direction(*(reordered(array[n], FROM_ONNX) for array in (w, r, *halves))) for n in range(count))


def _directions(name: str, options: dict) -> int:
    direction = _text(name, "direction", options.get("direction", b"forward"))
    for count, known in DIRECTIONS.items():
        if direction == known:
            return count
    raise InterchangeError(f"{name} has direction {shown(direction)}, expected {' or '.join(DIRECTIONS.values())}")


def _text(name: str, option: str, value) -> str:
    if not isinstance(value, bytes):
        raise InterchangeError(f"{name} has {option} {shown(value)}, expected a text")
    return value.decode(errors="backslashreplace")


def _refuse_other_cells(name: str, options: dict, inputs: dict, count: int) -> None:
    """Refuse a node whose cell differs from PyTorch's."""
    if inputs.get("P"):
        raise InterchangeError(f"{name} has peepholes (input P)")
    if options.get("clip"):
        raise InterchangeError(f"{name} has clip {shown(options['clip'])}")
    if options.get("input_forget"):
        raise InterchangeError(f"{name} has input_forget {shown(options['input_forget'])}: its gates are coupled")
    given = options.get("activations", [])
    activations = tuple(_text(name, "activations", each) for each in (given if isinstance(given, list) else [given]))
    if activations and tuple(activation.lower() for activation in activations) != ACTIVATIONS * count:
        raise InterchangeError(f"{name} has activations {brief(', '.join(activations))}, expected Sigmoid, Tanh, Tanh")


def _weights(name: str, letter: str, inputs: dict, graph: Graph, expected: tuple) -> np.ndarray:
    """Give the constant that an input reads; None in the expected shape is any size."""
    try:
        array = graph.constant(inputs.get(letter))
    except InterchangeError as error:
        raise InterchangeError(f"{name}: its {letter} cannot be read: {error}") from error
    if array is None:
        raise InterchangeError(f"{name}: its {letter} is not stored in the file but computed in the graph")
    fits = len(array.shape) == len(expected) and all(e in (None, n) for n, e in zip(array.shape, expected, strict=True))
    if not (fits and array.size):
        shape = ", ".join("any" if size is None else str(size) for size in expected)
        raise InterchangeError(
            f"{name}: its {letter} has shape {array.shape}, expected ({shape}): a projection, or damaged"
        )
    return array


Axes = list[tuple[str, ...]]  # by axis the axes that were merged into it; none for a single direction

SAME = ("Identity", "Cast", "Dropout")  # Dropout: as in inference
BETWEEN = (*SAME, "Concat", "Transpose", "Squeeze", "Reshape")
BEFORE_STATE = (*SAME, "Slice", "Transpose", "Squeeze", "Unsqueeze", "Reshape", "Expand", "Gather", "Split")
STEPS_FIRST, BATCH_FIRST = range(2)  # the attribute layout


def check_stack(graph: Graph, nodes: list) -> None:
    """Check that each LSTM node, in the graph's order, reads the whole Y of the node before, its elements in order.

    Both of PyTorch's exporters lay the directions side by side: a single direction with Squeeze, two with Transpose and
    Reshape. If a node reads something else, the :class:`InterchangeError` names the node and what it reads.
    """
    for before, node in pairwise(nodes):
        end, passed = graph.trace(_input(node, 0), BETWEEN)
        source, output = graph.source(end) or (None, 0)
        expected = f"expected Y of {name_of(before)}: the nodes are no stack"
        if source is None:
            raise InterchangeError(f"{name_of(node)} reads {shown(end)}, {expected}")
        if source is not before or output:
            raise InterchangeError(f"{name_of(node)} reads output {output} of {name_of(source)}, {expected}")
        axes, wanted = _axes_of(graph, before)
        for each in passed:
            axes = _moved(graph, each, axes, wanted)
        if axes != wanted:
            raise InterchangeError(f"{name_of(node)} reads axes {_axes_text(axes)} of Y, expected {_axes_text(wanted)}")


def check_state(graph: Graph, node, position: int, state: str) -> None:
    """Check that an initial state of an LSTM node is zero or an input of the graph.

    The :class:`InterchangeError` names a state that is not zero, or that an operator not known here computes.
    """
    end, _ = graph.trace(_input(node, position), BEFORE_STATE)
    values = graph.constant(end)
    if np.any(0 if values is None else values):
        raise InterchangeError(f"{name_of(node)} has a constant {state} that is not zero")
    if end and values is None and end not in graph.inputs:
        source, _ = graph.source(end) or (None, 0)
        computed = shown(end) if source is None else f"{shown(end)} of {name_of(source)}"
        raise InterchangeError(f"{name_of(node)}: its {state} is {computed}, expected zeros or an input of the graph")


def _input(node, position: int) -> str:
    return node.input[position] if position < len(node.input) else ""


def _axes_of(graph: Graph, node) -> tuple[Axes, Axes]:
    """Give the axes of a node's Y, and those of the X that the next node must read."""
    options = graph.options(node)
    direction = ("D",) if options.get("direction") == b"bidirectional" else ()
    layout = options.get("layout", STEPS_FIRST)
    if layout == BATCH_FIRST:
        return [("B",), ("T",), direction, ("H",)], [("B",), ("T",), (*direction, "H")]
    return [("T",), direction, ("B",), ("H",)], [("T",), ("B",), (*direction, "H")]


def _moved(graph: Graph, node, axes: Axes, wanted: Axes) -> Axes:
    """Give the axes behind a node of ``BETWEEN``."""
    if node.op_type == "Transpose":
        order = graph.numbers(node, "perm") or list(range(len(axes))[::-1])
        if sorted(order) == list(range(len(axes))):
            return [axes[number] for number in order]
    elif node.op_type == "Squeeze":
        return _squeezed(graph, node, axes)
    elif node.op_type == "Reshape" and sum(axes, ()) == sum(wanted, ()):
        return wanted  # the next node's W checks the last size; a reshape keeps the order of the elements
    elif node.op_type in SAME or (node.op_type == "Concat" and len(node.input) == 1):
        return axes
    raise InterchangeError(
        f"{name_of(node)} between two LSTM nodes changes axes {_axes_text(axes)}, expected {_axes_text(wanted)}"
    )


def _squeezed(graph: Graph, node, axes: Axes) -> Axes:
    option = graph.numbers(node, "axes")  # before opset 13; then an input
    numbers = graph.constant(_input(node, 1)) if option is None else np.asarray(option)
    if numbers is None or numbers.dtype.kind != "i":
        raise InterchangeError(f"{name_of(node)} between two LSTM nodes has no constant axes")
    squeezed = {int(number) % len(axes) for number in np.ravel(numbers)}
    if any(axes[number] for number in squeezed):
        raise InterchangeError(
            f"{name_of(node)} between two LSTM nodes squeezes {sorted(squeezed)} of axes {_axes_text(axes)}"
        )
    return [axis for number, axis in enumerate(axes) if number not in squeezed]


def _axes_text(axes: Axes) -> str:
    return f"({', '.join('·'.join(axis) or '1' for axis in axes)})"
