"""Loops: folds turns that are written one after the other into one body, and gives the machine's words of it."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import final

from etalstm.errors import PlanError
from etalstm_hw import contract
from etalstm_hw.contract import Engine, Opcode

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
    waits : tuple of int     by engine, how far back the instruction is that must be completed; 0: no wait
    address : int            in the first turns
    fields : dict            all others
    touched : tuple
        The vectors of lane memories and the arrays that it reads, then those that it writes. Turns that repeat touch
        the same: what one waits for holds for all.
    strides : list of int    what each turn of the loops around it adds to the address, the innermost first
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

    `block` has its instructions and loops, folded. `outline` is what its emitter said, however it was folded: a loop is
    its number of turns, its first and its last one.
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

    Returns how far apart the addresses of their instructions are; None if they differ in anything else.
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

    They do so from turn `first` on, after `period` turns. `strides` are, for each turn of the first period, what a
    period adds to the addresses of its block.
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

    Raises ``FoldError`` if it does something else.
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


MOST_RUNS = 4  # runs of one kind each that repeat together: a refresh step, the two before the next, those between


def strided(steps: list[int]) -> list[range]:
    """Cut steps into runs of constant distance, in their order."""
    runs, first = [], 0
    while first < len(steps):
        last = first
        distance = steps[first + 1] - steps[first] if first + 1 < len(steps) else 1
        while last + 1 < len(steps) and steps[last + 1] - steps[last] == distance:
            last += 1
        runs.append(range(steps[first], steps[last] + distance, distance))
        first = last + 1
    return runs


def alike(items: Iterable[int], kind: Callable[[int], Hashable]) -> list[list[int]]:
    """Cut items into runs of one kind, in their order."""
    return [list(run) for _, run in groupby(items, kind)]


def loop_through(
    loop: Callable[[int, Callable[[int], None], int], None], steps: Sequence[int], kind: Callable[[int], Hashable],
    emit: Callable[[int], None], period: int = 1,
) -> None:  # fmt: skip
    """Emit steps in loops: those of one kind in a row are a loop, and runs that repeat are one around theirs.

    Parameters
    ----------
    loop : function    appends a loop: :meth:`etalstm.plan.program.program.Program.loop`
    kind : function    from a step to what may make it differ from others
    emit : function    emits a step
    period : int       steps of one kind repeat after a multiple of so many
    """
    runs = alike(steps, kind)
    shapes = [(kind(run[0]), len(run)) for run in runs]

    def emit_run(run: list[int]) -> None:
        loop(len(run), lambda turn: emit(run[turn]), period)

    def emit_turn(of_turn: list[list[list[int]]], turn: int) -> None:
        for run in of_turn[turn]:
            emit_run(run)

    first = 0
    while first < len(runs):
        together, turns = _repeated(shapes[first:])
        of_turn = [runs[first + n * together : first + (n + 1) * together] for n in range(turns)]
        if turns == 1:
            emit_run(runs[first])
        else:
            around = math.lcm(period, length := sum(map(len, of_turn[0]))) // length
            loop(turns, partial(emit_turn, of_turn), around)
        first += together * turns


def _repeated(shapes: Sequence[Hashable]) -> tuple[int, int]:
    """Tell how many runs repeat together from the first on, and how often: one, once, if no loop is made of them."""
    for together in range(2, MOST_RUNS + 1):
        turns = 1
        while shapes[turns * together : (turns + 1) * together] == shapes[:together]:
            turns += 1
        if turns >= FEWEST_TURNS:
            return together, turns
    return 1, 1


WAIT_FIELDS = {engine: f"wait_{engine.name.lower()}" for engine in Engine if engine != Engine.CAST}


def encode(opcode: Opcode, **values: int) -> int:
    """Pack an instruction.

    Raises ``PlanError`` if a value does not fit its field.
    """
    try:
        return contract.encode(opcode, **values)
    except ValueError as error:
        raise PlanError(f"no instruction can express this network on this machine: {error}") from error


def lowered(node: Instruction | Repeat) -> list[int]:
    """Give the words of an instruction, or of a loop that no other loop is around.

    An address register belongs to a vector of strides: what each turn of the loops, the outermost first, adds to an
    address. It is advanced at the end of each body, and set back behind the loop.

    Raises ``PlanError`` if there are too many vectors, or loops inside each other.
    """
    if isinstance(node, Instruction):
        return [_word(node, 0)]
    vectors = {_vector(instruction) for instruction in instructions([node])} - {()}
    if len(vectors) >= contract.ADDRESS_REGISTERS:
        raise PlanError(
            f"the addresses of a loop advance in {len(vectors)} ways, there are registers for "
            f"{contract.ADDRESS_REGISTERS - 1}"
        )
    registers = {vector: number for number, vector in enumerate([(), *sorted(vectors)])}
    words, rest = _block([node], 0, registers)
    return words + _advance(rest)


def _vector(instruction: Instruction) -> tuple[int, ...]:
    """Give the strides of an instruction, the outermost loop's first, without zeros at the end."""
    strides = instruction.strides
    first = next((n for n, stride in enumerate(strides) if stride), len(strides))
    return tuple(reversed(strides[first:]))


def _block(block: Block, depth: int, registers: dict[tuple[int, ...], int]) -> tuple[list[int], Counter[int]]:
    """Give the words of a block inside `depth` loops, and what has yet to be added to registers behind it."""
    words: list[int] = []
    rest: Counter[int] = Counter()
    for node in block:
        words += _advance(rest)
        rest = Counter()
        if isinstance(node, Instruction):
            words.append(_word(node, registers[_vector(node)]))
        else:
            inner, rest = _loop(node, depth, registers)
            words += inner
    return words, rest


def _loop(loop: Repeat, depth: int, registers: dict[tuple[int, ...], int]) -> tuple[list[int], Counter[int]]:
    if depth == contract.LOOP_DEPTH:
        raise PlanError(f"a program has more than {contract.LOOP_DEPTH} loops inside each other")
    body, steps = _block(loop.body, depth + 1, registers)
    vectors = {_vector(instruction) for instruction in instructions(loop.body)}
    strides = Counter({registers[vector]: vector[depth] for vector in vectors if len(vector) > depth})
    steps.update(strides)
    body += _advance(steps)
    back = Counter({register: -stride * loop.turns for register, stride in strides.items()})
    return [encode(Opcode.LOOP, turns=loop.turns, length=len(body)), *body], back


def _advance(amounts: Counter[int]) -> list[int]:
    moved = sorted((register, amount) for register, amount in amounts.items() if amount)
    words = []
    for first in range(0, len(moved), contract.ADVANCES):
        values: dict[str, int] = {}
        for n, (register, amount) in enumerate(moved[first : first + contract.ADVANCES]):
            values |= {f"register{n}": register, f"amount{n}": amount % (1 << contract.ADDRESS_BITS)}
        words.append(encode(Opcode.ADVANCE, **values))
    return words


def _word(instruction: Instruction, register: int) -> int:
    waits = {WAIT_FIELDS[engine]: instruction.waits[engine] for engine in WAIT_FIELDS if instruction.waits[engine]}
    address = {"address": instruction.address} if instruction.address else {}
    return encode(instruction.opcode, **waits, **address, **instruction.fields, register=register)
