"""Reads the files that a user brings: only regular ones, of a size that memory holds, and whole texts."""

from pathlib import Path

from etalstm.errors import DataError

LARGEST_BYTES = 1 << 29  # tokens and targets of a text take some sixteen times its bytes


def check_file(path: Path) -> None:
    """Raise :class:`DataError` unless `path` is a regular file of at most ``LARGEST_BYTES``; nothing is read."""
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not path.is_file():
        raise DataError(f"{path}: must be a regular file")
    if size > LARGEST_BYTES:
        raise DataError(f"{path}: has {size:,} bytes, at most {LARGEST_BYTES:,} are read into memory")


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a text file whole; a byte order mark at its start is left out.

    Raises
    ------
    DataError
        If it is no regular file, too large, cannot be read or decoded, has a NUL byte, or is empty; the message names
        it, and the place.
    """
    check_file(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if b"\0" in content:
        raise DataError(f"{path}: no text: byte {content.index(0)} is NUL{_line_of(content, content.index(0))}")
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        place = _line_of(content, error.start)
        raise DataError(f"{path}: damaged: byte {error.start} is not {encoding}{place}") from error
    if not text.strip():
        raise DataError(f"{path}: empty")
    return text


def _line_of(content: bytes, position: int) -> str:
    start = content.rfind(b"\n", 0, position) + 1
    return f" (line {content.count(10, 0, position) + 1}, byte {position - start + 1} of it)"


def read_lines(directory: Path, name: str, encoding: str) -> list[str]:
    """Read the lines of a text file in a directory; raises as :func:`read_text`, and if there is no such directory."""
    if not directory.is_dir():
        raise DataError(f"{directory}: there is no such directory of data")
    if not (directory / name).exists():
        raise DataError(f"{directory / name}: missing; the directory must hold {name}")
    return read_text(directory / name, encoding).splitlines()
