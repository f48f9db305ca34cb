"""The ending of a program with a wrong field, compared with the contract's text and the model."""

from dataclasses import dataclass

from etalstm_hw.contract import Engine, Status
from etalstm_sim.checks.control import Refusal
from etalstm_sim.checks.model import Ending
from etalstm_sim.checks.refusals import Change, Expected

LONG_WORK = 10_000
"""Vectors and scalars from which on a program may be aborted."""


@dataclass(frozen=True)
class Run:
    """How a program ended on the machine.

    Members
    -------
    status : Status
        ABORTED if it still worked after :data:`etalstm_sim.trials.programs.near_valid.MOST_CYCLES`.
    engine, instruction : int
        The registers ERROR_ENGINE and ERROR_INSTRUCTION.
    same : bool
        All results have the bits of the valid program.
    contained : bool
        Nothing was written outside of the windows.
    """

    status: Status
    engine: int
    instruction: int
    same: bool
    contained: bool

    def is_as_expected(self, expected: Expected) -> bool:
        """It ended as the contract's text says."""
        if not self.contained:
            return False
        if self.status == Status.ABORTED:
            return Status.DONE in expected.statuses and not expected.same
        ended = self.status in expected.statuses
        return ended and (self.same or not expected.same or self.status != Status.DONE)

    def is_as_modelled(self, ending: Ending) -> bool:
        """It ended as the model says, and where."""
        if self.status == Status.ABORTED:
            return ending.is_cut or ending.work > LONG_WORK
        if self.status not in ending.statuses:
            return ending.is_cut
        return ending.refusal is None or self.status == Status.STUCK or self._is_at(ending.refusal)

    def _is_at(self, refusal: Refusal) -> bool:
        if refusal.engine is None:
            return (self.engine, self.instruction) == (len(Engine), refusal.number)
        if refusal.is_late:
            return self.engine == refusal.engine and self.instruction <= refusal.before + 1
        return (self.engine, self.instruction) == (refusal.engine, refusal.before)


@dataclass(frozen=True)
class CaseResult:
    """The result of a case.

    Members
    -------
    number : int
        Of the case.
    network : str
    change : Change
    expected : Expected
        By the contract's text.
    ending : Ending
        By the model.
    run : Run or None
        On the machine; None if it was not run.
    """

    number: int
    network: str
    change: Change
    expected: Expected
    ending: Ending
    run: Run | None = None

    @property
    def fits(self) -> bool:
        """Text, model and machine agree."""
        if not self.ending.statuses <= self.expected.statuses:
            return False
        return self.run is None or (self.run.is_as_expected(self.expected) and self.run.is_as_modelled(self.ending))
