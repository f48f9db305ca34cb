"""Recorded utterances, batches of them, and transcriptions as labels of CTC, connectionist temporal classification.

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
CHARACTERS = " " + string.ascii_uppercase  # a character's label is its place here, plus 1
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
    """Count the steps that CTC needs for labels (L,): one each, and a blank between equal neighbours."""
    return len(labels) + int((labels[1:] == labels[:-1]).sum())


def collapsed(path: np.ndarray) -> np.ndarray:
    """Give the labels that a path (T,) of one label a step stands for: repetitions are one label, blanks none."""
    begins = np.diff(path, prepend=BLANK) != 0
    return path[begins & (path != BLANK)]


def edit_distance(found: np.ndarray, expected: np.ndarray) -> int:
    """Count the fewest insertions, deletions and substitutions that make one sequence of labels the other."""
    places = np.arange(len(expected) + 1)
    row = places  # distances of the part of `found` so far from every beginning of `expected`
    for label in found:
        substituted = row[:-1] + (expected != label)
        kept = np.concatenate([row[:1] + 1, np.minimum(row[1:] + 1, substituted)])
        row = np.minimum.accumulate(kept - places) + places  # insertions, however many
    return int(row[-1])


@dataclass(frozen=True)
class Utterance:
    """An utterance."""

    name: str
    frames: np.ndarray  # float32, (F, C)
    labels: np.ndarray  # int64, (L,): see :mod:`etalstm.data.speech`


@dataclass(frozen=True)
class SpeechBatch:
    """Utterances of an iteration, the longest first."""

    x: np.ndarray  # float32, (T, B, I): 0 after an utterance's end
    lengths: np.ndarray  # int64, (B,): steps of each, descending
    labels: np.ndarray  # int64, (ΣL,): of all of them, one after the other
    label_lengths: np.ndarray  # int64, (B,)


class Speech:
    """Utterances in memory. Each coefficient is normalised by its mean and deviation in the training split.

    The splits are ``train``, ``validation`` and ``test``, none of them empty. `stack` consecutive frames make one step:
    I = ``stack`` · C. A last step without enough frames is filled with 0, the mean. Raises :class:`DataError` if an
    utterance has fewer steps than CTC needs for its labels.

    `input_size`: I. `steps`: of a mean training utterance, rounded up. `fingerprint`: tells data apart, whatever the
    stack.
    """

    def __init__(self, splits: dict[str, list[Utterance]], stack: int = 1):
        check_size("stack", stack)
        frames = np.concatenate([one.frames for one in splits["train"]]).astype(np.float64)
        mean, deviation = frames.mean(0), frames.std(0)
        scale = np.where(deviation > 0, deviation, 1.0)
        self._splits = {
            split: [Utterance(one.name, _stacked((one.frames - mean) / scale, stack), one.labels) for one in utterances]
            for split, utterances in splits.items()
        }
        for one in (one for utterances in self._splits.values() for one in utterances):
            if len(one.frames) < steps_needed(one.labels):
                raise DataError(
                    f"{one.name}: {len(one.frames)} steps of {stack} frames are too few for {len(one.labels)} "
                    f"characters, which need {steps_needed(one.labels)}"
                )
        self.input_size = stack * frames.shape[1]
        lengths = [len(one.frames) for one in self._splits["train"]]
        self.steps = -(-sum(lengths) // len(lengths))
        self.fingerprint = _fingerprint(splits)

    def size(self, split: str) -> int:
        """Count the utterances of a split."""
        return len(self._splits[check_split(split)])

    def training(self, batch: int, generator: np.random.Generator) -> list[SpeechBatch]:
        """Cut the training split into full batches of utterances of similar length, in an order of the generator's.

        Utterances that do not fill a batch are left out, others each time.

        Raises ``ValueError`` if there are fewer utterances than a batch has.
        """
        utterances = self._splits["train"]
        if batch > len(utterances):
            raise ValueError(f"batch must be at most {len(utterances)}, the utterances in train, got {batch}")
        order = generator.permutation(len(utterances))[: len(utterances) // batch * batch]
        cut = pooled(order, np.array([len(one.frames) for one in utterances]), batch)
        return [_batch([utterances[n] for n in cut[turn]]) for turn in generator.permutation(len(cut))]

    def evaluation(self, split: str, batch: int) -> list[SpeechBatch]:
        """Cut a split into batches, the shortest utterances first; the last batch may have fewer."""
        utterances = sorted(self._splits[check_split(split)], key=lambda one: len(one.frames))
        return [_batch(utterances[n : n + batch]) for n in range(0, len(utterances), batch)]


def _stacked(frames: np.ndarray, stack: int) -> np.ndarray:
    """Make steps (T, I), float32, of frames (F, C)."""
    missing = -len(frames) % stack
    return np.pad(frames, ((0, missing), (0, 0))).reshape(-1, stack * frames.shape[1]).astype(np.float32)


def _batch(utterances: Sequence[Utterance]) -> SpeechBatch:
    ordered = sorted(utterances, key=lambda one: -len(one.frames))
    lengths = np.array([len(one.frames) for one in ordered])
    x = np.zeros((lengths[0], len(ordered), ordered[0].frames.shape[1]), np.float32)
    for b, one in enumerate(ordered):
        x[: len(one.frames), b] = one.frames
    labels = np.concatenate([one.labels for one in ordered])
    return SpeechBatch(x, lengths, labels, np.array([len(one.labels) for one in ordered]))


def _fingerprint(splits: dict[str, list[Utterance]]) -> int:
    summary = zlib.crc32(repr([len(utterances) for utterances in splits.values()]).encode())
    for one in (one for utterances in splits.values() for one in utterances):
        summary = zlib.crc32(one.frames.tobytes(), summary)
        summary = zlib.crc32(one.labels.tobytes(), summary)
    return summary
