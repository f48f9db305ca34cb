"""Data of ONNX tensors that lie in files of their own, beside the model's; and how messages show what a file says."""

from pathlib import Path
from reprlib import Repr

from etalstm.errors import InterchangeError

_ENTRIES = ("location", "offset", "length")
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

    Parameters
    ----------
    model : Path
        The model's file.

    Members
    -------
    size_bytes : int
        Of the model's file and of all files that were read.
    """

    def __init__(self, model: Path):
        self._folder = model.parent.resolve()
        self._sizes = {model.resolve(): model.stat().st_size}

    @property
    def size_bytes(self) -> int:
        """Sizes of the files, each counted once."""
        return sum(self._sizes.values())

    def read(self, tensor) -> bytes:
        """Read a tensor's data.

        Parameters
        ----------
        tensor : onnx.TensorProto
            With external data.

        Raises
        ------
        InterchangeError
            If location, offset or length are not those of a part of a file in the model's folder.
        """
        entries = {entry.key: entry.value for entry in tensor.external_data if entry.key in _ENTRIES}
        path = self._find(entries.get("location", ""))
        size = self._sizes[path] = path.stat().st_size
        offset = _number("offset", entries.get("offset", "0"))
        length = _number("length", entries.get("length", str(max(0, size - offset))))
        if offset + length > size:
            raise InterchangeError(
                f"bytes {offset} to {offset + length} of {shown(path.name)} do not exist, it has {size}"
            )
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def _find(self, location: str) -> Path:
        try:
            path = (self._folder / location).resolve()
            is_inside = self._folder in path.parents and path.is_file()
        except (ValueError, OSError, RuntimeError):  # a zero byte, a name that is too long, links in a circle
            is_inside = False
        if not is_inside:
            raise InterchangeError(f"its data are in {shown(location)}, expected a file in the model's folder")
        return path


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InterchangeError(f"its data have {name} {shown(text)}, expected a number of bytes")
    return int(text)
