"""TREC's questions: words, and after the last one which of six kinds of thing is asked for."""

import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from etalstm.data.dataset import CLASSIFY
from etalstm.data.encoding import UNKNOWN, WORDS, Encoding
from etalstm.data.files import read_lines
from etalstm.data.sequences import Example, Sequences
from etalstm.errors import DataError

FILES = {"train": "train_5500.label", "test": "TREC_10.label"}
KINDS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
STEPS = 18  # the longest question of the test split has 17 words, 1 in 25 of the training split has more
RARE = 0  # the token of a word that the training split has less than twice; padding has it too
VALIDATION_SHARE = 0.1  # of the training file


class Trec(Sequences):
    """5,452 questions for training and validation, 500 for test; words in lower case, the first T of each.

    Parameters
    ----------
    directory : Path
        Holds ``train_5500.label`` and ``TREC_10.label``, a question a line: ``KIND:detail word word ...``, latin-1.

    Raises
    ------
    DataError
        If a file is missing or empty, or a line is not of that form; the message names file and line.
    """

    def __init__(self, directory: Path):
        texts = {split: self._questions(directory, file) for split, file in FILES.items()}
        counts = Counter(word for _, words in texts["train"] for word in words)
        self.vocabulary = [None, *sorted(word for word, count in counts.items() if count > 1)]
        tokens = (UNKNOWN, *self.vocabulary[1:])
        encoding = Encoding(WORDS, lower=True, tokens=tokens, unknown=RARE, labels=KINDS)
        examples = {
            split: [Example(encoding.number(words), kind) for kind, words in questions]
            for split, questions in texts.items()
        }
        order = np.random.Generator(np.random.PCG64(0)).permutation(len(texts["train"]))  # the same for every run
        held = round(VALIDATION_SHARE * order.size)
        splits = {
            "train": [examples["train"][n] for n in np.sort(order[held:])],
            "validation": [examples["train"][n] for n in np.sort(order[:held])],
            "test": examples["test"],
        }
        super().__init__("trec", CLASSIFY, splits, len(KINDS), encoding.count, encoding, STEPS, masked=True)
        self.fingerprint = zlib.crc32(repr(texts).encode())

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
