"""A session that is on all ranks: what is alike however they divide the work."""

import weakref

from etalstm.device import Session, TrainingShape
from etalstm.device.counts import counts_side_by_side
from etalstm.device.ranks.team import Team
from etalstm.device.ranks.worker import Call
from etalstm.network.slices import Parts


class TeamSession(Session):
    """Has every rank call its own session of the same number.

    Parameters
    ----------
    shape : TrainingShape
        Of all layers and the whole batch.
    parts : Parts
        Into which the batch is divided.
    team : Team
    number : int
        Of the session, on every rank.

    Members
    -------
    number : int
    """

    reduces = True

    def __init__(self, shape: TrainingShape, parts: Parts, team: Team, number: int):
        super().__init__(shape)
        self._parts, self._team, self.number = parts, team, number
        weakref.finalize(self, team.forget, number)

    def _all(self, name: str, *arguments) -> list:
        """Have every rank call a method of its session with the same arguments."""
        return self._team.all(Call(name, arguments, self.number))

    def _update(self, rule):
        self._all("update", rule)

    def _scrub(self):
        self._all("scrub")

    def _counters(self):
        return counts_side_by_side(self._all("counters"))
