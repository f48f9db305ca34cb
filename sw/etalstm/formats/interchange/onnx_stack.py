"""Whether the LSTM nodes of an ONNX graph are connected as the layers of PyTorch's LSTM are.

Axes: T steps, D directions, B sequences, H units.
"""

from itertools import pairwise

import numpy as np

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_data import shown
from etalstm.formats.interchange.onnx_graph import Graph, name_of

Axes = list[tuple[str, ...]]  # by axis the axes that were merged into it; none for a single direction

SAME = ("Identity", "Cast", "Dropout")  # Dropout: as in inference
BETWEEN = (*SAME, "Concat", "Transpose", "Squeeze", "Reshape")
BEFORE_STATE = (*SAME, "Slice", "Transpose", "Squeeze", "Unsqueeze", "Reshape", "Expand", "Gather", "Split")
STEPS_FIRST, BATCH_FIRST = range(2)  # the attribute layout


def check_stack(graph: Graph, nodes: list) -> None:
    """Check that each LSTM node reads all that the one before gives, and reads it in the same order.

    Both of PyTorch's exporters lay the directions side by side: with Squeeze for one of them, or with Transpose and
    Reshape.

    Parameters
    ----------
    graph : Graph
    nodes : list of onnx.NodeProto
        LSTM nodes in the graph's order.

    Raises
    ------
    InterchangeError
        If a node reads something else; the message names the node and what it reads.
    """
    for before, node in pairwise(nodes):
        end, passed = graph.trace(_input(node, 0), BETWEEN)
        source, place = graph.source(end) or (None, 0)
        expected = f"expected Y of {name_of(before)}: the nodes are no stack"
        if source is None:
            raise InterchangeError(f"{name_of(node)} reads {shown(end)}, {expected}")
        if source is not before or place:
            raise InterchangeError(f"{name_of(node)} reads output {place} of {name_of(source)}, {expected}")
        axes, wanted = _axes_of(graph, before)
        for each in passed:
            axes = _moved(graph, each, axes, wanted)
        if axes != wanted:
            raise InterchangeError(f"{name_of(node)} reads axes {_text(axes)} of Y, expected {_text(wanted)}")


def check_state(graph: Graph, node, position: int, state: str) -> None:
    """Check that an initial state of an LSTM node is zero or an input of the graph.

    Raises
    ------
    InterchangeError
        If it is not zero, or computed by an operator that is not known here; the message names it.
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
            return [axes[place] for place in order]
    elif node.op_type == "Squeeze":
        return _squeezed(graph, node, axes)
    elif node.op_type == "Reshape" and sum(axes, ()) == sum(wanted, ()):
        return wanted  # the next node's W checks the last size; a reshape keeps the order of the elements
    elif node.op_type in SAME or (node.op_type == "Concat" and len(node.input) == 1):
        return axes
    raise InterchangeError(
        f"{name_of(node)} between two LSTM nodes changes axes {_text(axes)}, expected {_text(wanted)}"
    )


def _squeezed(graph: Graph, node, axes: Axes) -> Axes:
    option = graph.numbers(node, "axes")  # before opset 13; then an input
    places = graph.constant(_input(node, 1)) if option is None else np.asarray(option)
    if places is None or places.dtype.kind != "i":
        raise InterchangeError(f"{name_of(node)} between two LSTM nodes has no constant axes")
    left = {int(place) % len(axes) for place in np.ravel(places)}
    if any(axes[place] for place in left):
        raise InterchangeError(f"{name_of(node)} between two LSTM nodes squeezes {sorted(left)} of axes {_text(axes)}")
    return [axis for place, axis in enumerate(axes) if place not in left]


def _text(axes: Axes) -> str:
    return f"({', '.join('·'.join(axis) or '1' for axis in axes)})"
