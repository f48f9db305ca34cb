"""Runs of steps that a loop goes through."""

from collections.abc import Callable, Hashable, Iterable
from itertools import groupby


def strided(steps: list[int]) -> list[range]:
    """Cut steps into runs of constant distance, in their order."""
    runs, first = [], 0
    while first < len(steps):
        last = first
        distance = steps[first + 1] - steps[first] if first + 1 < len(steps) else 1
        while last + 1 < len(steps) and steps[last + 1] - steps[last] == distance:
            last += 1
        runs.append(range(steps[first], steps[last] + distance, distance))
        first = last + 1
    return runs


def alike(items: Iterable, kind: Callable[..., Hashable]) -> list[list]:
    """Cut items into runs of one kind, in their order."""
    return [list(run) for _, run in groupby(items, kind)]
