"""Plans of sessions on a machine, and how much memory their logs get."""

from collections import defaultdict, deque
from collections.abc import Sequence

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.shape import TrainingShape
from etalstm.network.storage import check_share
from etalstm.plan.choose.fit import plan_network
from etalstm.plan.memory.operands import Log
from etalstm.plan.plan import Plan

FIRST = 0.625  # of the worst case: an untrained network needs about half at θ 0.1
SPARE = 1.125  # room beyond what was needed
GROWTH = 1.25  # at least so much more room where it was too little
WASTE = 0.75  # shrink to less than so much of the room, or not at all: a new plan costs more than a little memory
PATIENCE = 16  # passes in a row that must have needed as little


class Room:
    """The share of its worst case that each log of a session is given. Equal runs are given equal shares.

    `first` is what a log is given before anything is known of it, above 0, at most 1.

    Members
    -------
    replays : int      how often a log was too small
    used : dict        from a log's number to the vectors that all its streams of the last pass took
    wasteful : bool    since the last plan a log was found to need less: the next plan gives it less
    """

    def __init__(self, first: float = FIRST):
        self._first = check_share("log_share", first)
        self._shares: dict[int, float] = {}
        self._seen: dict[int, deque[float]] = {}
        self._uses: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)  # of programs: vectors, and at worst
        self.replays, self.wasteful = 0, False
        self.used: dict[int, float] = {}

    def share(self, log: int) -> float:
        """Give a log's share, by its number."""
        return self._shares.get(log, self._first)

    def grow(self, log: int, given: float, written: float) -> None:
        """Give more room to a log that was too small.

        When it was full it had taken the share `written` of its streams, by their size before compression. The room
        that all of them need is estimated from that.
        """
        self.replays += 1
        expected = SPARE * given / written if written else 2 * given
        self._shares[log] = min(1.0, max(GROWTH * given, expected))
        self._seen.pop(log, None)

    def give(self, log: int, share: float) -> None:
        """Give a log at least a share that is known to be needed."""
        self._shares[log] = min(1.0, max(self.share(log), share))
        self._seen.pop(log, None)

    def begin_pass(self) -> None:
        """Forget the programs of a pass that did not come to its end."""
        self._uses.clear()

    def use(self, log: Log, end: float) -> None:
        """Note up to which vector a program of the pass has filled a log."""
        self._uses[log.number].append((end - log.array.first, log.worst))

    def end_pass(self, whole: bool) -> None:
        """Note what the pass has used. Only a pass of the `whole` network tells how large the logs must be."""
        for number, uses in self._uses.items():
            self.used[number] = sum(used for used, _ in uses)
            if whole:
                self.wasteful |= self.note(number, max(used / worst for used, worst in uses))

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
    """Plan a session's programs and memory; :class:`PlanError` if they do not fit the memory or the memory budget.

    Of the numbers of `groups` of channels the first that fits is taken. Default: the shape's number, or all that are
    possible, the fastest first. `options` are those of :func:`plan_network` that do not follow from the others.
    """
    groups = groups or (None if shape.groups is None else [shape.groups])
    return plan_network(
        accelerator.config, shape.network, shape.batch, shape.steps, shape.execution,
        memory_bytes=accelerator.transport.memory_bytes, memory_budget=shape.memory_budget, groups=groups,
        masked=shape.masked, share=room.share, layers_apart=shape.layers_apart,
        gradient_sums=shape.gradient_sums, **options,
    )  # fmt: skip
