"""Reads the text files of data sets that a user brings."""

from pathlib import Path

from etalstm.errors import DataError


def read_lines(directory: Path, name: str, encoding: str) -> list[str]:
    """Read a text file's lines.

    Raises
    ------
    DataError
        If the directory or file is not there, cannot be read or decoded, or is empty; the message names it.
    """
    if not directory.is_dir():
        raise DataError(f"{directory}: there is no such directory of data")
    path = directory / name
    try:
        lines = path.read_text(encoding=encoding).splitlines()
    except FileNotFoundError as error:
        raise DataError(f"{path}: missing; the directory must hold {name}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: damaged: byte {error.start} is not {encoding}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    if not any(line.strip() for line in lines):
        raise DataError(f"{path}: empty")
    return lines
