"""Texts of words, each of which belongs to a class."""

import zlib
from collections import Counter
from collections.abc import Sequence

from etalstm.data.dataset import CLASSIFY
from etalstm.data.encoding import UNKNOWN, WORDS, Encoding
from etalstm.data.sequences import Example, Sequences

RARE = 0  # the token of a word that the training has too seldom; padding has it too

Text = tuple[int, list[str]]
"""The number of a text's class, and its words in lower case."""


class LabelledTexts(Sequences):
    """Texts whose words are known from the training.

    Parameters
    ----------
    name : str
    splits : dict from a split's name to a list of Text
    labels : sequence of str
        Names of the classes.
    steps : int
        Words T of a text that are used, unless the user chooses others.
    least : int
        A word that the training split has less often is unknown.
    keep_end : bool
        Of a longer text the last T words are used, else the first.
    """

    def __init__(
        self,
        name: str,
        splits: dict[str, list[Text]],
        labels: Sequence[str],
        steps: int,
        *,
        least: int = 2,
        keep_end: bool = False,
    ):
        counts = Counter(word for _, words in splits["train"] for word in words)
        known = sorted(word for word, count in counts.items() if count >= least)
        self.vocabulary: list[str | None] = [None, *known]
        tokens = (UNKNOWN, *known)
        encoding = Encoding(WORDS, lower=True, tokens=tokens, unknown=RARE, labels=tuple(labels))
        examples = {
            split: [Example(encoding.number(words), label) for label, words in texts] for split, texts in splits.items()
        }
        of_task = len(labels), encoding.count, encoding, steps
        super().__init__(name, CLASSIFY, examples, *of_task, masked=True, keep_end=keep_end)
        self.fingerprint = zlib.crc32(repr(splits).encode())
