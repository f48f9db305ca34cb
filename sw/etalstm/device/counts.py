"""What the machine's counters have counted, added up over programs."""

from collections.abc import Iterable


def all_counts(of_passes: dict[str, dict]) -> dict:
    """Add what passes have counted; ``passes`` are the cycles of each."""
    cycles = {name: counts["cycles"] for name, counts in of_passes.items()}
    return add_counts(of_passes.values()) | {"passes": cycles}


def counts_side_by_side(counts: list[dict]) -> dict:
    """Add what machines have counted that worked at the same time; their cycles are those of the slowest."""
    slowest = {"cycles": max(each["cycles"] for each in counts)}
    if "passes" in counts[0]:
        slowest["passes"] = {name: max(each["passes"][name] for each in counts) for name in counts[0]["passes"]}
    return add_counts(counts) | slowest


def add_counts(counts: Iterable[dict]) -> dict:
    """Add nested dicts of numbers of one shape."""
    counts = list(counts)
    if not counts:
        return {"cycles": 0}
    return {
        key: add_counts(entry[key] for entry in counts)
        if isinstance(value, dict)
        else sum(entry[key] for entry in counts)
        for key, value in counts[0].items()
    }
