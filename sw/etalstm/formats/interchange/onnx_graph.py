"""An ONNX graph: the constants that it stores, and which node gives which value."""

from collections.abc import Collection
from math import prod

import numpy as np

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.onnx_data import DataFiles, brief, shown

DAMAGE = (ValueError, TypeError, KeyError, NotImplementedError)  # what onnx raises for a tensor that it cannot decode
MOST_AXES = 32  # of a tensor, as in NumPy 1
ELEMENT_BYTES = {
    "BOOL": 1, "INT8": 1, "UINT8": 1, "INT16": 2, "UINT16": 2, "INT32": 4, "UINT32": 4, "INT64": 8, "UINT64": 8,
    "FLOAT16": 2, "BFLOAT16": 2, "FLOAT": 4, "DOUBLE": 8,
}  # fmt: skip


def name_of(node) -> str:
    """Name a node in a message, with its operator."""
    return f"{brief(node.op_type)} node {shown(node.name or next(iter(node.output), ''))}"


class Graph:
    """A graph of an ONNX file.

    Parameters
    ----------
    onnx : module
    graph : onnx.GraphProto
    files : DataFiles
        Where external data are.

    Members
    -------
    nodes : list of onnx.NodeProto
    inputs : set of str
        Values that the graph is given.
    """

    def __init__(self, onnx, graph, files: DataFiles):
        self._onnx, self._files = onnx, files
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._sources = {name: (node, place) for node in graph.node for place, name in enumerate(node.output) if name}
        self.nodes, self.inputs = list(graph.node), {value.name for value in graph.input}

    def source(self, name: str) -> tuple[object, int] | None:
        """Give the node that computes a value, and which of its outputs the value is; None if no node does."""
        return self._sources.get(name)

    def options(self, node) -> dict:
        """Give a node's attributes; :class:`InterchangeError` if one of them has no known type."""
        try:
            return {each.name: self._onnx.helper.get_attribute_value(each) for each in node.attribute}
        except DAMAGE as error:
            raise InterchangeError(f"{name_of(node)} has a damaged attribute: {brief(error)}") from error

    def numbers(self, node, option: str) -> list[int] | None:
        """Give an attribute of integers, None if there is none of that name; an error for other values."""
        value = self.options(node).get(option)
        if value is None or (isinstance(value, list) and all(isinstance(each, int) for each in value)):
            return value
        raise InterchangeError(f"{name_of(node)} has {option} {shown(value)}, expected integers")

    def trace(self, name: str, operators: Collection[str]) -> tuple[str, list]:
        """Go back from a value, from the first output of a node to its first input.

        Parameters
        ----------
        name : str
        operators : collection of str
            Of the nodes to pass. The first other node ends the trace.

        Returns
        -------
        name of the value where the trace ends, and the nodes passed in the order of the computation

        Raises
        ------
        InterchangeError
            If a node has no input, or the nodes form a cycle.
        """
        passed: list = []
        while len(passed) <= len(self.nodes):
            node, place = self._sources.get(name, (None, 0))
            if node is None or place or node.op_type not in operators:
                return name, passed[::-1]
            if not node.input:
                raise InterchangeError(f"{name_of(node)} has no input")
            passed.append(node)
            name = node.input[0]
        raise InterchangeError(f"{name_of(passed[0])} depends on itself")

    def constant(self, name: str | None) -> np.ndarray | None:
        """Give a value that the file stores, None for every other; of a ConstantOfShape its one element.

        Raises
        ------
        InterchangeError
            If the data are damaged.
        """
        if name is None:
            return None
        name, _ = self.trace(name, ("Identity",))
        tensor, (node, _) = self._stored.get(name), self._sources.get(name, (None, 0))
        if tensor is None and node is not None:
            tensor = self._value_of(node)
        if tensor is None or isinstance(tensor, np.ndarray):
            return tensor
        return self._decoded(name, tensor)

    def _decoded(self, name: str, tensor) -> np.ndarray:
        """Decode a tensor of the file; nothing here needs constants of types that ``ELEMENT_BYTES`` has not."""
        if not isinstance(tensor, self._onnx.TensorProto):
            raise InterchangeError(f"the value of {shown(name)} is no tensor of numbers")
        try:
            size_bytes = self._size_of(name, tensor)
            if tensor.data_location == self._onnx.TensorProto.EXTERNAL:
                inside = self._onnx.TensorProto(data_type=tensor.data_type, dims=tensor.dims)
                inside.raw_data = self._files.read(tensor, size_bytes)
                tensor = inside
            return self._onnx.numpy_helper.to_array(tensor)
        except DAMAGE as error:
            raise InterchangeError(f"the data of {shown(name)} are damaged: {brief(error)}") from error

    def _size_of(self, name: str, tensor) -> int:
        """Give the bytes that a tensor's elements take; ``ValueError`` for a type that the library does not know."""
        element_type = self._onnx.TensorProto.DataType.Name(tensor.data_type)
        if element_type not in ELEMENT_BYTES:
            raise InterchangeError(f"the value of {shown(name)} is no tensor of numbers, it has type {element_type}")
        if len(tensor.dims) > MOST_AXES or min(tensor.dims, default=0) < 0:
            raise InterchangeError(f"the value of {shown(name)} has impossible shape {shown(list(tensor.dims))}")
        return prod(tensor.dims) * ELEMENT_BYTES[element_type]

    def _value_of(self, node):
        """Give a constant node's value, an array or a tensor of the file; None if there is no such value."""
        options = self.options(node)
        if node.op_type == "ConstantOfShape":
            return options.get("value", np.zeros(1, np.float32))
        if node.op_type != "Constant":
            return None
        if not options:
            raise InterchangeError(f"{name_of(node)} has no value")
        if isinstance(options.get("value_int"), int):
            return np.asarray(options["value_int"])
        numbers = self.numbers(node, "value_ints")
        return options.get("value") if numbers is None else np.asarray(numbers)
