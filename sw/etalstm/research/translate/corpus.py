"""Training data: pairs of sentences from files, the vocabularies, and batches of pairs of similar length.

A file has one sentence a line; the two languages are two files of as many lines.

Dimensions: B pairs, S tokens of the longest source, T tokens of the longest target with its end.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from etalstm.data.files import packed_text
from etalstm.errors import DataError, RunError
from etalstm.host.strict import check, read_json
from etalstm.research.translate_settings import Tokens, TranslationSettings

# Names of the splits' files: those of `--source de` are `train.de` and the like, or `de-train.txt`; or with `.gz`.
TRAINING, VALIDATION, TEST = ("train",), ("val", "valid", "validation"), ("test", "test_2016_flickr")


@dataclass(frozen=True)
class Pairs:
    """Sentences of one split: sentence n of the source is a translation of sentence n of the target.

    `blank` counts the pairs that were left out because one of their sentences is blank.
    """

    source: list[str]
    target: list[str]
    blank: int = 0

    def __len__(self) -> int:
        return len(self.source)

    def first(self, count: int | None) -> "Pairs":
        """Give the first `count` pairs; all of them without a count."""
        return Pairs(self.source[:count], self.target[:count], self.blank)


def read_pairs(directory: Path, names: tuple[str, ...], source: str, target: str, leave_blank: bool = False) -> Pairs:
    """Read a split; the first of its names that has a file is taken.

    `source`, `target`: how the files of a language are called: ``de`` for ``train.de``, ``src`` for ``src-train.txt``.
    `leave_blank`: leave out pairs with a blank sentence, as a training split may. Raises
    :class:`DataError` if a file is missing, empty, no UTF-8, or packed and damaged; if the files have unequal numbers
    of lines; if a line is blank that is not to be left out. The message names file and place.
    """
    sides = [_lines(directory, names, side) for side in (source, target)]
    paths, (ours, theirs) = zip(*sides, strict=True)
    if len(ours) != len(theirs):
        raise DataError(f"{paths[0]} has {len(ours):,} lines, {paths[1]} has {len(theirs):,}: they make no pairs")
    real = [bool(one.strip() and other.strip()) for one, other in zip(ours, theirs, strict=True)]
    if leave_blank:
        return Pairs(list(compress(ours, real)), list(compress(theirs, real)), real.count(False))
    if not all(real):
        line = real.index(False)
        path = paths[0] if not ours[line].strip() else paths[1]
        raise DataError(f"{path}, line {line + 1}: blank; each line must hold a sentence")
    return Pairs(ours, theirs)


def has_split(directory: Path, names: tuple[str, ...], source: str, target: str) -> bool:
    """Tell whether a directory has a split in both languages."""
    return all(any((directory / file).exists() for file in _files(names, side)) for side in (source, target))


def _files(names: tuple[str, ...], side: str) -> list[str]:
    plain = [file for name in names for file in (f"{name}.{side}", f"{side}-{name}.txt")]
    return [packed for file in plain for packed in (file, f"{file}.gz")]


def _lines(directory: Path, names: tuple[str, ...], side: str) -> tuple[Path, list[str]]:
    """Give a file and its lines. Only a line feed ends one: sentences may hold other line ends of Unicode."""
    path, text = packed_text(directory, _files(names, side))
    return path, [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


PADDING, UNKNOWN, START, END = range(4)
SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of one language, by number; the first four are ``SPECIAL``."""

    tokens: tuple[str, ...]

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], least_count: int) -> "Vocabulary":
        """Take the tokens that occur at least `least_count` times, the most frequent first, then by alphabet.

        ``ValueError`` if no token is so frequent.
        """
        counts = Counter(token for sentence in sentences for token in sentence)
        frequent = [token for token, count in counts.items() if count >= least_count and token not in SPECIAL]
        if not frequent:
            most = max(counts.values(), default=0)
            raise ValueError(f"least_count must be at most {most}, that of the most frequent token, got {least_count}")
        return cls((*SPECIAL, *sorted(frequent, key=lambda token: (-counts[token], token))))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.tokens)}

    def __len__(self) -> int:
        return len(self.tokens)

    def numbers(self, sentence: Sequence[str]) -> list[int]:
        """Give the tokens' numbers, `UNKNOWN` for tokens without one, and for texts of special tokens."""
        found = (self._numbers.get(token, UNKNOWN) for token in sentence)
        return [number if number >= len(SPECIAL) else UNKNOWN for number in found]

    def text(self, numbers: Iterable[int]) -> str:
        """Join tokens by spaces, up to the end of the sentence."""
        words = []
        for number in numbers:
            if number == END:
                break
            words.append(self.tokens[number])
        return " ".join(words)


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of both languages, and how sentences become tokens."""

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
        table = read_json(path, "there is no such file of vocabularies")
        table = check(dict[str, list[str]], table, path, RunError)
        for side in ("source", "target"):
            if tuple(table.get(side, ())[: len(SPECIAL)]) != SPECIAL:
                raise RunError(f"{path}: {side} must begin with {', '.join(SPECIAL)}")
        return cls(Vocabulary(tuple(table["source"])), Vocabulary(tuple(table["target"])), tokens)


@dataclass(frozen=True)
class Corpus:
    """The splits: training as numbers, sources and targets; validation and test as texts.

    Training pairs that were `left_out` are too long; those that are `blank` have a blank sentence.
    """

    training: tuple[list[list[int]], list[list[int]]]
    validation: Pairs
    test: Pairs | None
    vocabularies: Vocabularies
    left_out: int
    blank: int


def read_corpus(settings: TranslationSettings) -> Corpus:
    """Read the splits that settings name; the vocabularies are those of the training split alone.

    :class:`DataError` as of :func:`read_pairs`, and if every training pair is blank or too long.
    """
    directory = Path(settings.data)
    languages = settings.source, settings.target
    pairs = read_pairs(directory, TRAINING, *languages, leave_blank=True).first(settings.sentences)
    if not pairs:
        raise DataError(f"{directory}: every training pair has a blank sentence")
    validation = read_pairs(directory, VALIDATION, *languages).first(settings.sentences)
    has_test = has_split(directory, TEST, *languages)
    test = read_pairs(directory, TEST, *languages).first(settings.sentences) if has_test else None
    tokens, longest = settings.reading, settings.longest
    both = zip(pairs.source, pairs.target, strict=True)
    divided = [(tokens.of(ours), tokens.of(theirs)) for ours, theirs in both]
    short = [pair for pair in divided if max(map(len, pair)) <= longest]
    if not short:
        raise DataError(f"{directory}: every training pair has more than longest = {longest} tokens")
    sources, targets = zip(*short, strict=True)
    known = Vocabulary.of(sources, settings.least_count), Vocabulary.of(targets, settings.least_count)
    vocabularies = Vocabularies(*known, tokens)
    training = [known[0].numbers(one) for one in sources], [known[1].numbers(one) for one in targets]
    return Corpus(training, validation, test, vocabularies, len(divided) - len(short), pairs.blank)


@dataclass(frozen=True)
class Batch:
    """Pairs, padded."""

    source: Tensor  # int64, (B, S)
    source_lengths: Tensor  # int64, (B,)
    # given, wanted: int64, (B, T): what the decoder reads at each step (the start, then the target), and what it must
    # answer (the target, then the end)
    given: Tensor
    wanted: Tensor
    target_lengths: Tensor  # int64, (B,): steps of the decoder

    def to(self, device: str) -> "Batch":
        """Give the batch with its tokens on a device of PyTorch; the lengths stay on the host."""
        return replace(self, **{name: getattr(self, name).to(device) for name in ("source", "given", "wanted")})


def batch_of(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Pad pairs of sentences, at least one; none of the sources is empty."""
    source, source_lengths = padded(sources)
    given, target_lengths = padded([[START, *sentence] for sentence in targets])
    wanted, _ = padded([[*sentence, END] for sentence in targets])
    return Batch(source, source_lengths, given, wanted, target_lengths)


def padded(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Give sentences as one tensor (B, longest), and their lengths (B,)."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    tensor = torch.full((len(sentences), int(lengths.max())), PADDING)
    for row, sentence in zip(tensor, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(sentence)
    return tensor, lengths


def by_length(
    lengths: Sequence[tuple[int, ...]], size: int, generator: np.random.Generator | None = None
) -> list[list[int]]:
    """Divide pairs into batches of similar length; give the numbers of the pairs of each batch.

    Pairs are sorted by their first length, where it is equal by the next one. A batch has `size` pairs, the last one
    what is left. A generator draws the order of pairs of equal length, then that of the batches. Without it both are in
    ascending order.
    """
    numbers = np.arange(len(lengths)) if generator is None else generator.permutation(len(lengths))
    order: list[int] = sorted(numbers.tolist(), key=lambda number: lengths[number])
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return batches if generator is None else [batches[number] for number in generator.permutation(len(batches))]
