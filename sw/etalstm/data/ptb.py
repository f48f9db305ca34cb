"""The Penn Treebank as Mikolov prepared it: the next word at every step."""

import zlib
from pathlib import Path

import numpy as np

from etalstm.data.encoding import UNKNOWN, WORDS, Encoding
from etalstm.data.files import read_lines
from etalstm.data.streams import TokenStreams
from etalstm.errors import DataError

FILES = {"train": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}
END = "<eos>"
STEPS = 35


class Ptb(TokenStreams):
    """One sentence a line, each followed by ``<eos>``; 10,000 words in the whole set.

    Parameters
    ----------
    directory : Path
        Holds ``ptb.train.txt``, ``ptb.valid.txt`` and ``ptb.test.txt``.

    Raises
    ------
    DataError
        If a file is missing, empty or no UTF-8, or has a word that the training text has not.
    """

    name = "ptb"
    unit = "words"

    def __init__(self, directory: Path):
        texts = {split: self._words(directory, file) for split, file in FILES.items()}
        self.vocabulary = sorted(set(texts["train"]))
        number = {word: n for n, word in enumerate(self.vocabulary)}
        for split, words in texts.items():
            foreign = next((word for word in words if word not in number and UNKNOWN not in number), None)
            if foreign is not None:
                raise DataError(f"{directory / FILES[split]}: {foreign!r} is no word of {FILES['train']}")
        rare = number.get(UNKNOWN)
        super().__init__({s: np.array([number.get(w, rare) for w in words], np.int64) for s, words in texts.items()})
        self.classes, self.steps = len(self.vocabulary), STEPS
        self.encoding = Encoding(WORDS, tokens=tuple(self.vocabulary), unknown=rare)
        self.fingerprint = zlib.crc32("\n".join(" ".join(words) for words in texts.values()).encode())

    @staticmethod
    def _words(directory: Path, file: str) -> list[str]:
        return [word for line in read_lines(directory, file, "utf-8") for word in [*line.split(), END]]


def sentence_lengths(directory: Path) -> list[int]:
    """Count the words of each sentence of the training text, ``<eos>`` included.

    Parameters
    ----------
    directory : Path
        Holds ``ptb.train.txt``.

    Raises
    ------
    DataError
        If the file is missing, empty or no UTF-8.
    """
    return [len(line.split()) + 1 for line in read_lines(directory, FILES["train"], "utf-8")]
