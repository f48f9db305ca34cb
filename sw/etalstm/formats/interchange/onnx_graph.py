"""An ONNX graph: its constants, stored in its file or in files beside it, and the node that computes each value."""

import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from math import prod
from pathlib import Path
from reprlib import Repr

import numpy as np

from etalstm.errors import InterchangeError

_ENTRIES = ("location", "offset", "length")
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK  # a link has been resolved before; opening a FIFO would wait for a writer
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 100


def shown(value) -> str:
    """Write a value of a file into a message, shortened: it may be as long as the file."""
    return _SHORT.repr(value)


def brief(text) -> str:
    """Write a text, or an error, into a message, shortened and on one line."""
    return shown(str(text))[1:-1]


class DataFiles:
    """The files of external data beside the file of a `model`.

    Nothing outside of the model's folder is read: a location or a link that leads out of it is refused. The folder must
    belong to the user. Another user with write access to the folder, or to one above, could exchange a folder of the
    path between check and reading; the exchanged one would be read.

    ``size_bytes`` is the size of the model's file and of all byte ranges that were read. A byte counts once, even if
    several tensors or names of its file share it.
    """

    def __init__(self, model: Path):
        self._folder = model.parent.resolve()
        self._ranges: dict[tuple[int, int], list[tuple[int, int]]] = {}  # by file: first byte, end; sorted, disjoint
        self.size_bytes = 0
        status = model.stat()
        self._count(status, 0, status.st_size)

    def read(self, tensor, size_bytes: int) -> bytes:
        """Read the `size_bytes` of a tensor with external data. Other lengths are refused before they are read.

        Raises :class:`InterchangeError` if location, offset and length are no range of bytes of a file in the model's
        folder, if the range does not have ``size_bytes``, or if the file cannot be read.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data if entry.key in _ENTRIES}
        path = self._find(entries.get("location", ""))
        offset = _number("offset", entries.get("offset", "0"))
        length = _number("length", entries["length"]) if "length" in entries else None
        try:
            with open(path, "rb", opener=_opened) as file:
                return self._read_range(file, path.name, offset, length, size_bytes)
        except OSError as error:
            raise InterchangeError(f"its data in {shown(path.name)} cannot be read: {error.strerror}") from error

    def _read_range(self, file, name: str, offset: int, length: int | None, size_bytes: int) -> bytes:
        """Read a range of bytes of an open file; without a length it goes to the end of the file."""
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InterchangeError(f"its data are in {shown(name)}, which is no regular file")
        if length is None:
            length = max(0, status.st_size - offset)
        end = offset + length
        if end > status.st_size:
            raise InterchangeError(f"bytes {offset} to {end} of {shown(name)} do not exist, it has {status.st_size}")
        if length != size_bytes:
            raise InterchangeError(f"its data in {shown(name)} have {length} bytes, its shape needs {size_bytes}")
        file.seek(offset)
        data = file.read(length)
        if len(data) != length:
            raise InterchangeError(f"{shown(name)} became shorter while it was read")
        self._count(status, offset, end)
        return data

    def _count(self, status: os.stat_result, first: int, end: int) -> None:
        """Add a range of bytes to ``size_bytes``, without the bytes that have been counted before."""
        ranges = self._ranges.setdefault((status.st_dev, status.st_ino), [])
        low = bisect_left(ranges, first, key=lambda counted: counted[1])
        high = bisect_right(ranges, end, key=lambda counted: counted[0])
        merged = ranges[low:high]
        if merged:
            first, end = min(first, merged[0][0]), max(end, merged[-1][1])
        self.size_bytes += end - first - sum(last - start for start, last in merged)
        ranges[low:high] = [(first, end)]

    def _find(self, location: str) -> Path:
        """Give the path that a location leads to, with all links resolved. The file need not exist."""
        try:
            path = (self._folder / location).resolve()
            is_inside = self._folder in path.parents
        except (ValueError, OSError, RuntimeError):  # a zero byte, a name that is too long, links in a circle
            is_inside = False
        if not is_inside:
            raise InterchangeError(f"its data are in {shown(location)}, expected a file in the model's folder")
        return path


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | _FLAGS)


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InterchangeError(f"its data have {name} {shown(text)}, expected a number of bytes")
    return int(text)


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
    """A graph of an ONNX file: its `nodes`, and the names of its `inputs`. `files` have external data."""

    def __init__(self, onnx, graph, files: DataFiles):
        self._onnx, self._files = onnx, files
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._sources = {name: (node, output) for node in graph.node for output, name in enumerate(node.output) if name}
        self.nodes, self.inputs = list(graph.node), {value.name for value in graph.input}

    def source(self, name: str) -> tuple[object, int] | None:
        """Give the node that computes a value, and the number of the output; None if no node does."""
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
        """Follow a value back through nodes of `operators`, from the first output of a node to its first input.

        Any other node ends the trace. Gives the name of the value where the trace ends, and the nodes passed in the
        order of the computation. :class:`InterchangeError` if a node has no input, or the nodes form a cycle.
        """
        passed: list = []
        while len(passed) <= len(self.nodes):
            node, output = self._sources.get(name, (None, 0))
            if node is None or output or node.op_type not in operators:
                return name, passed[::-1]
            if not node.input:
                raise InterchangeError(f"{name_of(node)} has no input")
            passed.append(node)
            name = node.input[0]
        raise InterchangeError(f"{name_of(passed[0])} depends on itself")

    def constant(self, name: str | None) -> np.ndarray | None:
        """Give a value if the file stores it, else None; of a ConstantOfShape its one element.

        :class:`InterchangeError` if the data are damaged.
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
        """Decode a tensor of the file, of one of the types in ``ELEMENT_BYTES``."""
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
