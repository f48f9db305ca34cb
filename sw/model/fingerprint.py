"""States of the machine that go on alike, though they come at different times.

Two states behave alike if they differ only in what no part looks at: when they come, how often each FIFO has gone
round, which numbers instructions have, and where operands lie in memory, but for the place within a burst. The
fingerprint of a state is made of everything else.

Fields of records are compared as they are unless one of the tables below says otherwise. So a new field that is
forgotten here can only keep equal states apart.
"""

from hashlib import blake2b

import numpy as np

from etalstm.hw.contract import SLOTS
from etalstm.model.latencies import MAC_SUM
from etalstm.model.machine import Machine
from etalstm.model.rings import ELSEWHERE, collect_rings
from etalstm.model.state import BURST_BEATS, NEVER, Sizes

PAST = 256  # cycles after which no part asks any more when something was
_AHEAD = 1 << 40

_TIMES = {
    "queues": "valid_from",
    "sequencer": "halted_at sent_at",
    "readers": "active_from address_from offered",
    "ports": "free accepted",
    "read_port": "free accepted",
    "asked": "checked_at",
    "fetcher": "filling_from",
    "vector": "last_write units_free pe_at scratch_at queue_at waiting_at",
    "mac": "issued_at since",
    "load": "prepared_at",
    "store": "prepared_at cut_from scatter_from queue_at",
    "writer": "active_from offered shown_from",
    "rows": "map_at asked took",
}
"""Fields that are cycles."""

_PLACES = {
    "sequencer": "index registers",
    "readers": "beat",
    "log": "position positions",
    "writer": "beat",
}
"""Fields that are beats of the memory, or that such beats follow from."""

_WHOLE = ("begun",)
_NOT_AT_ALL = ("instances", "stack", "counted", "random", "masks", "values", "sums", "wakes", "words")
"""Arrays that are compared as they are, and those that are not: masks follow from their bank."""


class Fingerprints:
    """Takes fingerprints of one machine.

    Parameters
    ----------
    machine : Machine
    sizes : Sizes
    """

    def __init__(self, machine: Machine, sizes: Sizes):
        self._machine, self._sizes = machine, sizes
        self._times, self._places, self._plain = _divide(machine)
        self._rings = np.zeros(1 << 16, np.int64)
        self._fixed = sizes.elementwise + sizes.forward + sizes.backward > 0

    def take(self, table: np.ndarray) -> bytes:
        """Give the fingerprint of the machine as it is now, with a program's `table`."""
        machine, words = self._machine, self._machine.words
        cycle = int(machine.sequencer["cycle"][0])
        times = np.concatenate((words[self._times], machine.wakes.ravel()))
        sums = machine.sums.ravel()
        recent = np.flatnonzero(sums >= cycle - 2 * MAC_SUM)
        length = collect_rings(cycle, machine, table, self._rings)
        parts = (
            words[self._plain],
            words[self._places] % BURST_BEATS,
            relative(times, cycle),
            recent,
            sums[recent] - cycle,
            self._rings[:length],
            [cycle % SLOTS if self._fixed else 0],
        )
        return blake2b(np.concatenate(parts).tobytes(), digest_size=16).digest()


def relative(times: np.ndarray, cycle: int) -> np.ndarray:
    """Give cycles from now on; those long ago, and those that never come, are alike."""
    return np.where(times >= NEVER, _AHEAD, np.maximum(times - cycle, -PAST))


def _divide(machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find which of the machine's words are times, places, and compared as they are."""
    found, first = ([], [], []), 0
    for name, array in zip(machine._fields[:-1], machine[:-1], strict=True):
        if array.dtype.names:
            for entry in range(array.size):
                _divide_record(name, array.dtype, first + entry * array.dtype.itemsize // 8, found)
        elif name in _WHOLE:
            found[2].extend(range(first, first + array.size))
        elif name not in _NOT_AT_ALL:
            raise ValueError(f"no rule says how the array {name} is compared")
        first += array.nbytes // 8
    return tuple(np.array(places, np.int64) for places in found)


def _divide_record(name: str, dtype: np.dtype, first: int, found: tuple[list, list, list]) -> None:
    if name in _NOT_AT_ALL:
        return
    times, places = _TIMES.get(name, "").split(), _PLACES.get(name, "").split()
    elsewhere = ELSEWHERE.get(name, "").split()
    for field in dtype.names:
        shape, offset = dtype.fields[field][:2]
        where = range(first + offset // 8, first + (offset + shape.itemsize) // 8)
        if field in times:
            found[0].extend(where)
        elif field in places:
            found[1].extend(where)
        elif field not in elsewhere:
            found[2].extend(where)
