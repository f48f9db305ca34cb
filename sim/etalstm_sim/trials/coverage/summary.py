"""Compares hits with bins: bins that were hit, holes, and bins that cannot be hit."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from etalstm_sim.trials.coverage.bins import ANY, FLOATS, Bin, Kind, all_bins, impossible


@dataclass(frozen=True)
class Summary:
    """Functional coverage.

    Members
    -------
    hits : Mapping from Bin to int
    kind : Kind
        Of the machines.
    """

    hits: Mapping[Bin, int]
    kind: Kind = FLOATS

    @cached_property
    def possible(self) -> list[Bin]:
        """Bins that can be hit."""
        return [situation for situation in all_bins(self.kind) if impossible(situation) is None]

    @cached_property
    def holes(self) -> list[Bin]:
        """Bins that can be hit, and were not."""
        return [situation for situation in self.possible if not self.hits.get(situation)]

    @cached_property
    def contradictions(self) -> list[Bin]:
        """Bins that were hit although they cannot be: a rule or the machine is wrong."""
        return [situation for situation, count in self.hits.items() if count and impossible(situation)]

    @property
    def excused(self) -> dict[str, int]:
        """How many bins cannot be hit, by the reason."""
        reasons = (impossible(situation) for situation in all_bins(self.kind))
        return dict(Counter(reason for reason in reasons if reason))

    def of_statuses(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Count, by opcode and status, the bins that were hit, and those that can be."""
        return self._count(lambda situation: (situation.opcode, situation.status), variants=False)

    def of_variants(self) -> dict[tuple[str, str, str], tuple[int, int]]:
        """Count the same by opcode, variant and architecture, of programs that were DONE."""
        return self._count(
            lambda situation: (situation.opcode, situation.variant, situation.architecture), variants=True
        )

    def _count(self, key: Callable[[Bin], tuple], *, variants: bool) -> dict[tuple, tuple[int, int]]:
        counts: dict[tuple, tuple[int, int]] = {}
        for situation in all_bins(self.kind):
            if (situation.variant != ANY) == variants:
                hit, possible = counts.get(key(situation), (0, 0))
                can_be = impossible(situation) is None
                counts[key(situation)] = hit + (can_be and bool(self.hits.get(situation))), possible + can_be
        return counts
