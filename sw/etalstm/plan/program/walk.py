"""Goes through the instructions of a program as the machine executes them: loops, registers and waits resolved."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from etalstm_hw import contract
from etalstm_hw.contract import ADVANCES, ENGINE_OF, Engine, Memory, Opcode, Source, Start, Traffic, VectorOp

_WAITS = ("wait_load", "wait_mac", "wait_vector", "wait_store")  # in the order of the engines
_NO_WAITS = (0,) * len(_WAITS)
_MODULUS = 1 << contract.ADDRESS_BITS
_NAMES: dict[str, type[IntEnum]] = {
    "op": VectorOp, "a_source": Source, "b_source": Source, "memory": Memory, "kind": Traffic,
}  # fmt: skip


class Step(NamedTuple):
    """An instruction that is executed.

    Members
    -------
    number : int            its position in the program
    fields : dict           as they are written, waits too; for all executions the same object
    address : int           the effective address, if it has one
    waits : tuple of int    how many instructions LOAD, MAC, VECTOR and STORE must have completed; 0: any
    """

    number: int
    opcode: Opcode
    fields: dict[str, int]
    address: int
    waits: tuple[int, ...]


def walk(words: Iterable[int]) -> Iterator[Step]:
    """Execute LOOP and ADVANCE, give everything else; HALT is the last.

    Raises ``ValueError`` if the program is one that the machine refuses: an unknown opcode, a count of 0, a body that
    ends behind its loop or the program.
    """
    program = [_decoded(number, word) for number, word in enumerate(words)]
    registers, dispatched = [0] * contract.ADDRESS_REGISTERS, [0] * len(Engine)
    loops: list[list[int]] = []  # first instruction, end, turns that are left
    at = 0
    while at < len(program):
        number, opcode, engine, fields, register, address, advances, waits = program[at]
        at += 1
        if engine is not None:
            if register:
                address = (address + registers[register]) % _MODULUS
            targets = _NO_WAITS
            if waits is not None:
                targets = tuple([wait and dispatched[n] + 1 - wait for n, wait in enumerate(waits)])
            yield Step(number, opcode, fields, address, targets)
            dispatched[engine] += 1
        elif opcode == Opcode.LOOP:
            loops.append(_entered(fields, at, loops[-1][1] if loops else len(program)))
            continue
        elif opcode == Opcode.ADVANCE:
            for advanced, amount in advances:
                registers[advanced] = (registers[advanced] + amount) % _MODULUS
        else:
            yield Step(number, opcode, fields, 0, _NO_WAITS)
            return
        while loops and at == loops[-1][1]:
            loops[-1][2] -= 1
            if loops[-1][2]:
                at = loops[-1][0]
            else:
                loops.pop()


class _Decoded(NamedTuple):
    """What :func:`walk` needs of an instruction; `register` is 0 and `waits` None where there is nothing to add."""

    number: int
    opcode: Opcode
    engine: Engine | None
    fields: dict[str, int]
    register: int
    address: int
    advances: list[tuple[int, int]]
    waits: tuple[int, ...] | None


def _decoded(number: int, word: int) -> _Decoded:
    opcode, fields = contract.decode(word)
    waits = tuple(fields[name] for name in _WAITS)
    advances = []
    if opcode == Opcode.ADVANCE:
        pairs = ((fields[f"register{n}"], fields[f"amount{n}"]) for n in range(ADVANCES))
        advances = [(register, amount) for register, amount in pairs if register]
    register, address = (fields["register"], fields["address"]) if "address" in fields else (0, 0)
    engine = ENGINE_OF.get(opcode)
    return _Decoded(number, opcode, engine, fields, register, address, advances, waits if any(waits) else None)


def _entered(fields: dict[str, int], first: int, limit: int) -> list[int]:
    turns, end = fields["turns"], first + fields["length"]
    if not turns or end == first:
        raise ValueError(f"the LOOP before instruction {first} has {turns} turns of {end - first} instructions")
    if end > limit:
        raise ValueError(f"the body of the LOOP before instruction {first} ends at {end}, what is around it at {limit}")
    return [first, end, turns]


Instruction = tuple[int, Opcode | None, dict[str, int]]  # number, opcode, fields


@dataclass(frozen=True)
class Loop:
    """A loop of a program, or the whole program.

    `body`: instructions (number, opcode, fields), and loops.
    """

    turns: int
    body: list["Instruction | Loop"]

    def has(self, number: int) -> bool:
        """Tell whether an instruction is in the body."""
        return any(node.has(number) if isinstance(node, Loop) else node[0] == number for node in self.body)

    def count(self, weigh: Callable[[int, Opcode | None, dict[str, int]], int]) -> int:
        """Add up what `weigh` gives for the instructions of a turn."""
        return sum(node.turns * node.count(weigh) if isinstance(node, Loop) else weigh(*node) for node in self.body)


def parse(words: Sequence[int]) -> Loop:
    """Read a program's loops. An unknown opcode is None, and has no fields.

    Raises ``ValueError`` if a loop has no turn, no body, or one that ends behind what is around it.
    """
    whole = Loop(1, [])
    loops = [(whole, len(words))]
    for number, word in enumerate(words):
        while loops[-1][1] == number:
            loops.pop()
        known = word & ((1 << contract.OPCODE_BITS) - 1) in set(Opcode)
        opcode, fields = contract.decode(word) if known else (None, {})
        if opcode == Opcode.LOOP:
            _, end, turns = _entered(fields, number + 1, loops[-1][1])
            loop = Loop(turns, [])
            loops[-1][0].body.append(loop)
            loops.append((loop, end))
        else:
            loops[-1][0].body.append((number, opcode, fields))
    return whole


def locate(words: Sequence[int], engine: Engine, completed: int) -> tuple[int, tuple[int, ...]] | None:
    """Find the instruction that an engine is at after it has completed so many, without going through all turns.

    Returns its number in the program, and in which turn of each loop around it the engine is, the outermost first; None
    if the engine has no more instructions.
    """

    def own(number: int, opcode: Opcode | None, fields: dict[str, int]) -> int:
        return opcode is not None and ENGINE_OF.get(opcode) == engine

    def find(loop: Loop, left: int, turns: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
        for node in loop.body:
            count = node.count(own) if isinstance(node, Loop) else own(*node)
            repeats = node.turns if isinstance(node, Loop) else 1
            if left < repeats * count:
                return find(node, left % count, (*turns, left // count)) if isinstance(node, Loop) else (node[0], turns)
            left -= repeats * count
        return None

    return find(parse(words), completed, ())


def streams_before(words: Sequence[int], stores: int) -> tuple[int, float]:
    """Tell how far a log had come when a program's STORE engine had completed so many instructions.

    Returns the log that the next instruction appends to; and how much of all that goes to this log, before compression
    and before it begins anew, was there: 0 to 1. Raises ``ValueError`` if the next instruction appends to none.
    """
    found = locate(words, Engine.STORE, stores)
    if found is None or not _vectors_of(*contract.decode(words[found[0]])):
        raise ValueError("the STORE engine's next instruction appends to no log")
    log = contract.decode(words[found[0]])[1]["log"]
    streams = _Streams(*found)
    streams.add(parse(words), log)
    return log, streams.before / streams.total


class _Streams:
    """Adds up what goes to a log: before an instruction in some turns, and in all.

    Members
    -------
    before, total : int    vectors, before compression, since the log began
    """

    def __init__(self, number: int, turns: tuple[int, ...]):
        self._number, self._turns = number, list(turns)
        self.before = self.total = 0
        self._passed = self._over = False

    def add(self, loop: Loop, log: int) -> None:
        """Add the nodes of a loop's body, once; the first turn of a loop that has the instruction stands for all."""
        for node in loop.body:
            if isinstance(node, Loop):
                self._add_loop(node, log)
            else:
                self._add_instruction(node, log)

    def _add_loop(self, loop: Loop, log: int) -> None:
        size = loop.count(lambda number, opcode, fields: _vectors_of(opcode, fields, log))
        if self._passed or not loop.has(self._number):
            self._sum(loop.turns * size)
            return
        turn = self._turns.pop(0)
        self._sum(turn * size)
        self.add(loop, log)
        self._sum((loop.turns - turn - 1) * size)

    def _add_instruction(self, instruction: Instruction, log: int) -> None:
        number, opcode, fields = instruction
        size = _vectors_of(opcode, fields, log)
        if size and fields["first"]:
            self._over = self._passed
            if not self._over:
                self.before = self.total = 0
        self._passed |= number == self._number
        self._sum(size)

    def _sum(self, size: int) -> None:
        if not self._passed:
            self.before += size
        if not self._over:
            self.total += size


