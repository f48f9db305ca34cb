"""IMDB's film reviews (Maas et al., 2011): words, and after the last one whether the film was liked."""

import re
from pathlib import Path

from etalstm.data.files import packed_text
from etalstm.data.labelled import LabelledTexts, Text
from etalstm.data.sequences import hold_out
from etalstm.errors import DataError

SPLITS = ("train", "test")
FORMS = ("imdb_{}.tsv", "imdb_{}.tsv.xz", "imdb_{}_small.tsv.xz")  # the first that is there
LABELS = {"neg": 0, "pos": 1}
STEPS = 256
VALIDATION_SHARE = 0.1  # of the training file
LEAST = 5  # a word that the training has less often is unknown
_TOKEN = re.compile(r"\w+(?:'\w+)?|[^\w\s]")


class Imdb(LabelledTexts):
    """Reviews in lower case, punctuation marks by themselves; the last T words of each, where the verdict is.

    Parameters
    ----------
    directory : Path
        Holds for each of ``train`` and ``test`` a table ``imdb_train.tsv``, or one compressed with xz
        (``imdb_train.tsv.xz``, ``imdb_train_small.tsv.xz``): ``neg`` or ``pos``, number, stars and text.

    Raises
    ------
    DataError
        If a file is missing or damaged, or a line is not of that form; the message names file and line.
    """

    def __init__(self, directory: Path):
        found = {split: self._reviews(directory, split) for split in SPLITS}
        train, validation = hold_out(found["train"], VALIDATION_SHARE)
        splits = {"train": train, "validation": validation, "test": found["test"]}
        super().__init__("imdb", splits, tuple(LABELS), STEPS, least=LEAST, keep_end=True)

    @staticmethod
    def _reviews(directory: Path, split: str) -> list[Text]:
        path, text = packed_text(directory, [form.format(split) for form in FORMS])
        reviews = []
        for n, line in enumerate(text.rstrip("\n").split("\n"), 1):
            label, *_, review = fields = line.split("\t")
            words = _TOKEN.findall(review.replace("<br />", " ").lower())
            if len(fields) != 4 or label not in LABELS or not words:
                raise DataError(f"{path}, line {n}: expected neg or pos, number, stars and a text, got {line[:40]!r}")
            reviews.append((LABELS[label], words))
        return reviews
