"""Files that are whole or not there, also after a crash, a full disk or a power cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Have every ``OSError`` of the block name a file: that of a write to a full disk does not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file beside its name, have it on the disk, then give it the name; an older file stays until then.

    Its folder is there already; text is written as UTF-8. Raises ``OSError`` naming the file, also where the disk is
    full; then nothing has changed.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with naming(path):
            with open(temporary, "wb") as file:
                file.write(data)
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
        """Close the file; what could not be written before is tried once more."""
        with naming(self.path):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