def _vectors_of(opcode: Opcode | None, fields: dict[str, int], log: int | None = None) -> int:
    """Give the vectors that an instruction appends to a log (None: to any), before compression."""
    appends = opcode == Opcode.STORE and fields["compressed"] and log in (None, fields["log"])
    return fields["outer"] * fields["inner"] if appends else 0


def line_of(word: int, place_of: Callable[[int], str] = lambda beat: "") -> str:
    """Write an instruction as text: opcode, names, numbers that are not 0, how far back it waits for which engine.

    `place_of` tells what lies at a beat of a window. Raises ``ValueError`` if there is no such instruction.
    """
    opcode, fields = contract.decode(word)
    waits = [f"{name[5:]} -{fields[name]}" for name in _WAITS if fields[name]]
    waits += ["by all channels"] if fields["everyone"] else []
    texts = ((name, _named(opcode, name, fields[name])) for name in contract.FIELDS[opcode])
    values: dict[str, int | str] = {name: text for name, text in texts if text}
    if fields["register"] and "address" in fields:
        values["address"] = f"{fields['address']}+r{fields['register']}"
    rest = [f"{name}={value}" for name, value in values.items()]
    if opcode == Opcode.ADVANCE:
        rest = [f"r{register}+={_signed(amount)}" for register, amount in _decoded(0, word).advances]
    after = f"  after {', '.join(waits)}" if waits else ""
    places = [place for name in ("address", "map") if name in fields and (place := place_of(fields[name]))]
    return f"{opcode.name:9s} {' '.join(rest)}{after}{'  ; ' if places else ''}{', '.join(places)}"


def _named(opcode: Opcode, field: str, value: int) -> int | str:
    """Give the name of a field's value if the contract names it, else the value."""
    names = Start if (opcode, field) == (Opcode.MAC, "start") else _NAMES.get(field)
    return names(value).name.lower() if names and value in {*names} else value


def _signed(amount: int) -> int:
    return amount - _MODULUS if amount >= _MODULUS // 2 else amount


def disassemble(words: Sequence[int], place_of: Callable[[int], str] = lambda beat: "") -> Iterator[str]:
    """Write a program as text, one line each: number, instruction, the bodies of loops indented.

    `place_of` is that of :func:`line_of`. In the body of a loop it tells what the first turn takes.
    """
    ends: list[int] = []
    for number, word in enumerate(words):
        while ends and number >= ends[-1]:
            ends.pop()
        opcode, fields = contract.decode(word)
        yield f"{number:6d}  {'  ' * len(ends)}{line_of(word, place_of)}"
        if opcode == Opcode.LOOP:
            ends.append(number + 1 + fields["length"])
