"""Checkpoints: one safetensors file that appears whole or not at all, and is believed only if its digest agrees.

The file holds nothing that depends on device, clock or machine: equal runs write equal bytes.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from etalstm.data.buckets import NONE
from etalstm.errors import CheckpointError
from etalstm.host.durable import write_whole
from etalstm.host.strict import check
from etalstm.network.weight_format import FLOAT32
from etalstm.train.control import LEAST, MOST

KEY = "etalstm"  # one key only: the library keeps no order among several, and equal runs must write equal bytes
FORMAT = 3
BY_STEP = "significance.profile", "significance.reach"  # tensors whose last axis is a distance from the end
MAY_BE_NAN = "significance."  # tensors of these names mark with NaN what is not known yet
DEEPEST = 20  # lists and objects inside one another; a description has five


class Part(BaseModel):
    """A part of a checkpoint's description: no field is converted, none may be added."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Identity(Part):
    """What defines the model, whatever it is trained on and however.

    Members
    -------
    cell : str
    task : str                          one of :data:`etalstm.data.TASKS`
    input_size, hidden_size, layers : int
    outputs : int                       classes, or numbers of a sequence
    tokens : int                        different tokens; 0 where inputs are vectors
    tied : bool                         the output layer's weights are the embedding
    encoding : str                      digest of :class:`etalstm.data.Encoding`
    """

    cell: Literal["lstm", "hlstm"] = "lstm"
    task: Literal["classify", "language", "regress", "tag"]
    input_size: PositiveInt
    hidden_size: PositiveInt
    layers: PositiveInt
    outputs: PositiveInt
    tokens: NonNegativeInt
    tied: bool = False
    encoding: str = ""

    @property
    def per_step(self) -> bool:
        """There is an answer at every step, or one at a sequence's last."""
        return self.task in ("language", "tag")


class Origin(Part):
    """What else must agree for a run to go on with the same bits."""

    dataset: str
    data: NonNegativeInt
    batch: PositiveInt
    steps: PositiveInt
    slices: PositiveInt
    seed: NonNegativeInt
    optimizer: str
    input_threshold: str = "0"
    refresh: NonNegativeInt = 1
    input_target: float | None = None
    weight_format: str = FLOAT32
    buckets: str = NONE


class ChooserState(Part):
    """What the storage ``auto`` has seen, see :class:`etalstm.train.chooser.Chooser`."""

    dense_for: list[NonNegativeInt]
    words: list[float]
    deltas: list[float]
    iterations: NonNegativeInt


class Watched(Part):
    """A validation loss that is watched: the lowest, and for how many epochs there has been none below."""

    best: float | None = None
    epochs: NonNegativeInt = 0


class Position(Part):
    """Where a run is.

    Members
    -------
    iteration : int                 done since the start
    epoch, batch : int              the next one's numbers, from 0
    chooser : ChooserState
    delta_threshold : float, or None where δ is not pruned
    input_threshold : float         Θ where a target moves it; None without one, and as long as everything is sent
    best : Watched                  for the best checkpoint and early stopping
    plateau : Watched               for the schedule ``plateau``
    falls : int                     how often that schedule has lowered the learning rate
    """

    iteration: NonNegativeInt
    epoch: NonNegativeInt
    batch: NonNegativeInt
    chooser: ChooserState
    delta_threshold: float | None = Field(None, ge=0)
    input_threshold: float | None = Field(None, ge=LEAST, le=MOST)
    best: Watched = Watched()
    plateau: Watched = Watched()
    falls: NonNegativeInt = 0


class Pcg64(Part):
    """The two numbers of 128 bits of the generator PCG64."""

    state: int = Field(ge=0, lt=1 << 128)
    inc: int = Field(ge=0, lt=1 << 128)


class Generator(Part):
    """State of NumPy's generator at the start of an epoch."""

    bit_generator: Literal["PCG64"]
    state: Pcg64
    has_uint32: int = Field(ge=0, le=1)
    uinteger: int = Field(ge=0, lt=1 << 32)


