"""Runs of steps that a loop goes through."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import groupby

from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.fold import FEWEST_TURNS

MOST_RUNS = 4  # runs of one kind each that repeat together: a refresh step, the two before the next, those between


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


def alike(items: Iterable[int], kind: Callable[[int], Hashable]) -> list[list[int]]:
    """Cut items into runs of one kind, in their order."""
    return [list(run) for _, run in groupby(items, kind)]


def loop_through(
    emitter: Emitter,
    steps: Sequence[int],
    kind: Callable[[int], Hashable],
    emit: Callable[[int], None],
    period: int = 1,
) -> None:
    """Emit steps in loops: those of one kind in a row are a loop, and runs that repeat are one around theirs.

    Parameters
    ----------
    emitter : Emitter
    steps : sequence of int
    kind : function
        From a step to what may make it differ from others.
    emit : function
        Emits a step.
    period : int
        Steps of one kind repeat after a multiple of so many.
    """
    runs = alike(steps, kind)
    shapes = [(kind(run[0]), len(run)) for run in runs]

    def emit_run(run: list[int]) -> None:
        emitter.loop(len(run), lambda turn: emit(run[turn]), period)

    def emit_turn(of_turn: list[list[list[int]]], turn: int) -> None:
        for run in of_turn[turn]:
            emit_run(run)

    first = 0
    while first < len(runs):
        together, turns = _repeated(shapes[first:])
        of_turn = [runs[first + n * together : first + (n + 1) * together] for n in range(turns)]
        if turns == 1:
            emit_run(runs[first])
        else:
            around = math.lcm(period, length := sum(map(len, of_turn[0]))) // length
            emitter.loop(turns, partial(emit_turn, of_turn), around)
        first += together * turns


def _repeated(shapes: Sequence[Hashable]) -> tuple[int, int]:
    """Tell how many runs repeat together from the first on, and how often: one, once, if no loop is made of them."""
    for together in range(2, MOST_RUNS + 1):
        turns = 1
        while shapes[turns * together : (turns + 1) * together] == shapes[:together]:
            turns += 1
        if turns >= FEWEST_TURNS:
            return together, turns
    return 1, 1
