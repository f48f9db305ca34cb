"""Sets hits against bins: what was hit, what is a hole, and what cannot be hit."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from etalstm.sim.coverage.bins import ANY, Bin, all_bins, impossible


@dataclass(frozen=True)
class Summary:
    """Functional coverage.

    Members
    -------
    hits : Mapping from Bin to int
    """

    hits: Mapping[Bin, int]

    @cached_property
    def possible(self) -> list[Bin]:
        """Bins that can be hit."""
        return [place for place in all_bins() if impossible(place) is None]

    @cached_property
    def holes(self) -> list[Bin]:
        """Bins that can be hit, and were not."""
        return [place for place in self.possible if not self.hits.get(place)]

    @cached_property
    def contradictions(self) -> list[Bin]:
        """Bins that were hit, and cannot be: a rule is wrong, or the machine is."""
        return [place for place, count in self.hits.items() if count and impossible(place)]

    @property
    def excused(self) -> dict[str, int]:
        """How many bins cannot be hit, by the reason."""
        reasons = (impossible(place) for place in all_bins())
        return dict(Counter(reason for reason in reasons if reason))

    def of_statuses(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Count, by opcode and status, the bins that were hit, and those that can be."""
        return self._count(lambda place: (place.opcode, place.status), variants=False)

    def of_variants(self) -> dict[tuple[str, str, str], tuple[int, int]]:
        """Count the same by opcode, variant and architecture, of programs that were DONE."""
        return self._count(lambda place: (place.opcode, place.variant, place.architecture), variants=True)

    def _count(self, key, *, variants: bool) -> dict:
        counts = {}
        for place in all_bins():
            if (place.variant != ANY) == variants:
                hit, possible = counts.get(key(place), (0, 0))
                can_be = impossible(place) is None
                counts[key(place)] = hit + (can_be and bool(self.hits.get(place))), possible + can_be
        return counts
