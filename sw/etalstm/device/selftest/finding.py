"""What the checks of a self-test report, and what a difference between two test patterns says about the wires."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.

    Members
    -------
    what : str
        What was seen.
    suspect : str
        Which part to look at.
    """

    what: str
    suspect: str


@dataclass
class Outcome:
    """What one check found.

    Members
    -------
    name : str
    detail : str
        What was checked, with its figures.
    findings : list of Finding
        Empty if all is well.
    seconds : float
    """

    name: str
    detail: str
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def spans(numbers) -> str:
    """Write ascending numbers shortly: ``0-3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


SOLIDS = (0x00000000, 0xFFFFFFFF, 0x55555555, 0xAAAAAAAA, 0x33333333, 0xCCCCCCCC, 0x0F0F0F0F, 0xF0F0F0F0)


def patterns(words: int, seed: int) -> np.ndarray:
    """Make uint32 (words,): each solid pattern in blocks of 16 words, a one and a zero walking, then random words."""
    walking = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    fixed = np.concatenate([np.repeat(np.array(SOLIDS, np.uint32), 16), walking, ~walking])
    random = np.random.default_rng(seed).integers(0, 1 << 32, words, np.uint32)
    random[: min(words, fixed.size)] = fixed[:words]
    return random


def describe(expected: np.ndarray, got: np.ndarray, beat_words: int) -> str | None:
    """Say how two runs of words differ: which bits of a beat are stuck, or where the first difference is.

    Parameters
    ----------
    expected, got : arrays, uint32, whole beats
    beat_words : int
        Words that travel side by side.

    Returns
    -------
    str, or None if they are equal.
    """
    expected, got = (words.reshape(-1, beat_words) for words in (expected, got))
    different = expected != got
    if not different.any():
        return None
    stuck = [text for level in (0, 1) if (text := _stuck(expected, got, level))]
    if stuck:
        return f"{' and '.join(stuck)} of a beat of {32 * beat_words} bits"
    beat, word = np.argwhere(different)[0]
    return (
        f"{np.count_nonzero(different)} of {different.size} words differ, first word {beat * beat_words + word}: "
        f"{got[beat, word]:#010x}, expected {expected[beat, word]:#010x}"
    )


def _stuck(expected: np.ndarray, got: np.ndarray, level: int) -> str | None:
    """Name the bits that always arrive at one level, if they explain every difference of that direction."""
    full = np.uint32(0xFFFFFFFF)
    want, have = (expected, got) if level else (~expected, ~got)  # look for ones where zeros were sent
    always = np.bitwise_and.reduce(have, axis=0)
    changed = np.bitwise_or.reduce(have & ~want, axis=0)
    bits = [32 * word + bit for word in range(want.shape[1]) for bit in range(32) if always[word] >> bit & 1]
    bits = [n for n in bits if changed[n // 32] >> (n % 32) & 1]
    explained = np.zeros_like(changed)
    for n in bits:
        explained[n // 32] |= np.uint32(1) << np.uint32(n % 32)
    if not bits or (changed & ~explained & full).any():
        return None
    return f"bit {bits[0]} is stuck at {level}" if len(bits) == 1 else f"bits {bits} are stuck at {level}"
