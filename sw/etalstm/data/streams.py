"""Long token streams, the next token at every step: what language models train on. Two such texts are known by name."""

import zlib
from copy import copy
from pathlib import Path
from pydoc_data.topics import topics
from typing import Self

import numpy as np

from etalstm.data.dataset import LANGUAGE, Batch, DataSet, check_split
from etalstm.data.encoding import CHARACTERS, UNKNOWN, WORDS, Encoding
from etalstm.data.files import read_lines
from etalstm.errors import DataError
from etalstm.network.shape import check_size

PYDOC_SHARES = (0.7, 0.1)  # of training and validation; the rest is the test split
PTB_FILES = {"train": "ptb.train.txt", "validation": "ptb.valid.txt", "test": "ptb.test.txt"}
END = "<eos>"


class TokenStreams(DataSet):
    """A text whose splits, int64 tokens (N,) by name, are contiguous; every sequence of a batch is one long stream."""

    task = LANGUAGE
    stateful = True
    input_size = None
    unit: str  # what a token is, in words

    def __init__(self, splits: dict[str, np.ndarray]):
        self._tokens = splits

    def epoch(self, split, batch, steps, generator=None):
        """Cut a split into `batch` streams and these into segments; see :meth:`DataSet.epoch`.

        The order is that of the text. With a `generator` a last, shorter segment is dropped. Tokens that do not fill
        the streams evenly, fewer than `batch`, are left out.
        """
        tokens = self._tokens.get(check_split(split))
        if tokens is None:
            raise ValueError(f"there is no text in {split}")
        length = (tokens.size - 1) // batch  # each stream needs a target after its last input
        segments = length // steps if generator is not None else -(-length // steps)
        if not segments:
            raise ValueError(
                f"batch × steps must be below {tokens.size}, the {self.unit} in {split}, got {batch} × {steps}"
            )
        inputs = tokens[: batch * length].reshape(batch, length).T
        targets = tokens[1 : batch * length + 1].reshape(batch, length).T
        return [
            self._segment(inputs[n : n + steps], targets[n : n + steps], steps)
            for n in range(0, segments * steps, steps)
        ]

    def first(self, tokens: dict[str, int | None]) -> Self:
        """Give the same text with only the first tokens of the named splits: so many, or all for None.

        Raises ``ValueError`` if there is no such split, or a number is not above 0.
        """
        other = copy(self)
        other._tokens = dict(self._tokens)
        for split, count in tokens.items():
            if check_split(split) not in self._tokens:
                raise ValueError(f"there is no text in {split}")
            if count is not None:
                other._tokens[split] = self._tokens[split][: check_size(f"tokens of {split}", count)]
        return other

    @staticmethod
    def _segment(inputs: np.ndarray, targets: np.ndarray, steps: int) -> Batch:
        missing = steps - inputs.shape[0]
        batch = inputs.shape[1]
        weights = np.broadcast_to((np.arange(steps) < steps - missing)[:, None], (steps, batch)).astype(np.float32)
        fill = ((0, missing), (0, 0))
        return Batch(np.pad(inputs, fill), np.full(batch, steps), np.pad(targets, fill), weights)


class Pydoc(TokenStreams):
    """Python's own manual, ``pydoc_data.topics``: about 465,000 characters of about 100 kinds.

    The text, and with it vocabulary and fingerprint, is that of the running Python.
    """

    name = "pydoc"
    unit = "characters"

    def __init__(self):
        text = "\n".join(topics[title] for title in sorted(topics))
        self.vocabulary = "".join(sorted(set(text)))
        self.classes, self.steps = len(self.vocabulary), 32
        self.encoding = Encoding(CHARACTERS, tokens=tuple(self.vocabulary))
        number = {character: n for n, character in enumerate(self.vocabulary)}
        tokens = np.array([number[character] for character in text], np.int64)
        first = int(PYDOC_SHARES[0] * tokens.size)
        second = first + int(PYDOC_SHARES[1] * tokens.size)
        super().__init__(dict(zip(("train", "validation", "test"), np.split(tokens, [first, second]), strict=True)))
        self.fingerprint = zlib.crc32(text.encode())


class Ptb(TokenStreams):
    """The Penn Treebank as Mikolov prepared it: one sentence a line, each followed by ``<eos>``; 10,000 words.

    Raises :class:`DataError` if a file is missing, empty or no UTF-8, or has a word that the training text has not.

    `directory`: holds ``ptb.train.txt``, ``ptb.valid.txt`` and ``ptb.test.txt``.
    """

    name = "ptb"
    unit = "words"

    def __init__(self, directory: Path):
        texts = {split: self._words(directory, file) for split, file in PTB_FILES.items()}
        self.vocabulary = sorted(set(texts["train"]))
        number = {word: n for n, word in enumerate(self.vocabulary)}
        for split, words in texts.items():
            foreign = next((word for word in words if word not in number and UNKNOWN not in number), None)
            if foreign is not None:
                raise DataError(f"{directory / PTB_FILES[split]}: {foreign!r} is no word of {PTB_FILES['train']}")
        rare = number.get(UNKNOWN)
        super().__init__({s: np.array([number.get(w, rare) for w in words], np.int64) for s, words in texts.items()})
        self.classes, self.steps = len(self.vocabulary), 35
        self.encoding = Encoding(WORDS, tokens=tuple(self.vocabulary), unknown=rare)
        self.fingerprint = zlib.crc32("\n".join(" ".join(words) for words in texts.values()).encode())

    @staticmethod
    def _words(directory: Path, file: str) -> list[str]:
        return [word for line in read_lines(directory, file, "utf-8") for word in [*line.split(), END]]


def sentence_lengths(directory: Path) -> list[int]:
    """Count the words of each sentence of the training text, ``<eos>`` included.

    Raises :class:`DataError` if ``ptb.train.txt`` is missing in the directory, empty or no UTF-8.
    """
    return [len(line.split()) + 1 for line in read_lines(directory, PTB_FILES["train"], "utf-8")]
