"""States of the machine that go on alike, though they come at different times.

Two states behave alike if they differ only in what no part looks at: when they come, how often each FIFO has gone
round, which numbers instructions have, and where operands lie in memory, but for the address within a burst. The
fingerprint of a state is made of everything else.

How far the program is fetched ahead, and in which bursts, is kept apart. It matters only where the sequencer runs out
of instructions, and it differs where all else comes again: a section of the program begins anywhere in a burst.

Fields of records are compared as they are unless one of the tables below says otherwise. So a new field that is
forgotten here can only keep equal states apart.
"""

from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from etalstm.model.machine.latencies import MAC_SUM, PROGRAM_RING
from etalstm.model.machine.machine import Machine
from etalstm.model.machine.state import BURST_BEATS, FETCH, NEVER, SEQUENCER, Sizes
from etalstm.model.rings import ELSEWHERE, collect_rings
from etalstm_hw.contract import SLOTS

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
    "vector": "last_write units_free pe_at b_read_at bank_read_at sums_at waiting_at",
    "mac": "issued_at since",
    "distributors": "given_from gave_at",
    "streams": "full_from free_from",
    "engines": "free_at",
    "load": "prepared_at weights_at weights_before",
    "store": "prepared_at cut_from scatter_from sums_at",
    "writer": "active_from offered shown_from",
    "rows": "map_at asked gone first burst_from end end_before",
}
"""Fields that are cycles."""

_ADDRESSES = {"sequencer": "number registers", "readers": "beat", "log": "position positions", "writer": "beat"}
"""Fields that are beats of the memory, or that such beats follow from."""

_FETCHED_FIELDS = ("asking", "asked_count", "ready", "pending", "dropped", "beats", "number")
_FETCHED_ARRAYS = ("readers", "ports")
"""What belongs to the program's fetch: fields of the sequencer, and the entry ``FETCH`` of arrays."""

_ENOUGH = PROGRAM_RING // 4  # instructions that are ready where the fetch does not matter

_WHOLE = ("begun",)
_NOT_AT_ALL = ("instances", "stack", "counted", "random", "masks", "values", "lines", "sums", "wakes", "words")
"""Arrays that are compared as they are, and those that are not: masks and lines follow from what fills their bank."""


class State(NamedTuple):
    """A state of the machine.

    States that share `exact` go on alike. So do those that share `supplied`, in which enough of the program is ready,
    however it is fetched, as long as the sequencer does not run out of instructions. Where little is ready both are the
    same.
    """

    exact: bytes
    supplied: bytes


class Fingerprints:
    """Takes fingerprints of one machine."""

    def __init__(self, machine: Machine, sizes: Sizes):
        self._machine = machine
        self._words, self._words_of_fetch = _divide(machine)
        self._rings = np.zeros(1 << 16, np.int64)
        self._fixed = sizes.elementwise + sizes.forward + sizes.backward > 0

    def take(self, table: np.ndarray) -> State:
        """Give the fingerprint of the machine as it is now, with a program's `table`."""
        machine = self._machine
        cycle = int(machine.sequencer["cycle"][0])
        sums = machine.sums.ravel()
        recent = np.flatnonzero(sums >= cycle - 2 * MAC_SUM)
        without, length = collect_rings(cycle, machine, table, self._rings)
        supplied = _digest(
            *self._compared(self._words, cycle),
            relative(machine.wakes[:, SEQUENCER + 1 :].ravel(), cycle),
            recent,
            sums[recent] - cycle,
            self._rings[:without],
            [cycle % SLOTS if self._fixed else 0],
        )
        exact = _digest(
            np.frombuffer(supplied, np.int64),
            *self._compared(self._words_of_fetch, cycle),
            relative(machine.wakes[:, SEQUENCER], cycle),
            self._rings[without:length],
        )
        return State(exact, supplied if machine.sequencer["ready"][0] >= _ENOUGH else exact)

    def _compared(self, words: "_Words", cycle: int) -> tuple[np.ndarray, ...]:
        """Give the machine's words in the form in which states are compared."""
        now = self._machine.words
        return now[words.plain], now[words.addresses] % BURST_BEATS, relative(now[words.times], cycle)


def _digest(*arrays) -> bytes:
    return blake2b(np.concatenate(arrays).tobytes(), digest_size=16).digest()


def relative(times: np.ndarray, cycle: int) -> np.ndarray:
    """Give cycles from now on; those long ago, and those that never come, are alike."""
    return np.where(times >= NEVER, _AHEAD, np.maximum(times - cycle, -PAST))


class _Words(NamedTuple):
    """Which of the machine's words are times, addresses, and compared as they are: arrays of int64."""

    times: np.ndarray
    addresses: np.ndarray
    plain: np.ndarray


_Gathered = dict[str, list[int]]  # the words of :class:`_Words`, while they are gathered


def _divide(machine: Machine) -> tuple[_Words, _Words]:
    """Divide the machine's words into all others and those of the program's fetch, each by how they are compared."""
    gathered: list[_Gathered] = [{name: [] for name in _Words._fields} for _ in range(2)]
    (rest, fetch), first = gathered, 0
    for name, array in zip(machine._fields[:-1], machine[:-1], strict=True):
        if array.dtype.names:
            for entry in range(array.size):
                _divide_record(name, entry, array.dtype, first + entry * array.dtype.itemsize // 8, rest, fetch)
        elif name in _WHOLE:
            rest["plain"].extend(range(first, first + array.size))
        elif name not in _NOT_AT_ALL:
            raise ValueError(f"no rule says how the array {name} is compared")
        first += array.nbytes // 8
    of_rest, of_fetch = (_Words(**{k: np.array(v, np.int64) for k, v in words.items()}) for words in gathered)
    return of_rest, of_fetch


def _divide_record(name: str, entry: int, dtype: np.dtype, first: int, rest: _Gathered, fetch: _Gathered) -> None:
    if name in _NOT_AT_ALL:
        return
    times, addresses = _TIMES.get(name, "").split(), _ADDRESSES.get(name, "").split()
    elsewhere = ELSEWHERE.get(name, "").split()
    for field, (shape, offset, *_) in (dtype.fields or {}).items():
        found = fetch if _is_fetched(name, entry, field) else rest
        where = range(first + offset // 8, first + (offset + shape.itemsize) // 8)
        if field not in elsewhere:
            found["times" if field in times else "addresses" if field in addresses else "plain"].extend(where)


def _is_fetched(name: str, entry: int, field: str) -> bool:
    """Tell whether a field belongs to the program's fetch."""
    return field in _FETCHED_FIELDS if name == "sequencer" else name in _FETCHED_ARRAYS and entry == FETCH
