"""Texts with a class each: TREC's questions, film reviews of Pang and Lee and of IMDB."""

import re
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from etalstm.data.dataset import CLASSIFY
from etalstm.data.encoding import UNKNOWN, WORDS, Encoding
from etalstm.data.files import packed_text, read_file, read_lines
from etalstm.data.sequences import Example, Sequences, hold_out
from etalstm.errors import DataError

RARE = 0  # the token of words that are too rare in the training split; padding has it too
HELD_OUT = 0.1  # share for validation, and for test where no such split is published

TREC_FILES = {"train": "train_5500.label", "test": "TREC_10.label"}
KINDS = ("ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM")
MR_FILES = {"negative": "rt-polarity.neg", "positive": "rt-polarity.pos"}
IMDB_FORMS = ("imdb_{}.tsv", "imdb_{}.tsv.xz", "imdb_{}_small.tsv.xz")  # the first that is there
VERDICTS = {"neg": 0, "pos": 1}
_TOKEN = re.compile(r"\w+(?:'\w+)?|[^\w\s]")

Text = tuple[int, list[str]]  # the number of a text's class, and its words in lower case


class LabelledTexts(Sequences):
    """Texts with a vocabulary learnt from the training split.

    `labels` name the classes. Of a text `steps` words T are used, unless the user chooses another number: the last ones
    with `keep_end`, else the first. Words that occur less than `least` times in the training split are unknown.
    """

    def __init__(
        self, name: str, splits: dict[str, list[Text]], labels: Sequence[str], steps: int, *, least: int = 2,
        keep_end: bool = False,
    ):  # fmt: skip
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


class Trec(LabelledTexts):
    """5,452 questions for training and validation, 500 for test; words in lower case, the first T of each.

    Words are known if the training split has them at least twice.

    Raises :class:`DataError` if a file is missing or empty, or a line is not of that form; the message names file and
    line.

    `directory`: holds ``train_5500.label`` and ``TREC_10.label``, a question a line: ``KIND:detail word word ...``,
    latin-1.
    """

    def __init__(self, directory: Path):
        texts = {split: self._questions(directory, file) for split, file in TREC_FILES.items()}
        train, validation = hold_out(texts["train"], HELD_OUT)
        splits = {"train": train, "validation": validation, "test": texts["test"]}
        # The longest question for test has 17 words; 1 in 25 of those for training has more.
        super().__init__("trec", splits, KINDS, steps=18)
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


class Mr(LabelledTexts):
    """10,662 sentences, as many of either class: eight tenths for training, a tenth for validation, a tenth for test.

    The data set has no splits of its own. Words are in lower case and cut apart in the files.

    Raises :class:`DataError` if a file is missing or empty, or a line has no word; the message names file and line.

    `directory`: holds ``rt-polarity.neg`` and ``rt-polarity.pos``, a sentence a line, latin-1.
    """

    def __init__(self, directory: Path):
        splits: dict[str, list[Text]] = {"train": [], "validation": [], "test": []}
        for label, file in enumerate(MR_FILES.values()):
            sentences = self._sentences(directory, file, label)
            rest, test = hold_out(sentences, HELD_OUT)
            train, validation = hold_out(rest, HELD_OUT / (1 - HELD_OUT))
            for split, chosen in zip(splits, (train, validation, test), strict=True):
                splits[split] += chosen
        super().__init__("mr", splits, tuple(MR_FILES), steps=40)  # 1 sentence in 35 has more words

    @staticmethod
    def _sentences(directory: Path, file: str, label: int) -> list[Text]:
        """Read a class. Only ``\\n`` ends a line: some sentences hold other characters that end lines in Unicode."""
        sentences = []
        for n, line in enumerate(read_file(directory, file, "latin-1").rstrip("\n").split("\n"), 1):
            words = line.lower().split()
            if not words:
                raise DataError(f"{directory / file}, line {n}: expected a sentence, got an empty line")
            sentences.append((label, words))
        return sentences


class Imdb(LabelledTexts):
    """Reviews in lower case, punctuation marks by themselves; the last T words of each, where the verdict is.

    Raises :class:`DataError` if a file is missing or damaged, or a line is not of that form; the message names file and
    line.

    `directory`: holds for each of ``train`` and ``test`` a table ``imdb_train.tsv``, or one compressed with xz
    (``imdb_train.tsv.xz``, ``imdb_train_small.tsv.xz``): ``neg`` or ``pos``, number, stars and text.
    """

    def __init__(self, directory: Path):
        found = {split: self._reviews(directory, split) for split in ("train", "test")}
        train, validation = hold_out(found["train"], HELD_OUT)
        splits = {"train": train, "validation": validation, "test": found["test"]}
        super().__init__("imdb", splits, tuple(VERDICTS), steps=256, least=5, keep_end=True)

    @staticmethod
    def _reviews(directory: Path, split: str) -> list[Text]:
        path, text = packed_text(directory, [form.format(split) for form in IMDB_FORMS])
        reviews = []
        for n, line in enumerate(text.rstrip("\n").split("\n"), 1):
            label, *_, review = fields = line.split("\t")
            words = _TOKEN.findall(review.replace("<br />", " ").lower())
            if len(fields) != 4 or label not in VERDICTS or not words:
                raise DataError(f"{path}, line {n}: expected neg or pos, number, stars and a text, got {line[:40]!r}")
            reviews.append((VERDICTS[label], words))
        return reviews
