"""Plans of sessions on a machine, and how much memory their logs get."""

from collections import deque
from collections.abc import Sequence

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.shape import TrainingShape
from etalstm.network.storage import check_share
from etalstm.plan.choose.fit import plan_network
from etalstm.plan.plan import Plan

FIRST = 0.625  # of the worst case: an untrained network needs about half at θ 0.1
SPARE = 1.125  # room beyond what was needed
GROWTH = 1.25  # at least so much more room where it was too little
WASTE = 0.75  # shrink to less than so much of the room, or not at all: a new plan costs more than a little memory
PATIENCE = 16  # passes in a row that must have needed as little


class Room:
    """The share of its worst case that each log of a session is given. Equal runs are given equal shares.

    `first` is what a log is given before anything is known of it, above 0, at most 1. `replays` counts how often a log
    was too small.
    """

    def __init__(self, first: float = FIRST):
        self._first = check_share("log_share", first)
        self._shares: dict[int, float] = {}
        self._seen: dict[int, deque[float]] = {}
        self.replays = 0

    def share(self, log: int) -> float:
        """Give a log's share, by its number."""
        return self._shares.get(log, self._first)

    def grow(self, log: int, given: float, written: float) -> None:
        """Give more room to a log that was too small.

        Of all its streams, by their size before compression, it had taken the share `written` until it was full. That
        lets expect what all of them need.
        """
        self.replays += 1
        expected = SPARE * given / written if written else 2 * given
        self._shares[log] = min(1.0, max(GROWTH * given, expected))
        self._seen.pop(log, None)

    def give(self, log: int, share: float) -> None:
        """Give a log at least a share that is known to be needed."""
        self._shares[log] = min(1.0, max(self.share(log), share))
        self._seen.pop(log, None)

    def note(self, log: int, used: float) -> bool:
        """Take in what share of the worst case a pass used; tell whether the log is to have less from now on."""
        seen = self._seen.setdefault(log, deque(maxlen=PATIENCE))
        seen.append(used)
        needed = SPARE * max(seen)
        if len(seen) < PATIENCE or needed >= WASTE * self.share(log):
            return False
        self._shares[log] = needed
        seen.clear()
        return True


def first_room(shape: TrainingShape) -> Room:
    """Give the room that logs get before a pass has shown what they need."""
    nothing_is_dropped = not any(shape.execution.storage.of_kinds)
    return Room(shape.log_share or (1.0 if nothing_is_dropped else FIRST))


def plan_session(
    accelerator: Accelerator, shape: TrainingShape, room: Room, groups: Sequence[int] | None = None, **options
) -> Plan:
    """Plan a session's programs and memory.

    Parameters
    ----------
    room : Room
        Of the logs.
    groups : sequence of int, optional
        Numbers of groups of channels: the first that fits is taken. Default: all that are possible, the fastest first.
    options
        Of :func:`plan_network`: what does not follow from the others.

    Raises
    ------
    PlanError
        If the network does not fit the memory or the memory budget.
    """
    return plan_network(
        accelerator.config, shape.network, shape.batch, shape.steps, shape.execution,
        memory_bytes=accelerator.transport.memory_bytes, memory_budget=shape.memory_budget, groups=groups,
        masked=shape.masked, share=room.share, layers_apart=shape.layers_apart, **options,
    )  # fmt: skip