class Description(Part):
    """All of a checkpoint but its tensors."""

    format: Literal[FORMAT] = FORMAT
    model: Identity
    run: Origin
    position: Position
    generator: Generator


@dataclass(frozen=True)
class Checkpoint:
    """Everything a run needs to go on with the same bits.

    Members
    -------
    description : Description
    tensors : dict of arrays, float32
    """

    description: Description
    tensors: dict[str, np.ndarray]

    def up_to(self, steps: int) -> "Checkpoint":
        """Give the checkpoint of a run with fewer steps: nothing is known of cells further from the end."""
        run = self.description.run.model_copy(update={"steps": steps})
        measured = {name: self.tensors[name][..., :steps] for name in BY_STEP}
        return Checkpoint(self.description.model_copy(update={"run": run}), self.tensors | measured)

    def check_shapes(self, path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise :class:`CheckpointError` unless the tensors have these names and shapes."""
        found = {name: array.shape for name, array in self.tensors.items()}
        for name in sorted(shapes | found):
            if shapes.get(name) != found.get(name):
                raise CheckpointError(f"{path}: tensor {name} has shape {found.get(name)}, expected {shapes.get(name)}")


def check_same(path: Path, found: Part, expected: Part) -> None:
    """Raise :class:`CheckpointError`, naming the field, unless what a checkpoint has is what this run has."""
    for name in type(expected).model_fields:
        theirs, ours = getattr(found, name), getattr(expected, name)
        if theirs != ours:
            raise CheckpointError(f"{path}: of another run: its {name} is {theirs}, here it is {ours}")


def write(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint so that at any moment `path` holds the old one or the new one, whole.

    Raises
    ------
    OSError
        If it cannot be written; the old one is untouched and the temporary file removed.
    """
    description = checkpoint.description.model_dump()
    description["sha256"] = digest(description, checkpoint.tensors)
    tensors = {name: np.ascontiguousarray(array) for name, array in checkpoint.tensors.items()}
    write_whole(path, save(tensors, {KEY: json.dumps(description, sort_keys=True)}))


def read(path: Path) -> Checkpoint:
    """Read a checkpoint, and believe it only if it is whole and everything in it is what it should be.

    Raises
    ------
    CheckpointError
        Naming the file and the field that is wrong.
    """
    description, tensors = _load(path)
    if not isinstance(description, dict) or not isinstance(description.get("format"), int):
        raise CheckpointError(f"{path}: not a checkpoint of this program")
    if (version := description["format"]) != FORMAT:
        age = "older" if version < FORMAT else "newer"
        raise CheckpointError(f"{path}: written by an {age} version (format {version}); this one reads format {FORMAT}")
    expected = description.pop("sha256", None)
    if digest(description, tensors) != expected:
        raise CheckpointError(f"{path}: corrupted: its content does not match its digest")
    checked = check(Description, description, path, CheckpointError)
    for name, array in tensors.items():
        if array.dtype != np.float32:
            raise CheckpointError(f"{path}: tensor {name} must be float32, got {array.dtype}")
        if not name.startswith(MAY_BE_NAN) and not np.isfinite(array).all():
            raise CheckpointError(f"{path}: tensor {name} must be finite, but holds {array[~np.isfinite(array)][0]}")
    return Checkpoint(checked, tensors)


def _load(path: Path):
    if not path.is_file():
        raise CheckpointError(f"{path}: there is no checkpoint to resume from")
    try:
        tensors = load(path.read_bytes())
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
        text = metadata.get(KEY, "null")
        if _depth(text) > DEEPEST:
            raise CheckpointError(f"{path}: its description has more than {DEEPEST} levels")
        return json.loads(text), tensors
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file: {error}") from error


def _depth(text: str) -> int:
    """Give how many brackets are open at once in a text; more than in JSON only where strings hold brackets."""
    depth = most = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        most = max(most, depth)
    return most


def digest(description: dict, tensors: dict[str, np.ndarray]) -> str:
    """Give the SHA-256 of a description and tensors, in hexadecimal."""
    summary = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        summary.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        summary.update(np.ascontiguousarray(tensors[name]).tobytes())
    return summary.hexdigest()
