"""bAbI's 20 tasks (Weston et al., 2015): a story, a question, and after its last word the answer."""

import re
from pathlib import Path

from etalstm.data.encoding import UNKNOWN
from etalstm.data.files import members_of
from etalstm.data.labelled import HELD_OUT, LabelledTexts
from etalstm.data.sequences import hold_out
from etalstm.errors import DataError

FILE = "babi_en_tasks_1-20_v1-2.tar.xz"
MEMBER = re.compile(r"en/qa(\d+)_[\w-]+_(train|test)\.txt$")
TASKS = 20
STEPS = 128  # 1 story in 17 is longer, the longest has 1,128 words
_LINE = re.compile(r"(\d+) ([^\t]+?) *(?:\t([^\t]+)\t[\d ]+)?")
_WORD = re.compile(r"[\w'-]+|\?")


class Babi(LabelledTexts):
    """1,000 questions of each task for training and validation, 1,000 for test; the last T words of story and question.

    A class is a whole answer. Answers that no training question has are of the class ``<unk>``, and count as wrong.

    Raises :class:`DataError` if the archive is missing or damaged, lacks a task, or a line is not of the published
    form; the message names member and line.

    `directory`: holds ``babi_en_tasks_1-20_v1-2.tar.xz`` as it is published.
    """

    def __init__(self, directory: Path):
        splits: dict[str, list[tuple[str, list[str]]]] = {"train": [], "validation": [], "test": []}
        answers = {UNKNOWN: 0}
        found = self._texts(directory / FILE)
        for task in range(1, TASKS + 1):
            for split in ("train", "test"):
                if (task, split) not in found:
                    raise DataError(f"{directory / FILE}: has no questions of task {task} for {split}")
            train, validation = hold_out(self._questions(*found[task, "train"]), HELD_OUT)
            splits["train"] += train
            splits["validation"] += validation
            splits["test"] += self._questions(*found[task, "test"])
        for answer in sorted({answer for answer, _ in splits["train"]}):
            answers[answer] = len(answers)
        texts = {split: [(answers.get(answer, 0), words) for answer, words in each] for split, each in splits.items()}
        super().__init__("babi", texts, tuple(answers), STEPS, least=1, keep_end=True)

    @staticmethod
    def _texts(path: Path) -> dict[tuple[int, str], tuple[str, str]]:
        """Give name and text of the member of each task and split."""
        found = {}
        for name, text in members_of(path, MEMBER):
            if match := MEMBER.search(name):
                found[int(match[1]), match[2]] = f"{path}: {name}", text
        return found

    @staticmethod
    def _questions(where: str, text: str) -> list[tuple[str, list[str]]]:
        """Give each question's answer, and its words after those of the story so far."""
        questions: list[tuple[str, list[str]]] = []
        story: list[str] = []
        for n, line in enumerate(text.splitlines(), 1):
            match = _LINE.fullmatch(line.rstrip())
            if not match:
                raise DataError(f"{where}, line {n}: expected a number and a sentence, got {line[:40]!r}")
            number, sentence, answer = match.groups()
            words = _WORD.findall(sentence.lower())
            story = [] if number == "1" else story
            if answer is None:
                story = story + words
            else:
                questions.append((answer, story + words))
        return questions
