"""TREC's questions: words, and after the last one which of six kinds of thing is asked for."""

import zlib
from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np

from etalstm.data.dataset import CLASSIFY, Batch, DataSet, check_split
from etalstm.data.encoding import UNKNOWN, WORDS, Encoding
from etalstm.data.files import read_lines
from etalstm.errors import DataError

FILES = {"train": "train_5500.label", "test": "TREC_10.label"}
KINDS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
STEPS = 18  # the longest question of the test split has 17 words, 1 in 25 of the training split has more
RARE = 0  # the token of a word that the training split has less than twice; padding has it too
VALIDATION_SHARE = 0.1  # of the training file
POOL = 16  # batches that are sorted by length together: enough for even lengths, too few to fix who meets whom


class Trec(DataSet):
    """5,452 questions for training and validation, 500 for test; words in lower case, the first T of each.

    Batches for training hold questions of similar length, so that few steps are padding.

    Parameters
    ----------
    directory : Path
        Holds ``train_5500.label`` and ``TREC_10.label``, a question a line: ``KIND:detail word word ...``, latin-1.

    Raises
    ------
    DataError
        If a file is missing or empty, or a line is not of that form; the message names file and line.
    """

    name: ClassVar[str] = "trec"
    input_size: ClassVar[None] = None
    task: ClassVar[str] = CLASSIFY
    masked: ClassVar[bool] = True

    def __init__(self, directory: Path):
        texts = {split: self._questions(directory, file) for split, file in FILES.items()}
        counts = Counter(word for _, words in texts["train"] for word in words)
        self.vocabulary = [None, *sorted(word for word, count in counts.items() if count > 1)]
        self.classes, self.steps = len(KINDS), STEPS
        tokens = (UNKNOWN, *self.vocabulary[1:])
        self.encoding = Encoding(WORDS, lower=True, tokens=tokens, unknown=RARE, labels=KINDS)
        number = {word: n for n, word in enumerate(self.vocabulary)}
        kinds = {split: np.array([kind for kind, _ in questions], np.int64) for split, questions in texts.items()}
        tokens = {
            split: [np.array([number.get(word, RARE) for word in words], np.int64) for _, words in questions]
            for split, questions in texts.items()
        }
        order = np.random.Generator(np.random.PCG64(0)).permutation(len(texts["train"]))  # the same for every run
        held = round(VALIDATION_SHARE * order.size)
        self._members = {
            "train": [(tokens["train"][n], kinds["train"][n]) for n in np.sort(order[held:])],
            "validation": [(tokens["train"][n], kinds["train"][n]) for n in np.sort(order[:held])],
            "test": list(zip(tokens["test"], kinds["test"], strict=True)),
        }
        self.fingerprint = zlib.crc32(repr(texts).encode())

    @property
    def tokens(self) -> int:
        """Different words, rare ones as one."""
        return len(self.vocabulary)

    @staticmethod
    def _questions(directory: Path, file: str) -> list[tuple[int, list[str]]]:
        questions = []
        for n, line in enumerate(read_lines(directory, file, "latin-1"), 1):
            label, _, question = line.partition(" ")
            kind, colon, _ = label.partition(":")
            words = question.lower().split()
            if kind not in KINDS or not colon or not words:
                raise DataError(f"{directory / file}, line {n}: expected KIND:detail and a question, got {line[:40]!r}")
            questions.append((KINDS.index(kind), words))
        return questions

    def epoch(self, split, batch, steps, generator=None):
        """Cut a split into batches of questions; see :meth:`DataSet.epoch`."""
        members = self._members[check_split(split)]
        order = np.arange(len(members))
        if generator is None:
            return [self._batch(members, order[n : n + batch], batch, steps) for n in range(0, order.size, batch)]
        order = generator.permutation(order)[: order.size // batch * batch]
        if not order.size:
            raise ValueError(f"batch must be at most {len(members)}, the questions in {split}, got {batch}")
        lengths = np.array([len(words) for words, _ in members])
        pools = [order[n : n + POOL * batch] for n in range(0, order.size, POOL * batch)]
        order = np.concatenate([pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]).reshape(-1, batch)
        return [self._batch(members, order[n], batch, steps) for n in generator.permutation(len(order))]

    @staticmethod
    def _batch(members, chosen: np.ndarray, batch: int, steps: int) -> Batch:
        tokens = np.full((steps, batch), RARE, np.int64)
        lengths, targets = np.ones(batch, np.int64), np.zeros(batch, np.int64)
        for b, n in enumerate(chosen):
            words, targets[b] = members[n]
            lengths[b] = min(len(words), steps)
            tokens[: lengths[b], b] = words[:steps]
        return Batch(tokens, lengths, targets, (np.arange(batch) < chosen.size).astype(np.float32))
