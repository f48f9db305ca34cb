"""Characters of Python's own manual: the text of ``pydoc_data.topics``, the next character at every step."""

import zlib
from pydoc_data.topics import topics

import numpy as np

from etalstm.data.encoding import CHARACTERS, Encoding
from etalstm.data.streams import TokenStreams

SHARES = (0.7, 0.1)  # of training and validation; the rest is the test split


class Pydoc(TokenStreams):
    """About 465,000 characters of about 100 kinds.

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
        first = int(SHARES[0] * tokens.size)
        second = first + int(SHARES[1] * tokens.size)
        super().__init__(dict(zip(("train", "validation", "test"), np.split(tokens, [first, second]), strict=True)))
        self.fingerprint = zlib.crc32(text.encode())
