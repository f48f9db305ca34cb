"""How far a pruning step goes: its ratio is halved where accuracy is lost, and sizes stop at hysteresis points."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from etalstm.research.compress.network import INPUTS
from etalstm.research.compress.structure import Dimension
from etalstm.research.profile.profile import Profile


@dataclass(frozen=True)
class Guides:
    """Which sizes pay.

    Members
    -------
    units, inputs : Profile or None      of the units of a layer, and of the first layer's inputs; None: every size does
    """

    units: Profile | None = None
    inputs: Profile | None = None

    def of(self, dimensions: Sequence[Dimension]) -> list[Profile | None]:
        """Give the guide of each dimension of a network."""
        return [self.inputs if dimension.name == INPUTS else self.units for dimension in dimensions]

    @property
    def digest(self) -> str:
        """What tells guides apart, for a run that goes on."""
        texts = ["" if profile is None else profile.model_dump_json() for profile in (self.units, self.inputs)]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@dataclass(frozen=True)
class Attempt:
    """What a round of pruning tries.

    Members
    -------
    counts : tuple of int      elements of each dimension afterwards
    ratio : float              share that is removed
    """

    counts: tuple[int, ...]
    ratio: float


def next_attempt(
    counts: Sequence[int],
    ratio: float,
    failed: Sequence[int] | None,
    guides: Sequence[Profile | None],
) -> Attempt | None:
    """Say what to try next.

    Parameters
    ----------
    counts : sequence of int
        Elements of each dimension now.
    ratio : float
        Share to remove; at least one element goes.
    failed : sequence of int or None
        Counts of the last attempt, if accuracy was lost with them. The ratio is halved until the counts are others; if
        some dimensions have guides, until theirs are.
    guides : sequence of Profile or None
        For each dimension: stop at the profile's points only.

    Returns
    -------
    Attempt or None
        None if there is nothing left to try.
    """
    compared = [number for number, guide in enumerate(guides) if guide is not None] or range(len(counts))
    while True:
        wanted = tuple(_fewer(count, ratio, guide) for count, guide in zip(counts, guides, strict=True))
        if wanted == tuple(counts):
            return None
        if failed is None or any(wanted[number] != failed[number] for number in compared):
            return Attempt(wanted, ratio)
        if ratio * max(counts) < 1:
            return None
        ratio /= 2


def _fewer(count: int, ratio: float, guide: Profile | None) -> int:
    wanted = count - max(1, int(ratio * count))
    if guide is not None:
        wanted = guide.point_at_most(wanted) or 0
    return wanted if wanted >= 1 else count


def grown_counts(counts: Sequence[int], sizes: Sequence[int], guides: Sequence[Profile | None]) -> tuple[int, ...]:
    """Give the next hysteresis point for each dimension, its count where it is at one.

    Parameters
    ----------
    counts, sizes : sequences of int
        Elements of each dimension now, and those that it has at most.
    guides : sequence of Profile or None
        A dimension without one does not grow, nor does one whose next point is above its size.
    """
    found = []
    for count, size, guide in zip(counts, sizes, guides, strict=True):
        point = None if guide is None else guide.point_at_least(count)
        found.append(count if point is None or point > size else point)
    return tuple(found)
