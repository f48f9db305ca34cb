"""Sentences of film reviews (Pang and Lee, 2005): words, and after the last one whether the film was liked."""

from pathlib import Path

from etalstm.data.files import read_file
from etalstm.data.labelled import LabelledTexts, Text
from etalstm.data.sequences import hold_out
from etalstm.errors import DataError

FILES = {"negative": "rt-polarity.neg", "positive": "rt-polarity.pos"}
STEPS = 40  # 1 sentence in 35 has more words
SHARE = 0.1  # of all sentences, for test; and as many for validation


class Mr(LabelledTexts):
    """10,662 sentences, as many of either class: eight tenths for training, a tenth for validation, a tenth for test.

    The data set has no splits of its own. Words are in lower case and cut apart in the files.

    Parameters
    ----------
    directory : Path
        Holds ``rt-polarity.neg`` and ``rt-polarity.pos``, a sentence a line, latin-1.

    Raises
    ------
    DataError
        If a file is missing or empty, or a line has no word; the message names file and line.
    """

    def __init__(self, directory: Path):
        splits: dict[str, list[Text]] = {"train": [], "validation": [], "test": []}
        for label, file in enumerate(FILES.values()):
            sentences = self._sentences(directory, file, label)
            rest, test = hold_out(sentences, SHARE)
            train, validation = hold_out(rest, SHARE / (1 - SHARE))
            for split, part in zip(splits, (train, validation, test), strict=True):
                splits[split] += part
        super().__init__("mr", splits, tuple(FILES), STEPS)

    @staticmethod
    def _sentences(directory: Path, file: str, label: int) -> list[Text]:
        """Read a class; only ``\\n`` ends a line: some sentences hold other characters that end lines in Unicode."""
        sentences = []
        for n, line in enumerate(read_file(directory, file, "latin-1").rstrip("\n").split("\n"), 1):
            words = line.lower().split()
            if not words:
                raise DataError(f"{directory / file}, line {n}: expected a sentence, got an empty line")
            sentences.append((label, words))
        return sentences
