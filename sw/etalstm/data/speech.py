"""Recorded utterances in batches, with transcriptions as labels for CTC, connectionist temporal classification.

Dimensions: B utterances, T steps, F frames, C coefficients of a frame, L labels.
"""

import string
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from etalstm.data.dataset import check_split
from etalstm.data.sequences import pooled
from etalstm.errors import DataError
from etalstm.network.shape import check_size

BLANK = 0  # CTC's label of no character
CHARACTERS = " " + string.ascii_uppercase  # a character's label is its position here, plus 1
CLASSES = 1 + len(CHARACTERS)


def labels_of(text: str) -> np.ndarray:
    """Give the labels of a text: int64, (L,).

    Raises ``ValueError`` if a character is not one of ``CHARACTERS``; the message names it.
    """
    unknown = next((character for character in text if character not in CHARACTERS), None)
    if unknown is not None:
        raise ValueError(f"characters must be capital letters and spaces, got {unknown!r} in {text[:40]!r}")
    return np.array([1 + CHARACTERS.index(character) for character in text], np.int64)


def steps_needed(labels: np.ndarray) -> int:
    """Count the steps that CTC needs for labels (L,): one for each, and one for a blank between equal neighbours."""
    return len(labels) + int((labels[1:] == labels[:-1]).sum())


def collapsed(path: np.ndarray) -> np.ndarray:
    """Give the labels of a CTC path (T,), one label a step: repetitions are one label, blanks none."""
    begins = np.diff(path, prepend=BLANK) != 0
    return path[begins & (path != BLANK)]


def edit_distance(found: np.ndarray, expected: np.ndarray) -> int:
    """Count the fewest insertions, deletions and substitutions that make one sequence of labels the other."""
    positions = np.arange(len(expected) + 1)
    distances = positions  # from the labels of `found` so far to every prefix of `expected`
    for label in found:
        substituted = distances[:-1] + (expected != label)
        without_insertions = np.concatenate([distances[:1] + 1, np.minimum(distances[1:] + 1, substituted)])
        distances = np.minimum.accumulate(without_insertions - positions) + positions
    return int(distances[-1])


@dataclass(frozen=True)
class Utterance:
    """A recorded utterance and its transcription."""

    name: str
    frames: np.ndarray  # float32, (F, C)
    labels: np.ndarray  # int64, (L,): see :mod:`etalstm.data.speech`


@dataclass(frozen=True)
class SpeechBatch:
    """Utterances of an iteration, the longest first."""

    x: np.ndarray  # float32, (T, B, I): 0 after an utterance's end
    lengths: np.ndarray  # int64, (B,): steps of each, descending
    labels: np.ndarray  # int64, (ΣL,): of all utterances, one after the other
    label_lengths: np.ndarray  # int64, (B,)


class Speech:
    """Utterances in memory. Each coefficient is normalised by its mean and deviation in the training split.

    The splits are ``train``, ``validation`` and ``test``, none of them empty. `stack` consecutive frames make one step:
    I = ``stack`` · C. A last step without enough frames is filled with 0, the mean. Raises :class:`DataError` if an
    utterance has fewer steps than CTC needs for its labels.

    `input_size`: I. `steps`: of a mean training utterance, rounded up. `fingerprint`: of the data; the same for any
    `stack`.
    """

    def __init__(self, splits: dict[str, list[Utterance]], stack: int = 1):
        check_size("stack", stack)
        frames = np.concatenate([utterance.frames for utterance in splits["train"]]).astype(np.float64)
        mean, deviation = frames.mean(0), frames.std(0)
        scale = np.where(deviation > 0, deviation, 1.0)
        self._splits = {
            split: [
                Utterance(utterance.name, _stacked((utterance.frames - mean) / scale, stack), utterance.labels)
                for utterance in utterances
            ]
            for split, utterances in splits.items()
        }
        for utterance in (utterance for utterances in self._splits.values() for utterance in utterances):
            if len(utterance.frames) < steps_needed(utterance.labels):
                needed = f"{len(utterance.labels)} characters, which need {steps_needed(utterance.labels)}"
                steps = f"{len(utterance.frames)} steps of {stack} frames"
                raise DataError(f"{utterance.name}: {steps} are too few for {needed}")
        self.input_size = stack * frames.shape[1]
        lengths = [len(utterance.frames) for utterance in self._splits["train"]]
        self.steps = -(-sum(lengths) // len(lengths))
        self.fingerprint = _fingerprint(splits)

    def size(self, split: str) -> int:
        """Count the utterances of a split."""
        return len(self._splits[check_split(split)])

    def training(self, batch: int, generator: np.random.Generator) -> list[SpeechBatch]:
        """Cut the training split into full batches of utterances of similar length, in random order.

        Utterances that do not fill a batch are left out; each call leaves out others.

        Raises ``ValueError`` if there are fewer utterances than a batch has.
        """
        utterances = self._splits["train"]
        if batch > len(utterances):
            raise ValueError(f"batch must be at most {len(utterances)}, the utterances in train, got {batch}")
        order = generator.permutation(len(utterances))[: len(utterances) // batch * batch]
        cut = pooled(order, np.array([len(utterance.frames) for utterance in utterances]), batch)
        return [_batch([utterances[n] for n in cut[turn]]) for turn in generator.permutation(len(cut))]

    def evaluation(self, split: str, batch: int) -> list[SpeechBatch]:
        """Cut a split into batches, the shortest utterances first; the last batch may have fewer."""
        utterances = sorted(self._splits[check_split(split)], key=lambda utterance: len(utterance.frames))
        return [_batch(utterances[n : n + batch]) for n in range(0, len(utterances), batch)]


def _stacked(frames: np.ndarray, stack: int) -> np.ndarray:
    """Make steps (T, I), float32, of frames (F, C)."""
    missing = -len(frames) % stack
    return np.pad(frames, ((0, missing), (0, 0))).reshape(-1, stack * frames.shape[1]).astype(np.float32)


def _batch(utterances: Sequence[Utterance]) -> SpeechBatch:
    ordered = sorted(utterances, key=lambda utterance: -len(utterance.frames))
    lengths = np.array([len(utterance.frames) for utterance in ordered])
    x = np.zeros((lengths[0], len(ordered), ordered[0].frames.shape[1]), np.float32)
    for b, utterance in enumerate(ordered):
        x[: len(utterance.frames), b] = utterance.frames
    labels = np.concatenate([utterance.labels for utterance in ordered])
    return SpeechBatch(x, lengths, labels, np.array([len(utterance.labels) for utterance in ordered]))


def _fingerprint(splits: dict[str, list[Utterance]]) -> int:
    summary = zlib.crc32(repr([len(utterances) for utterances in splits.values()]).encode())
    for utterance in (utterance for utterances in splits.values() for utterance in utterances):
        summary = zlib.crc32(utterance.frames.tobytes(), summary)
        summary = zlib.crc32(utterance.labels.tobytes(), summary)
    return summary
