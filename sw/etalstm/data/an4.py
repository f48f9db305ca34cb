"""AN4, the Census data base of Carnegie Mellon University: spelled words, numbers and names, as cepstra."""

import re
from pathlib import Path

import numpy as np

from etalstm.data.files import contents_of, decoded
from etalstm.data.sequences import hold_out
from etalstm.data.speech import Speech, Utterance, labels_of
from etalstm.errors import DataError

ARCHIVE = "an4_mfcc13.tar.xz"
MEMBERS = re.compile(r"^an4/(etc/an4_(train|test)\.(fileids|transcription)|feat/.*\.mfc)$")
COEFFICIENTS = 13  # of a frame of 10 ms
WORD_BYTES = 4
VALIDATION_SHARE = 0.12  # of the training speakers
LINE = re.compile(r"^(?P<text>.*\S)\s*\((?P<name>\S+)\)\s*$")


class An4(Speech):
    """948 utterances of 74 speakers for training and validation, 130 of 10 other speakers for test.

    Validation has all utterances of 9 of the training speakers, the same ones for every run. The test split is the
    published one.

    `directory` holds ``an4_mfcc13.tar.xz`` with these members, N being ``train`` or ``test``:

    - ``an4/etc/an4_N.fileids``: a file of features a line, as ``folder/speaker/name``
    - ``an4/etc/an4_N.transcription``: a line for each of them, as ``CAPITAL LETTERS (name)``
    - ``an4/feat/folder/speaker/name.mfc``: a count, int32, then so many float32, all big-endian; 13 a frame

    Raises :class:`DataError` if the archive is missing or damaged, or a member is missing or malformed; the message
    names both.
    """

    def __init__(self, directory: Path, stack: int = 1):
        path = directory / ARCHIVE
        members = {name.removeprefix("an4/"): content for name, content in contents_of(path, MEMBERS)}
        speakers: dict[str, list[Utterance]] = {}
        for speaker, utterance in _utterances(path, members, "train"):
            speakers.setdefault(speaker, []).append(utterance)
        train, validation = hold_out(sorted(speakers), VALIDATION_SHARE)
        if not (train and validation):
            raise DataError(f"{path}: {len(speakers)} training speakers are too few to hold some out for validation")
        splits = {
            split: [utterance for speaker in names for utterance in speakers[speaker]]
            for split, names in (("train", train), ("validation", validation))
        }
        test = [utterance for _, utterance in _utterances(path, members, "test")]
        super().__init__(splits | {"test": test}, stack)


def _utterances(path: Path, members: dict[str, bytes], split: str) -> list[tuple[str, Utterance]]:
    """Give the utterances of a published split, each with its speaker."""
    ids, texts = (f"etc/an4_{split}.{ending}" for ending in ("fileids", "transcription"))
    transcriptions = _transcriptions(path, members, texts)
    found = []
    for number, file in enumerate(_lines(path, members, ids), 1):
        where, parts = f"{path}: {ids}, line {number}", file.strip().split("/")
        if len(parts) != 3 or not all(parts):
            raise DataError(f"{where}: expected folder/speaker/name, got {file[:60]!r}")
        labels = transcriptions.pop(parts[2], None)
        if labels is None:
            raise DataError(f"{where}: {parts[2]} has no transcription, or is there twice")
        member = f"feat/{file.strip()}.mfc"
        found.append((parts[1], Utterance(f"{path}: {member}", _frames(path, members, member), labels)))
    if transcriptions:
        raise DataError(f"{path}: {texts}: {next(iter(transcriptions))} is not among the file ids")
    return found


def _transcriptions(path: Path, members: dict[str, bytes], member: str) -> dict[str, np.ndarray]:
    """Give the labels of each utterance by its name."""
    found = {}
    for number, line in enumerate(_lines(path, members, member), 1):
        where = f"{path}: {member}, line {number}"
        match = LINE.match(line)
        if match is None:
            raise DataError(f"{where}: expected a text and (name), got {line[:60]!r}")
        if match["name"] in found:
            raise DataError(f"{where}: {match['name']} has a transcription already")
        try:
            found[match["name"]] = labels_of(" ".join(match["text"].split()))
        except ValueError as error:
            raise DataError(f"{where}: {error}") from error
    return found


def _lines(path: Path, members: dict[str, bytes], member: str) -> list[str]:
    return decoded(f"{path}: {member}", _content(path, members, member), "utf-8").splitlines()


def _content(path: Path, members: dict[str, bytes], member: str) -> bytes:
    if member not in members:
        raise DataError(f"{path}: an4/{member} is missing")
    return members[member]


def _frames(path: Path, members: dict[str, bytes], member: str) -> np.ndarray:
    """Give the frames of an utterance: float32, (F, 13)."""
    content, where = _content(path, members, member), f"{path}: {member}"
    count = int.from_bytes(content[:WORD_BYTES], "big", signed=True)
    if len(content) != WORD_BYTES * (1 + count):
        raise DataError(f"{where}: must be a count and so many float32, got a count of {count}, {len(content)} bytes")
    if not count or count % COEFFICIENTS:
        raise DataError(f"{where}: must hold frames of {COEFFICIENTS} numbers, at least 1, got {count} numbers")
    frames = np.frombuffer(content, ">f4", offset=WORD_BYTES).astype(np.float32).reshape(-1, COEFFICIENTS)
    if not np.isfinite(frames).all():
        frame, coefficient = np.argwhere(~np.isfinite(frames))[0]
        raise DataError(f"{where}: coefficient {coefficient} of frame {frame} is {frames[frame, coefficient]}")
    return frames
