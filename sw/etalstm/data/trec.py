"""TREC's questions: words, and after the last one which of six kinds of thing is asked for."""

import zlib
from pathlib import Path

from etalstm.data.files import read_lines
from etalstm.data.labelled import LabelledTexts, Text
from etalstm.data.sequences import hold_out
from etalstm.errors import DataError

FILES = {"train": "train_5500.label", "test": "TREC_10.label"}
KINDS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
STEPS = 18  # the longest question of the test split has 17 words, 1 in 25 of the training split has more
VALIDATION_SHARE = 0.1  # of the training file


class Trec(LabelledTexts):
    """5,452 questions for training and validation, 500 for test; words in lower case, the first T of each.

    Words are known if the training split has them at least twice.

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
        train, validation = hold_out(texts["train"], VALIDATION_SHARE)
        splits = {"train": train, "validation": validation, "test": texts["test"]}
        super().__init__("trec", splits, KINDS, STEPS)
        self.fingerprint = zlib.crc32(repr(texts).encode())

    @staticmethod
    def _questions(directory: Path, file: str) -> list[Text]:
        questions = []
        for n, line in enumerate(read_lines(directory, file, "latin-1"), 1):
            label, _, question = line.partition(" ")
            kind, colon, _ = label.partition(":")
            words = question.lower().split()
            if kind not in KINDS or not colon or not words:
                raise DataError(f"{directory / file}, line {n}: expected KIND:detail and a question, got {line[:40]!r}")
            questions.append((KINDS.index(kind), words))
        return questions
