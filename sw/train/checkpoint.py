"""Checkpoints: one safetensors file that appears whole or not at all, and is believed only if its digest agrees.

The file holds nothing that depends on device, clock or machine: equal runs write equal bytes.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from etalstm.durable import write_whole
from etalstm.errors import CheckpointError

KEY = "etalstm"  # one key only: the library keeps no order among several, and equal runs must write equal bytes
FORMAT = 2
BEFORE_SLICES = {"slices": 1}  # in the network of a checkpoint that was written before runs had slices


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on with the same bits.

    Members
    -------
    network : dict
        Sizes and data the tensors belong to; :func:`read` compares it.
    position : dict
        ``iteration`` (done since the start), ``epoch`` and ``batch`` (the next one's numbers), ``chooser``: what the
        storage ``auto`` has seen, and ``delta_threshold`` of a run that prunes δ.
    generator : dict
        State of the NumPy generator at the start of that epoch.
    tensors : dict of arrays, float32
    """

    network: dict
    position: dict
    generator: dict
    tensors: dict[str, np.ndarray]


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint so that at any moment `path` holds the old one or the new one, whole.

    Raises
    ------
    OSError
        If it cannot be written; the old one is untouched and the temporary file removed.
    """
    description = {
        "format": FORMAT,
        "network": checkpoint.network,
        "position": checkpoint.position,
        "generator": checkpoint.generator,
    }
    description["sha256"] = _digest(description, checkpoint.tensors)
    tensors = {name: np.ascontiguousarray(array) for name, array in checkpoint.tensors.items()}
    write_whole(path, save(tensors, {KEY: json.dumps(description, sort_keys=True)}))


def read(path: Path, network: dict, shapes: dict[str, tuple[int, ...]]) -> Checkpoint:
    """Read a checkpoint and check that it is whole and belongs to this run.

    Parameters
    ----------
    path : Path
    network : dict
        What :attr:`Checkpoint.network` must be.
    shapes : dict
        The tensors' names and shapes.

    Raises
    ------
    CheckpointError
        Naming the file and what is wrong or differs.
    """
    description, tensors = _load_whole(path)
    for key in sorted(network | description["network"]):
        ours, theirs = network.get(key), description["network"].get(key)
        if ours != theirs:
            raise CheckpointError(f"{path}: of another run: its {key} is {theirs}, here it is {ours}")
    found = {name: array.shape for name, array in tensors.items()}
    for name in sorted(shapes | found):
        if shapes.get(name) != found.get(name):
            raise CheckpointError(f"{path}: tensor {name} has shape {found.get(name)}, expected {shapes.get(name)}")
    return Checkpoint(description["network"], description["position"], description["generator"], tensors)


def network_of(path: Path) -> dict:
    """Give the sizes and the data that a checkpoint belongs to; :class:`CheckpointError` if it is none, or damaged."""
    return _load_whole(path)[0]["network"]


def _load_whole(path: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Read description and tensors, and believe them only if the digest agrees."""
    description, tensors = _load(path)
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise CheckpointError(f"{path}: not a checkpoint of this program (format {FORMAT})")
    expected = description.pop("sha256", None)
    if _digest(description, tensors) != expected:
        raise CheckpointError(f"{path}: corrupted: its content does not match its digest")
    description["network"] = BEFORE_SLICES | description["network"]
    return description, tensors


def _load(path: Path):
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint to resume from")
    try:
        tensors = load(path.read_bytes())
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
        return json.loads(metadata.get(KEY, "null")), tensors
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file: {error}") from error


def _digest(description: dict, tensors: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
