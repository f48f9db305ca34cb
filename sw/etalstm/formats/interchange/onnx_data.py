"""Data of ONNX tensors that lie in files of their own, beside the model's; and how messages show what a file says."""

import os
import stat
from bisect import bisect_left, bisect_right
from pathlib import Path
from reprlib import Repr

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
    """The files beside a model's. Nothing outside of its folder is read, wherever a location or a link leads.

    The folder must belong to the user. Another user who may write to the folder or to a folder above can exchange a
    folder on the way to a file after the check, and the new one is followed.

    Parameters
    ----------
    model : Path
        The model's file.

    Members
    -------
    size_bytes : int
        Size of the model's file and of all parts of files that were read. A byte counts once, however many tensors it
        belongs to and whatever the names of its file.
    """

    def __init__(self, model: Path):
        self._folder = model.parent.resolve()
        self._parts: dict[tuple[int, int], list[tuple[int, int]]] = {}  # by file: first byte, end; sorted, disjoint
        self.size_bytes = 0
        status = model.stat()
        self._count(status, 0, status.st_size)

    def read(self, tensor, size_bytes: int) -> bytes:
        """Read a tensor's data.

        Parameters
        ----------
        tensor : onnx.TensorProto
            With external data.
        size_bytes : int
            Size of the tensor's elements. Data of another length are refused before anything is read.

        Raises
        ------
        InterchangeError
            If location, offset or length are not those of a part of a file in the model's folder, if the part has not
            ``size_bytes``, or if the file cannot be read.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data if entry.key in _ENTRIES}
        path = self._find(entries.get("location", ""))
        offset = _number("offset", entries.get("offset", "0"))
        length = _number("length", entries["length"]) if "length" in entries else None
        try:
            with open(path, "rb", opener=_opened) as file:
                return self._part(file, path.name, offset, length, size_bytes)
        except OSError as error:
            raise InterchangeError(f"its data in {shown(path.name)} cannot be read: {error.strerror}") from error

    def _part(self, file, name: str, offset: int, length: int | None, size_bytes: int) -> bytes:
        """Read a part of an open file; without a length the part goes to the end of the file."""
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
        """Add a part of a file to ``size_bytes``, without the bytes that have been counted before."""
        parts = self._parts.setdefault((status.st_dev, status.st_ino), [])
        low = bisect_left(parts, first, key=lambda part: part[1])
        high = bisect_right(parts, end, key=lambda part: part[0])
        merged = parts[low:high]
        if merged:
            first, end = min(first, merged[0][0]), max(end, merged[-1][1])
        self.size_bytes += end - first - sum(last - start for start, last in merged)
        parts[low:high] = [(first, end)]

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
