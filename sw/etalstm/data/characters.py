"""Transcriptions as labels of connectionist temporal classification (CTC), and how far a recognised one is off."""

import string

import numpy as np

BLANK = 0  # CTC's label of no character
CHARACTERS = " " + string.ascii_uppercase  # a character's label is its place here, plus 1
CLASSES = 1 + len(CHARACTERS)


def labels_of(text: str) -> np.ndarray:
    """Give the labels of a text: int64, (L,).

    Raises
    ------
    ValueError
        If a character is not one of ``CHARACTERS``; the message names it.
    """
    unknown = next((character for character in text if character not in CHARACTERS), None)
    if unknown is not None:
        raise ValueError(f"characters must be capital letters and spaces, got {unknown!r} in {text[:40]!r}")
    return np.array([1 + CHARACTERS.index(character) for character in text], np.int64)


def steps_needed(labels: np.ndarray) -> int:
    """Count the steps that CTC needs for labels (L,): one each, and a blank between equal neighbours."""
    return len(labels) + int((labels[1:] == labels[:-1]).sum())


def collapsed(path: np.ndarray) -> np.ndarray:
    """Give the labels that a path (T,) of one label a step stands for: repetitions are one label, blanks none."""
    begins = np.diff(path, prepend=BLANK) != 0
    return path[begins & (path != BLANK)]


def edit_distance(found: np.ndarray, expected: np.ndarray) -> int:
    """Count the fewest insertions, deletions and substitutions that make one sequence of labels the other."""
    places = np.arange(len(expected) + 1)
    row = places  # distances of the part of `found` so far from every beginning of `expected`
    for label in found:
        substituted = row[:-1] + (expected != label)
        kept = np.concatenate([row[:1] + 1, np.minimum(row[1:] + 1, substituted)])
        row = np.minimum.accumulate(kept - places) + places  # insertions, however many
    return int(row[-1])
