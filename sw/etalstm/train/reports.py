"""Reports of a run besides its log: TensorBoard (its files are written without its package), Weights & Biases, MLflow.

Each report is called with every entry of the log, and is a context manager that closes it.
"""

import dataclasses
import importlib
import itertools
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from etalstm.errors import RunError
from etalstm.host.durable import AppendedFile
from etalstm.train.settings import Settings

EVENT_FILE = "events.out.tfevents"  # TensorBoard recognizes event files by this beginning of their names
LARGEST = float(np.finfo(np.float32).max)  # a scalar is stored as float32
_opened = itertools.count()  # files of one process may begin within one second
_POLYNOMIAL = 0x82F63B78  # CRC-32C, reflected
_MASK_DELTA = 0xA282EAD8  # records store rotated checksums, so that the checksum of a checksum is not trivial


_TABLE = list(range(256))
for _ in range(8):
    _TABLE = [value >> 1 ^ (_POLYNOMIAL if value & 1 else 0) for value in _TABLE]


def masked_crc32c(data: bytes) -> int:
    """Give the rotated CRC-32C of some bytes, as records store it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _message(number: int, content: bytes) -> bytes:
    """Encode a field that has a length (wire type 2)."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _event(wall_time: float, step: int, rest: bytes) -> bytes:
    """Give an ``Event``: wall_time is field 1, step field 2."""
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step) + rest


def _scalar(tag: str, value: float) -> bytes:
    """Give a ``Summary.Value``: tag is field 1, simple_value field 2."""
    return _message(1, _message(1, tag.encode()) + b"\x15" + struct.pack("<f", value))


def record(content: bytes) -> bytes:
    """Wrap a message as a record."""
    length = struct.pack("<Q", len(content))
    return b"".join(
        [length, struct.pack("<I", masked_crc32c(length)), content, struct.pack("<I", masked_crc32c(content))]
    )


Report = Callable[[dict], None]
POSITIONS = ("iteration", "epoch", "batches", "of_batches")  # of an entry: its position in the run, no measurements


def numbers(entry: dict) -> dict[str, float]:
    """Give the numbers of an entry, nested ones too, by names such as ``train/loss`` and ``validation/accuracy``."""
    split = entry.get("split", "train")
    found = {}
    for name, value in entry.items():
        inner = value if isinstance(value, dict) else {"": value}
        for key, number in inner.items():
            if name not in POSITIONS and isinstance(number, (int, float)) and not isinstance(number, bool):
                found[f"{split}/{name}" + (f"/{key}" if key else "")] = float(number)
    return found


class EventFile(AppendedFile):
    """A new event file of TensorBoard in a folder.

    A file is a sequence of records. A record is its length (8 bytes), a checksum of that, an ``Event`` message, and a
    checksum of that. The messages are few enough to be put together field by field. Source:
    ``tensorboard/compat/proto/event.proto`` and ``summary.proto``; the record format of TensorFlow's ``TFRecord``.

    `folder`: made if it is not there. TensorBoard shows all of a folder's files as one run. `resumed_at`: the last step
    that counts of the folder's other files; TensorBoard leaves out those after it.
    """

    def __init__(self, folder: Path, resumed_at: int | None = None):
        folder.mkdir(parents=True, exist_ok=True)
        now = time.time()
        name = f"{EVENT_FILE}.{int(now)}.{socket.gethostname()}.{os.getpid()}.{next(_opened)}"
        super().__init__(folder / name, "xb")
        self.append(record(_event(now, 0, _message(3, b"brain.Event:2"))))
        if resumed_at is not None:
            self.append(record(_event(now, resumed_at + 1, _message(7, b"\x08\x01"))))  # session_log: START

    def __call__(self, entry: dict) -> None:
        """Show an entry."""
        self.scalars(entry["iteration"], numbers(entry))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Append numbers by their tags at a step, from 0 on; those that are no finite float32 are shown as gaps."""
        finite = {tag: value for tag, value in values.items() if abs(value) <= LARGEST}
        if finite:
            content = b"".join(_scalar(tag, value) for tag, value in finite.items())
            self.append(record(_event(time.time(), step, _message(5, content))))


def both(one: Report, other: Report) -> Report:
    """Give a report that passes each entry on to two others."""

    def report(entry: dict) -> None:
        one(entry)
        other(entry)

    return report


class WandbReport:
    """A run of Weights & Biases, with the settings; the package ``wandb`` and its account are the user's."""

    def __init__(self, name: str, settings: Settings):
        self._run = _module("wandb").init(project="etalstm", name=name, config=dataclasses.asdict(settings))

    def __call__(self, entry: dict) -> None:
        """Show an entry."""
        self._run.log(numbers(entry), step=entry["iteration"])

    def __enter__(self) -> "WandbReport":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._run.finish(exit_code=int(kind is not None))


class MlflowReport:
    """A run of MLflow, with the settings; the package ``mlflow`` and its server are the user's."""

    def __init__(self, name: str, settings: Settings):
        self._mlflow = _module("mlflow")
        self._mlflow.set_experiment("etalstm")
        self._mlflow.start_run(run_name=name)
        self._mlflow.log_params(dataclasses.asdict(settings))

    def __call__(self, entry: dict) -> None:
        """Show an entry."""
        finite = {name: value for name, value in numbers(entry).items() if math.isfinite(value)}
        self._mlflow.log_metrics(finite, step=entry["iteration"])

    def __enter__(self) -> "MlflowReport":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._mlflow.end_run("FINISHED" if kind is None else "FAILED")


SERVICES: dict[str, type[WandbReport | MlflowReport]] = {"wandb": WandbReport, "mlflow": MlflowReport}
"""What ``--log`` may name."""


def open_service(service: str, name: str, settings: Settings) -> WandbReport | MlflowReport:
    """Open a report to a service, a key of :data:`SERVICES`, which calls the run by a name.

    Raises ``ValueError`` if there is no such service, and :class:`RunError` if its package is not installed.
    """
    if service not in SERVICES:
        raise ValueError(f"log must be one of {', '.join(SERVICES)}, got {service!r}")
    return SERVICES[service](name, settings)


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RunError(f"--log {name} needs the package {name}, which is not installed: pip install {name}") from error
