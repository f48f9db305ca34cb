"""Instructions of the self-test's programs: contiguous vectors, and scalars of one vector."""

from collections.abc import Hashable, Iterable

from etalstm.device.selftest.bench import Bench
from etalstm.plan.program.program import Program
from etalstm_hw import contract
from etalstm_hw.contract import Memory, Opcode, Traffic

KIND = Traffic.ACTIVATIONS  # what the transfers count as


def load(
    program: Program, bench: Bench, memory: Memory, vector: int, count: int, *, writes: Iterable[Hashable]
) -> None:
    """Append a LOAD of `count` vectors of the windows, from `vector` on, to the start of a lane memory."""
    program.emit(
        Opcode.LOAD, writes=writes, address=bench.beat(vector), kind=KIND, memory=memory, **_loops(count)
    )  # fmt: skip


def store(
    program: Program, bench: Bench, memory: Memory, vector: int, count: int, *, source: int, reads: Iterable[Hashable]
) -> None:
    """Append a STORE of `count` vectors of a lane memory, from `source` on, to the windows, from `vector` on."""
    program.emit(
        Opcode.STORE, reads=reads, address=bench.beat(vector), kind=KIND, memory=memory, lane_address=source,
        **_loops(count),
    )  # fmt: skip


def cast(program: Program, bench: Bench, vector: int, *, channel: int, lanes: int, tiles: int) -> None:
    """Append a CAST of the first lanes of one vector of a channel's window, as one step of each of `tiles` new sums."""
    program.emit(
        Opcode.CAST, reads=["scalars"], address=bench.beat(vector), kind=KIND, channel=channel,
        tiles_per_channel=1, blocks=1, gates=1, batch=1, lanes=lanes, last_lanes=lanes, tiles=tiles, start=1, finish=1,
    )  # fmt: skip


def _loops(count: int) -> dict[str, int]:
    """Run through `count` vectors, a power of two where one loop could not count them."""
    inner = min(count, 1 << contract.COUNT_BITS - 1)
    outer, rest = divmod(count, inner)
    if rest:
        raise ValueError(f"{count} vectors are no multiple of {inner}")
    return {"outer": outer, "inner": inner, "outer_stride": inner if outer > 1 else 0, "inner_stride": 1}
