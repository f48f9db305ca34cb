"""Records of the model's parts, and what all of them use.

Every part is a NumPy record of integers, so that compiled functions share it. Cycles count from the program's start.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import njit
from numba.core.registry import CPUDispatcher

from etalstm.model.machine import latencies
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract.distance import ROUND_TRIP
from etalstm_hw.contract.integers import WORD_BYTES

# No compiled function here allocates anything. Numba would count references to every array at every call all the same,
# which took five sixths of the time.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}  # an option that numba's own types leave out
entry_point = njit(cache=True, **_UNCOUNTED)  # decorator of compiled functions that are called from Python


class _Inner(CPUDispatcher):
    def __call__(self, *arguments: Any) -> NoReturn:
        raise TypeError(f"{self.py_func.__name__} is called from compiled functions only")


def compiled(function: Callable) -> Callable:
    """Have a function compiled that only compiled functions call; Python gets a TypeError.

    Numba then leaves out the wrapper that Python calls. That saves two fifths of the time to compile the model.
    """
    wrappers: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    inner = njit(function, **_UNCOUNTED, **wrappers)
    inner.__class__ = _Inner  # a call from Python would end the process, as there is no wrapper
    return inner


NEVER = 1 << 60  # a cycle that does not come
RING = 64  # entries of a ring: more than any FIFO of the machine has
DONE_RING = 256  # completions of an engine that are remembered: more than any have their time ahead
BURST_BEATS = 16

LOAD, MAC, VECTOR, STORE, CAST = (int(engine) for engine in contract.Engine)
FETCH = 0  # the reader and the port of the program
# The parts that act in a cycle, in the order in which they are asked: a part that offers comes before the one that
# takes. From VECTORS on every channel has its own.
SEQUENCER, FETCHER, EMITTER, PORT_READS, PORT_WRITES, VECTORS, STORES, LOADS, MACS, QUEUES, PARTS = range(11)


def record(*names: str, **arrays: int) -> np.dtype:
    """Make a record of integers and arrays of integers."""
    return np.dtype([(name, np.int64) for name in names] + [(name, np.int64, size) for name, size in arrays.items()])


def names_of(dtype: np.dtype) -> tuple[str, ...]:
    """Give the names of a record's fields; a plain type has none."""
    return dtype.names or ()


class Sizes(NamedTuple):
    """Numbers of a configuration and of the way that it runs."""

    channels: int  # of a group
    batch_groups: int
    groups: int  # groups that are modelled: all where each has data of its own, else one, and the others do the same
    managers: int  # channels that share a port
    modelled: int  # channels of a group that are modelled: all where each has data of its own, else those of one port
    lanes: int
    beat_words: int
    vector_beats: int
    instruction_beats: int
    instruction_queue: int
    scalar_fifo: int  # scalars that wait in a channel before it says that it has no room
    scratch_reads: int
    streams: int  # of digits; 0: products are of float32
    fetchers: int  # that are modelled: one of each group, with integers one of each port
    sent_ports: int  # of a broadcaster
    tile_sums: int  # of a lane, of each stream of digits
    sequence_lines: int  # beats of digits that a stream keeps of an array
    line_bytes: int
    banks: int  # cycles in which an activation unit does its lanes of a vector
    units: int
    codec_words: int
    broadcast_words: int
    chunk: int  # sequences of a mask by rows
    outstanding: int
    send_zeros: int
    elementwise: int  # fixed shares of the PEs: slots of each kind; all 0: none
    forward: int
    backward: int
    latency: int


_AS_CONFIGURED = (
    "lanes beat_words vector_beats instruction_beats instruction_queue scratch_reads broadcast_words tile_sums"
)


def sizes_of(
    config: Config,
    *,
    skips: bool = True,
    shares: tuple[int, int, int] = (0, 0, 0),
    batch_groups: int = 1,
    every: bool = False,
) -> Sizes:
    """Take from a configuration what the model needs, if its channels work in so many groups.

    `every`: all channels are modelled, because each has data of its own.
    """
    groups = batch_groups if every else 1
    channels = config.channels // batch_groups
    return Sizes(
        channels=channels,
        batch_groups=batch_groups,
        groups=groups,
        managers=config.channels_per_port,
        modelled=channels if every else config.channels_per_port,
        scalar_fifo=config.scalar_fifo + ROUND_TRIP,
        streams=config.integer_streams if config.integers else 0,
        fetchers=groups * config.broadcaster_ports,
        sent_ports=config.broadcaster_ports,
        sequence_lines=config.broadcast_words // config.beat_words,
        line_bytes=WORD_BYTES * config.beat_words,
        banks=config.lanes // config.activation_units,
        units=config.activation_units,
        codec_words=min(config.codec_words, config.beat_words),
        chunk=min(32, config.broadcast_words // (contract.MOST_GATES * config.lanes)),
        outstanding=config.outstanding_bursts,
        send_zeros=int(not skips),
        elementwise=shares[0],
        forward=shares[1],
        backward=shares[2],
        latency=latencies.MEMORY_CYCLES,
        **{name: getattr(config, name) for name in _AS_CONFIGURED.split()},
    )


@compiled
def wake(wakes, part, cycle):
    """Have a part asked in `cycle` at the latest."""
    if cycle < wakes[part]:
        wakes[part] = cycle


DONE = record("count", times=DONE_RING)  # completions of an engine: how many are known of, and the cycle of each pulse


@compiled
def complete(done, wakes, engine, cycle):
    """Note that an engine's next instruction is completed in `cycle`."""
    one = done[engine]
    one.times[one.count % DONE_RING] = cycle
    one.count += 1
    wakes[QUEUES] = 0


@compiled
def completed_at(done, engine, count):
    """Give the cycle of an engine's completion number `count` (from 1), NEVER if it is not known, 0 if long ago."""
    one = done[engine]
    if count <= one.count - DONE_RING or count <= 0:
        return 0
    return one.times[(count - 1) % DONE_RING] if count <= one.count else NEVER
