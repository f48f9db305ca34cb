"""Sections and turns of a program that take as long whenever they come: see :mod:`etalstm.model.repeats`."""

from typing import NamedTuple

import numpy as np

from etalstm.model.fingerprint import State
from etalstm.model.trace import Trace

ALIKE = 10_000  # two durations are alike if they differ by less than one cycle in so many
_SECTION, _TURN = range(2)


class Unit(NamedTuple):
    """What a section or turn did when it was gone through last.

    Members
    -------
    cycles : int
    counted : array, int64
        In the order of :class:`Counter`.
    state : State
        The machine's behind it.
    settled : bool
        It took as long the time before.
    """

    cycles: int
    counted: np.ndarray
    state: State
    settled: bool


class Units:
    """Sections and turns of a program.

    Parameters
    ----------
    trace : Trace
        Where the program stands.
    """

    def __init__(self, trace: Trace):
        self._trace = trace
        self._begun: dict[int, tuple | None] = {_SECTION: None, _TURN: None}
        self._units: dict[tuple, Unit] = {}

    def at_boundary(self, state: State, cycles: int, counted: np.ndarray) -> Unit | None:
        """Note what ends and begins at a boundary; give what begins if it is settled.

        Parameters
        ----------
        state : State
            The machine's.
        cycles, counted : int, array
            Since the program's start.
        """
        trace = self._trace
        if trace.begins_section:
            self._end(_SECTION, state, cycles, counted)
            before, text = trace.section_text(trace.section - 1), trace.section_text(trace.section)
            return self._begin(_SECTION, text, (before, text), cycles, counted)
        if trace.begins_turn:
            self._end(_TURN, state, cycles, counted)
            text = trace.turn_text()
            return self._begin(_TURN, text, (text,), cycles, counted)
        return None

    def _begin(self, kind: int, text: int, key: tuple, cycles: int, counted: np.ndarray) -> Unit | None:
        known = self._units.get(key)
        if text >= 0 and known is not None and known.settled:
            return known
        if text >= 0:
            self._begun[kind] = key, cycles, counted.copy()
        return None

    def _end(self, kind: int, state: State, cycles: int, counted: np.ndarray) -> None:
        if self._begun[kind] is None:
            return
        key, began, before = self._begun[kind]
        took, last = cycles - began, self._units.get(key)
        settled = last is not None and abs(took - last.cycles) * ALIKE <= took
        self._units[key] = Unit(took, counted - before, state, settled)
        self._begun[kind] = None
