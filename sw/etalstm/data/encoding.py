"""Encoding of texts as tokens, and of classes as labels: a trained network needs it besides its weights."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from etalstm.errors import DataError

CHARACTERS, WORDS, BYTES = UNITS = ("characters", "words", "bytes")
UNKNOWN = "<unk>"


@dataclass(frozen=True)
class Encoding:
    """The tokens of a data set's texts and the labels of its classes."""

    unit: str | None = None  # what a token is, one of ``UNITS``; None where inputs are no texts
    lower: bool = False  # texts are taken in lower case
    tokens: tuple[str, ...] = ()  # every token's text, in the order of their numbers; bytes need none
    unknown: int | None = None  # the number of all other texts; None: they are refused
    labels: tuple[str, ...] = ()  # every class's name, in the order of their numbers
    # text, label, sequence: the columns that a table was read by, see :class:`etalstm.data.Reading`
    text: str | None = None
    label: str | None = None
    sequence: str | None = None
    # the columns of a step's numbers, in their order, where a table's sequences are vectors
    vector: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls, sequences: Iterable[Sequence], unit: str, lower: bool = False, most: int | None = None, **others
    ) -> "Encoding":
        """Make an encoding of training texts.

        `sequences`: the result of :func:`split` for each text. `most`: tokens in all, the unknown one included. The
        most frequent tokens are kept, of equally frequent ones the first in alphabetical order.
        """
        if unit == BYTES:
            return cls(BYTES, lower, **others)
        counts = Counter(token for sequence in sequences for token in sequence if token != UNKNOWN)
        ranked = sorted(counts, key=lambda token: (-counts[token], token))
        kept = ranked if most is None else ranked[: most - 1]
        return cls(unit, lower, (UNKNOWN, *sorted(kept)), 0, **others)

    @property
    def count(self) -> int:
        """Number of different tokens."""
        return 256 if self.unit == BYTES else len(self.tokens)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def encode(self, text: str) -> np.ndarray:
        """Give the tokens of a text, int64, (T,); raises as :meth:`number`."""
        return self.number(split(text, self.unit, self.lower))

    def number(self, tokens: Sequence) -> np.ndarray:
        """Give the numbers of tokens, int64, (T,).

        Raises :class:`DataError` if a token is not known and the encoding has no number for unknown ones.
        """
        if self.unit == BYTES:
            return np.frombuffer(bytes(tokens), np.uint8).astype(np.int64)
        numbers = [self._numbers.get(token, self.unknown) for token in tokens]
        if None in numbers:
            raise DataError(f"{tokens[numbers.index(None)]!r} is none of the {len(self.tokens)} tokens of the training")
        return np.array(numbers, np.int64)

    def decode(self, numbers: Sequence[int]) -> str:
        """Give the text of tokens."""
        if self.unit == BYTES:
            return bytes(int(number) for number in numbers).decode(errors="replace")
        return (" " if self.unit == WORDS else "").join(self.tokens[number] for number in numbers)

    def name_of(self, number: int) -> str:
        """Give a class's name, or its number if the classes have no names."""
        return self.labels[number] if self.labels else str(int(number))

    @property
    def json(self) -> str:
        """The encoding as JSON. An empty `vector` is left out, so that digests of texts are those of older runs."""
        table = {name: value for name, value in asdict(self).items() if name != "vector" or value}
        return json.dumps(table, ensure_ascii=False, indent=1) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 of the encoding, in hexadecimal."""
        return hashlib.sha256(self.json.encode()).hexdigest()


def split(text: str, unit: str | None, lower: bool) -> Sequence:
    """Cut a text into characters, words between white space, or the bytes of its UTF-8."""
    text = text.lower() if lower else text
    if unit == BYTES:
        return text.encode()
    return text.split() if unit == WORDS else text
