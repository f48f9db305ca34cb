"""Sealed files: a description and tensors in one safetensors file, believed only if its digest agrees."""

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from etalstm.errors import CheckpointError
from etalstm.host.durable import write_whole
from etalstm.train.checkpoint import digest


def write_sealed(path: Path, key: str, description: dict, tensors: dict[str, np.ndarray]) -> None:
    """Write a file; at any moment it is the old one or the new one, whole.

    Parameters
    ----------
    path : Path
    key : str
        Of the description among the file's metadata.
    description : dict
        JSON, with ``format``.
    tensors : dict from name to array
    """
    sealed = description | {"sha256": digest(description, tensors)}
    write_whole(path, save(tensors, {key: json.dumps(sealed, sort_keys=True)}))


def read_sealed(path: Path, key: str, format: int, what: str) -> tuple[dict, dict[str, np.ndarray]]:
    """Read what :func:`write_sealed` wrote: description and tensors.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged, or no `what` in this format; the message names the file, and what is wrong.
    """
    description, tensors = _parts(path, key)
    if not isinstance(description, dict) or description.get("format") != format:
        raise CheckpointError(f"{path}: no {what} in format {format}")
    expected = description.pop("sha256", None)
    if digest(description, tensors) != expected:
        raise CheckpointError(f"{path}: corrupted: its content does not match its digest")
    return description, tensors


def check_identity(path: Path, theirs: dict, ours: dict) -> None:
    """Raise :class:`CheckpointError`, naming the entry, if a file's run is another one than that which goes on."""
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            raise CheckpointError(
                f"{path}: of another run: its {name} is {theirs.get(name)!r}, here it is {ours.get(name)!r}"
            )


def _parts(path: Path, key: str) -> tuple[object, dict[str, np.ndarray]]:
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint")
    try:
        tensors = load(path.read_bytes())
        with safe_open(path, framework="numpy") as file:
            return json.loads((file.metadata() or {}).get(key, "null")), tensors
    except (SafetensorError, ValueError, KeyError, OSError, RecursionError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file: {error}") from error
