"""Sealed files: a description and tensors in one safetensors file, written atomically and checked by a digest.

Nothing in such a file depends on device, clock or machine: equal contents are equal bytes.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, SerializerFunctionWrapHandler, model_serializer
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from etalstm.errors import CheckpointError
from etalstm.host.durable import write_whole
from etalstm.host.strict import check

DEEPEST = 20  # lists and objects inside one another; a description has five


class Record(BaseModel):
    """A description, or a record in one: no field is converted, none may be added."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
    # Fields that came after files were written: left out while they have their default, so that equal runs of all
    # versions leave equal bytes.
    LATER: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _without_later(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found, fields = dump(self), type(self).model_fields
        return {name: v for name, v in found.items() if name not in self.LATER or v != fields[name].default}


class Progress(Record):
    """Where a run is."""

    iteration: NonNegativeInt  # done since the start
    # epoch, batch: the next one's numbers, from 0
    epoch: NonNegativeInt
    batch: NonNegativeInt


Described = TypeVar("Described", bound=Record)


@dataclass(frozen=True)
class Sealed(Generic[Described]):
    """The content of a sealed file. Each kind of file is a subclass."""

    # Of the description in the file's metadata. It is the only key: of several, the library would not keep the order.
    KEY: ClassVar[str]
    FORMAT: ClassVar[int]  # version of the kind of file, in the file beside the description
    WHAT: ClassVar[str]  # the kind in words, for messages
    DESCRIPTION: ClassVar[type]  # of the description, a subclass of :class:`Record`
    TENSORS: ClassVar[tuple[type[np.generic], ...]] = (np.float32,)  # what numbers the tensors may have
    # Tensors whose names begin so may have NaN, for values that are not known. All others are finite.
    MAY_BE_NAN: ClassVar[str | tuple[str, ...]] = ()

    description: Described
    tensors: dict[str, np.ndarray]

    def write(self, path: Path) -> None:
        """Write the file atomically: at any moment it is the old file or the new one.

        Raises ``OSError`` if it cannot be written; the old file is untouched and the temporary one removed.
        """
        write_sealed(path, self.KEY, {**self.description.model_dump(), "format": self.FORMAT}, self.tensors)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file and check its digest, its description and its tensors.

        Raises :class:`CheckpointError`, naming the file, and the field or tensor that is wrong, or a format other than
        this program's.
        """
        if not path.is_file():
            raise CheckpointError(f"{path}: there is no {cls.WHAT}")
        found, tensors = _load(path, cls.KEY)
        if not isinstance(found, dict) or not isinstance(found.get("format"), int):
            raise CheckpointError(f"{path}: not a {cls.WHAT}")
        if (version := found["format"]) != cls.FORMAT:
            known = found.get("version")
            age = "an older" if version < cls.FORMAT else "a newer"
            writer = f"eta-lstm {known:.20}" if isinstance(known, str) else f"{age} version of eta-lstm"
            raise CheckpointError(f"{path}: written by {writer} (format {version}); this one reads format {cls.FORMAT}")
        expected = found.pop("sha256", None)
        if digest(found, tensors) != expected:
            raise CheckpointError(f"{path}: corrupted: its content does not match its digest")
        del found["format"]
        description: Any = check(cls.DESCRIPTION, found, path, CheckpointError)
        cls._check_tensors(path, tensors)
        return cls(description, tensors)

    @classmethod
    def _check_tensors(cls, path: Path, tensors: dict[str, np.ndarray]) -> None:
        for name, array in tensors.items():
            if array.dtype not in cls.TENSORS:
                expected = " or ".join(np.dtype(kind).name for kind in cls.TENSORS)
                raise CheckpointError(f"{path}: tensor {name} must be {expected}, got {array.dtype}")
            if not name.startswith(cls.MAY_BE_NAN) and not np.isfinite(array).all():
                wrong = array[~np.isfinite(array)][0]
                raise CheckpointError(f"{path}: tensor {name} must be finite, but holds {wrong}")

    def check_shapes(self, path: Path, shapes: dict[str, tuple[int, ...]]) -> None:
        """Raise :class:`CheckpointError` unless the tensors have these names and shapes."""
        found = {name: array.shape for name, array in self.tensors.items()}
        for name in sorted(shapes | found):
            if shapes.get(name) != found.get(name):
                raise CheckpointError(f"{path}: tensor {name} has shape {found.get(name)}, expected {shapes.get(name)}")


def check_same(
    path: Path, theirs: Mapping[str, Any], ours: Mapping[str, Any], may_differ: Collection[str] = ()
) -> None:
    """Refuse to go on from a checkpoint of another run: :class:`CheckpointError` names the first entry that differs.

    `theirs` defines the checkpoint's run, `ours` the run that is to go on; names in `may_differ` are not compared.
    """
    for name in {**ours, **theirs}:
        if name not in may_differ and theirs.get(name) != ours.get(name):
            raise CheckpointError(
                f"{path}: of another run: its {name} is {theirs.get(name)}, here it is {ours.get(name)}"
            )


def write_sealed(path: Path, key: str, description: dict, tensors: dict[str, np.ndarray]) -> None:
    """Write a sealed file with a description given as a dict; :meth:`Sealed.write` gives that of its model."""
    sealed = description | {"sha256": digest(description, tensors)}
    contiguous = {name: np.asarray(array, order="C") for name, array in tensors.items()}  # a scalar stays one
    write_whole(path, save(contiguous, {key: json.dumps(sealed, sort_keys=True)}))


def digest(description: dict, tensors: dict[str, np.ndarray]) -> str:
    """Give the SHA-256 of a description and tensors, in hexadecimal."""
    summary = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
    for name in sorted(tensors):
        summary.update(f"{name} {tensors[name].dtype} {tensors[name].shape}".encode())
        summary.update(np.ascontiguousarray(tensors[name]).tobytes())
    return summary.hexdigest()


def _load(path: Path, key: str) -> tuple[object, dict[str, np.ndarray]]:
    try:
        tensors = load(path.read_bytes())
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(key, "null")
        if _depth(text) > DEEPEST:
            raise CheckpointError(f"{path}: its description has more than {DEEPEST} levels")
        return json.loads(text), tensors
    except (SafetensorError, ValueError, KeyError, OSError) as error:
        raise CheckpointError(f"{path}: truncated or not a safetensors file: {error}") from error


def _depth(text: str) -> int:
    """Count the brackets that are open at once in JSON; brackets inside strings are counted too."""
    depth = most = 0
    for character in text:
        depth += (character in "[{") - (character in "]}")
        most = max(most, depth)
    return most
