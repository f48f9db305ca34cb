"""Atomic writes: a file is complete or absent, even after a crash, a full disk or a power cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Context whose ``OSError`` names a file; by itself, the error of a write to a full disk does not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: under a temporary name, flushed to the disk, then renamed over an older file.

    The folder must exist; text is written as UTF-8. Raises ``OSError`` naming the file, also if the disk is full; then
    nothing has changed.
    """
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Context that gives a file to write, piece by piece, in the place of an older one: as :func:`write_whole`."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path):
            with open(temporary, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)  # the new name itself must survive a power cut


class AppendedFile:
    """A file that is written piece by piece, each flushed at once. A context manager that closes it."""

    def __init__(self, path: Path, mode: str, encoding: str | None = None):
        self.path = path
        self._file = open(path, mode, encoding=encoding)  # noqa: SIM115  closed by close()

    def append(self, content: str | bytes) -> None:
        """Write a piece; ``OSError`` names the file."""
        with naming(self.path):
            self._file.write(content)
            self._file.flush()

    def close(self) -> None:
        """Close the file; buffered content that could not be written before is tried once more."""
        with naming(self.path):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
