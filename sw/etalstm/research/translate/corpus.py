"""What a run learns from: the splits as numbers, and the vocabularies."""

import json
from dataclasses import dataclass
from pathlib import Path

from etalstm.errors import DataError, RunError
from etalstm.host.strict import check
from etalstm.research.translate.pairs import TEST, TRAINING, VALIDATION, Pairs, has_split, read_pairs
from etalstm.research.translate.settings import TranslationSettings
from etalstm.research.translate.vocabulary import SPECIAL, Tokens, Vocabulary


@dataclass(frozen=True)
class Vocabularies:
    """Of both languages, and how their sentences become tokens."""

    source: Vocabulary
    target: Vocabulary
    tokens: Tokens

    def numbers(self, pairs: Pairs) -> tuple[list[list[int]], list[list[int]]]:
        """Give the sentences as numbers, sources and targets."""
        sources = [self.source.numbers(self.tokens.of(text)) for text in pairs.source]
        return sources, [self.target.numbers(self.tokens.of(text)) for text in pairs.target]

    def text_of_file(self) -> str:
        """Give the JSON that :meth:`load` reads."""
        return json.dumps({"source": self.source.tokens, "target": self.target.tokens}, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, path: Path, tokens: Tokens) -> "Vocabularies":
        """Read a run's vocabularies; :class:`RunError` names the file if they are not what a run writes."""
        try:
            table = check(dict[str, list[str]], json.loads(path.read_text(encoding="utf-8")), path, RunError)
        except FileNotFoundError as error:
            raise RunError(f"{path}: there is no such file of vocabularies") from error
        except (ValueError, RecursionError) as error:
            raise RunError(f"{path}: no JSON: {error}") from error
        for side in ("source", "target"):
            if tuple(table.get(side, ())[: len(SPECIAL)]) != SPECIAL:
                raise RunError(f"{path}: {side} must begin with {', '.join(SPECIAL)}")
        return cls(Vocabulary(tuple(table["source"])), Vocabulary(tuple(table["target"])), tokens)


@dataclass(frozen=True)
class Corpus:
    """The splits.

    Members
    -------
    training : (lists of sources, list of targets)      as numbers
    validation, test : Pairs                            as texts; the test may be None
    vocabularies : Vocabularies
    left_out, blank : int                               training pairs that are too long, or have a blank sentence
    """

    training: tuple[list[list[int]], list[list[int]]]
    validation: Pairs
    test: Pairs | None
    vocabularies: Vocabularies
    left_out: int
    blank: int


def read_corpus(settings: TranslationSettings) -> Corpus:
    """Read the splits that settings name; the vocabularies are those of the training split alone.

    Raises
    ------
    DataError
        As :func:`etalstm.research.translate.pairs.read_pairs`, and if every training pair is blank or too long.
    """
    place = Path(settings.data)
    languages = settings.source, settings.target
    pairs = read_pairs(place, TRAINING, *languages, leave_blank=True).first(settings.sentences)
    if not pairs:
        raise DataError(f"{place}: every training pair has a blank sentence")
    validation = read_pairs(place, VALIDATION, *languages).first(settings.sentences)
    has_test = has_split(place, TEST, *languages)
    test = read_pairs(place, TEST, *languages).first(settings.sentences) if has_test else None
    tokens, longest = settings.reading, settings.longest
    both = zip(pairs.source, pairs.target, strict=True)
    divided = [(tokens.of(ours), tokens.of(theirs)) for ours, theirs in both]
    short = [pair for pair in divided if max(map(len, pair)) <= longest]
    if not short:
        raise DataError(f"{place}: every training pair has more than longest = {longest} tokens")
    sources, targets = zip(*short, strict=True)
    known = Vocabulary.of(sources, settings.least_count), Vocabulary.of(targets, settings.least_count)
    vocabularies = Vocabularies(*known, tokens)
    training = [known[0].numbers(one) for one in sources], [known[1].numbers(one) for one in targets]
    return Corpus(training, validation, test, vocabularies, len(divided) - len(short), pairs.blank)
