"""Sentence pairs from files: one sentence a line, the two languages in two files of as many lines."""

from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from etalstm.data.files import packed_text
from etalstm.errors import DataError

# Names of the splits' files: those of `--source de` are `train.de` and the like, or `de-train.txt`; or with `.gz`.
TRAINING, VALIDATION, TEST = ("train",), ("val", "valid", "validation"), ("test", "test_2016_flickr")


@dataclass(frozen=True)
class Pairs:
    """Sentences of one split.

    Members
    -------
    source, target : lists of str
        Of equal length: sentence n of the one is a translation of sentence n of the other.
    blank : int
        Pairs of the files that were left out, as one of their sentences is blank.
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
    """Read a split.

    Parameters
    ----------
    directory : Path
    names : tuple of str
        Of the split; the first that has a file is taken.
    source, target : str
        How the files of a language are called: ``de`` for ``train.de``, ``src`` for ``src-train.txt``.
    leave_blank : bool
        Leave out pairs with a blank sentence: for a training split, of which nobody counts the pairs.

    Raises
    ------
    DataError
        If a file is missing, empty, no UTF-8, or packed and damaged; if the files have unequal numbers of lines; if a
        line is blank that is not to be left out. The message names file and place.
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
