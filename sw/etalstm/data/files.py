"""Reads a user's files whole: only regular files, of a size that fits into memory."""

import codecs
import gzip
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from etalstm.errors import DataError

LARGEST_BYTES = 1 << 29  # tokens and targets of a text take some sixteen times its bytes
# The longer marks come first: that of UTF-32 begins with one of UTF-16.
_MARKS = dict.fromkeys((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE), "utf-32")
_MARKS |= dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16")
OPENERS = {".xz": lzma.LZMAFile, ".gz": gzip.GzipFile}  # by the ending of a packed file


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

    Raises :class:`DataError` if it is no regular file, too large, cannot be read or decoded, has a NUL byte, or is
    empty; the message names the file, and line and byte.
    """
    check_file(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return decoded(path, content, encoding)


def decoded(path: Path | str, content: bytes, encoding: str) -> str:
    """Give the text of a file's content; :class:`DataError` names the file, and line and byte.

    A byte order mark of UTF-16 or UTF-32 overrides the encoding: spreadsheets write such files.
    """
    encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), encoding)
    if b"\0" in content and encoding not in _MARKS.values():
        raise DataError(f"{path}: no text: byte {content.index(0)} is NUL{_line_of(content, content.index(0))}")
    try:
        text = content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = _line_of(content, error.start)
        raise DataError(f"{path}: damaged: byte {error.start} is not {encoding}{line}") from error
    if "\0" in text:
        raise DataError(f"{path}: no text: character {text.index(chr(0))} is NUL")
    if not text.strip():
        raise DataError(f"{path}: empty")
    return text


def _line_of(content: bytes, position: int) -> str:
    start = content.rfind(b"\n", 0, position) + 1
    return f" (line {content.count(10, 0, position) + 1}, byte {position - start + 1} of it)"


def read_file(directory: Path, name: str, encoding: str) -> str:
    """Read a text file in a directory; raises as :func:`read_text`, and if there is no such directory."""
    _check_directory(directory)
    if not (directory / name).exists():
        raise DataError(f"{directory / name}: missing; the directory must hold {name}")
    return read_text(directory / name, encoding)


def read_lines(directory: Path, name: str, encoding: str) -> list[str]:
    """Read the lines of a text file in a directory; raises as :func:`read_file`."""
    return read_file(directory, name, encoding).splitlines()


def packed_text(directory: Path, names: Sequence[str]) -> tuple[Path, str]:
    """Read the first of some UTF-8 files that a directory holds; give its path and text.

    A file that ends in ``.xz`` or ``.gz`` is decompressed. Raises :class:`DataError` as :func:`read_file`; and if none
    exists, or a compressed file is damaged or too large.
    """
    _check_directory(directory)
    path = next((directory / name for name in names if (directory / name).exists()), None)
    if path is None:
        raise DataError(f"{directory}: the directory must hold {' or '.join(names)}")
    if path.suffix not in OPENERS:
        return path, read_text(path)
    check_file(path)
    try:
        with OPENERS[path.suffix](path) as file:
            content = file.read(LARGEST_BYTES + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise DataError(f"{path}: damaged: {error}") from error
    _check_unpacked(path, len(content))
    return path, decoded(path, content, "utf-8")


def members_of(path: Path, pattern: re.Pattern) -> Iterator[tuple[str, str]]:
    """Read name and text of the UTF-8 files in an archive (``.tar.xz``) whose names match a pattern.

    Raises :class:`DataError` as :func:`contents_of`, and if a file is no text.
    """
    for name, content in contents_of(path, pattern):
        yield name, decoded(f"{path}: {name}", content, "utf-8")


def contents_of(path: Path, pattern: re.Pattern) -> Iterator[tuple[str, bytes]]:
    """Read name and content of the members of an archive (``.tar.xz``) whose names match a pattern.

    Nothing is unpacked to the disk. Raises :class:`DataError` if the archive is missing, damaged or too large.
    """
    _check_directory(path.parent)
    check_file(path)
    size = 0
    try:
        with tarfile.open(path, "r:xz") as archive:
            for member in archive:
                if not member.isfile() or not pattern.search(member.name):
                    continue
                size += member.size
                _check_unpacked(path, size)
                if (file := archive.extractfile(member)) is not None:
                    yield member.name, file.read()
    except (OSError, EOFError, lzma.LZMAError, tarfile.TarError) as error:
        raise DataError(f"{path}: damaged: {error}") from error


def _check_unpacked(path: Path, size: int) -> None:
    if size > LARGEST_BYTES:
        raise DataError(f"{path}: decompressed it has more than the {LARGEST_BYTES:,} bytes that are read into memory")


def _check_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise DataError(f"{directory}: there is no such directory of data")
