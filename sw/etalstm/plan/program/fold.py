"""Folds the turns of a loop, written out one after the other, into one body."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import final

from etalstm_hw.contract import Opcode

FEWEST_TURNS = 4  # below that, turns are written out: two that repeat, one that is left out, the last one
MOST_PERIOD = 8  # turns that a body may hold: halves of two memories alternate, and a few turns may share work
MOST_WRITTEN = 32  # turns that are written before they must repeat


class FoldError(RuntimeError):
    """The turns of a loop do not repeat: an error of the planner."""


@final
@dataclass(slots=True)
class Instruction:
    """An instruction whose address advances in the loops around it.

    Members
    -------
    opcode : Opcode
    waits : tuple of int
        By engine, how far back the instruction is that must be completed; 0: no wait.
    address : int
        In the first turns.
    fields : dict
        All others.
    touched : tuple
        The vectors of lane memories and the arrays that it reads, then those that it writes. Turns that repeat touch
        the same: what one waits for holds for all.
    strides : list of int
        What each turn of the loops around it adds to the address, the innermost first.
    """

    opcode: Opcode
    waits: tuple[int, ...]
    address: int
    fields: dict[str, int]
    touched: tuple[Hashable, ...]
    strides: list[int] = field(default_factory=list)


@final
@dataclass(slots=True)
class Repeat:
    """Nodes that are executed several times."""

    turns: int
    body: "Block"


Block = list[Instruction | Repeat]


@dataclass(slots=True)
class Turn:
    """A turn of a loop.

    Members
    -------
    block : Block
        Its instructions and loops, folded.
    outline : Block
        What its emitter said, however it was folded: a loop is its number of turns, its first and its last one.
    """

    block: Block = field(default_factory=list)
    outline: Block = field(default_factory=list)


def instructions(block: Block) -> Iterator[Instruction]:
    """Go through the instructions of a block as they are written."""
    for node in block:
        if type(node) is Repeat:
            yield from instructions(node.body)
        else:
            yield node


def distances(one: Block, other: Block, *, waits: bool) -> list[int] | None:
    """Compare two blocks, with their waits or without.

    Returns
    -------
    list of int
        How far apart the addresses of their instructions are; None if they differ in anything else.
    """
    if len(one) != len(other):
        return None
    result = []
    for a, b in zip(one, other, strict=True):
        if type(a) is Repeat and type(b) is Repeat and a.turns == b.turns:
            inner = distances(a.body, b.body, waits=waits)
            if inner is None:
                return None
            result += inner
        elif type(a) is Instruction and type(b) is Instruction and _alike(a, b, waits):
            result.append(b.address - a.address)
        else:
            return None
    return result


def _alike(one: Instruction, other: Instruction, waits: bool) -> bool:
    if waits and (one.waits, one.strides) != (other.waits, other.strides):
        return False
    return (one.opcode, one.fields, one.touched) == (other.opcode, other.fields, other.touched)


@dataclass(frozen=True)
class Steady:
    """Turns that repeat.

    Members
    -------
    first : int
        The turn from which on they do.
    period : int
        Turns after which they do.
    strides : list of lists of int
        For each turn of the first period, what a period adds to the addresses of its block.
    """

    first: int
    period: int
    strides: list[list[int]]


def steady(turns: list[Turn], multiple: int) -> Steady | None:
    """Tell whether the last turns repeat those before them, by the smallest period that is a multiple of a number."""
    for period in range(multiple, min(MOST_PERIOD, len(turns) // 2) + 1, multiple):
        first = len(turns) - 2 * period
        found = [_stride(turns, first + n, period) for n in range(period)]
        strides = [stride for stride in found if stride is not None]
        if len(strides) == period:
            return _extended(turns, first, period, strides)
    return None


def _stride(turns: list[Turn], first: int, period: int) -> list[int] | None:
    return distances(turns[first].block, turns[first + period].block, waits=True)


def _extended(turns: list[Turn], first: int, period: int, strides: list[list[int]]) -> Steady:
    """Let as many earlier turns as possible belong to those that repeat."""
    while first and _stride(turns, first - 1, period) == strides[-1]:
        first, strides = first - 1, [strides[-1], *strides[:-1]]
    return Steady(first, period, strides)


def check(number: int, turn: Turn, turns: list[Turn], found: Steady) -> None:
    """Compare a turn with what the loop will do. Its waits may differ: less was known of the turns before.

    Raises
    ------
    FoldError
        If it does something else.
    """
    periods, position = divmod(number - found.first, found.period)
    like = found.first + position
    each = distances(turns[like].outline, turns[like + found.period].outline, waits=False)
    apart = distances(turns[like].outline, turn.outline, waits=False)
    if apart is None or each is None:
        raise FoldError(f"turn {number} of a loop has other instructions than turn {like}, which it should repeat")
    written = list(instructions(turns[like].outline))
    for instruction, distance, stride in zip(written, apart, each, strict=True):
        if distance != periods * stride:
            first = instruction.address
            raise FoldError(
                f"the address of a loop's {instruction.opcode.name} is {first} in turn {like}, {first + distance} in "
                f"turn {number}, expected {first + periods * stride}: {stride} more each {found.period} turns"
            )


def folded(turns: list[Turn], found: Steady, count: int) -> Repeat:
    """Make the loop of the turns that repeat: `count` periods."""
    body: Block = []
    for turn, strides in zip(turns[found.first : found.first + found.period], found.strides, strict=True):
        for instruction, stride in zip(instructions(turn.block), strides, strict=True):
            instruction.strides.append(stride)
        body += turn.block
    return Repeat(count, body)
