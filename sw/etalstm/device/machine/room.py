"""How much room logs get: an estimate first, then what their streams were seen to need."""

from collections import deque

from etalstm.network.storage import check_share

FIRST = 0.625  # of the worst case: an untrained network needs about half at θ 0.1
SPARE = 1.125  # room beyond what was needed
GROWTH = 1.25  # at least so much more room where it was too little
WASTE = 0.75  # shrink to less than so much of the room, or not at all: a new plan costs more than a little memory
PATIENCE = 16  # passes in a row that must have needed as little


class Room:
    """The share of its worst case that each log of a session is given. Equal runs are given equal shares.

    Parameters
    ----------
    first : float
        What a log is given before anything is known of it, above 0, at most 1.

    Members
    -------
    replays : int
        How often a log was too small.

    Raises
    ------
    ValueError
        If `first` is no such share.
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

        Parameters
        ----------
        log : int
        given : float
            The share that it had.
        written : float
            Share of all its streams, by their size before compression, that it had taken until it was full, which lets
            expect what all of them need.
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
