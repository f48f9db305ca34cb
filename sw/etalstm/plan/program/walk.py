"""Goes through the instructions of a program as the machine executes them: loops, registers and waits resolved."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from etalstm_hw import contract
from etalstm_hw.contract import ADVANCES, ENGINE_OF, Engine, Opcode

_WAITS = ("wait_load", "wait_mac", "wait_vector", "wait_store")  # in the order of the engines
_NO_WAITS = (0,) * len(_WAITS)
_MODULUS = 1 << contract.ADDRESS_BITS


class Step(NamedTuple):
    """An instruction that is executed.

    Members
    -------
    number : int
        Its place in the program.
    opcode : Opcode
    fields : dict
        As they are written, waits too; for all executions the same object.
    address : int
        The effective address, if it has one.
    waits : tuple of int
        How many instructions LOAD, MAC, VECTOR and STORE must have completed; 0: any.
    """

    number: int
    opcode: Opcode
    fields: dict[str, int]
    address: int
    waits: tuple[int, int, int, int]


def walk(words: Iterable[int]) -> Iterator[Step]:
    """Execute LOOP and ADVANCE, give everything else; HALT is the last.

    Raises
    ------
    ValueError
        If the program is one that the machine refuses: an unknown opcode, a count of 0, a body that ends behind its
        loop or the program.
    """
    program = [_decoded(number, word) for number, word in enumerate(words)]
    registers, dispatched = [0] * contract.ADDRESS_REGISTERS, [0] * len(Engine)
    loops: list[list[int]] = []  # first instruction, end, turns that are left
    at = 0
    while at < len(program):
        opcode, engine, fields, register, address, waits, number = program[at]
        at += 1
        if engine is not None:
            if register:
                address = (address + registers[register]) % _MODULUS
            if waits is not None:
                targets = tuple([wait and dispatched[n] + 1 - wait for n, wait in enumerate(waits)])
            else:
                targets = _NO_WAITS
            yield Step(number, opcode, fields, address, targets)
            dispatched[engine] += 1
        elif opcode == Opcode.LOOP:
            loops.append(_entered(fields, at, loops[-1][1] if loops else len(program)))
            continue
        elif opcode == Opcode.ADVANCE:
            for advanced, amount in address:
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


def _decoded(number: int, word: int) -> tuple:
    """Decode an instruction to what :func:`walk` needs of it; of an ADVANCE the pairs, in the place of an address."""
    opcode, fields = contract.decode(word)
    waits = tuple(fields[name] for name in _WAITS)
    address = fields.get("address", 0)
    if opcode == Opcode.ADVANCE:
        pairs = ((fields[f"register{n}"], fields[f"amount{n}"]) for n in range(ADVANCES))
        address = [(register, amount) for register, amount in pairs if register]
    register = fields["register"] if "address" in fields else 0
    return opcode, ENGINE_OF.get(opcode), fields, register, address, waits if any(waits) else None, number


def _entered(fields, first, limit) -> list[int]:
    turns, end = fields["turns"], first + fields["length"]
    if not turns or end == first:
        raise ValueError(f"the LOOP before instruction {first} has {turns} turns of {end - first} instructions")
    if end > limit:
        raise ValueError(f"the body of the LOOP before instruction {first} ends at {end}, what is around it at {limit}")
    return [first, end, turns]


@dataclass(frozen=True)
class Loop:
    """A loop of a program, or the whole program.

    Members
    -------
    turns : int
    body : list
        Instructions (number, opcode, fields), and loops.
    """

    turns: int
    body: list

    def has(self, number: int) -> bool:
        """Tell whether an instruction is in the body."""
        return any(node.has(number) if isinstance(node, Loop) else node[0] == number for node in self.body)

    def count(self, weigh) -> Counter:
        """Add up what `weigh` gives for the instructions of a turn: a dict of numbers for each."""
        total = Counter()
        for node in self.body:
            if isinstance(node, Loop):
                of_turn = node.count(weigh)
                total.update({key: node.turns * value for key, value in of_turn.items()})
            else:
                total.update(weigh(*node))
        return total


def parse(words: Sequence[int]) -> Loop:
    """Read a program's loops. An unknown opcode is None, and has no fields.

    Raises
    ------
    ValueError
        If a loop has no turn, no body, or one that ends behind what is around it.
    """
    whole = Loop(1, [])
    loops = [(whole, None)]
    for number, word in enumerate(words):
        while loops[-1][1] == number:
            loops.pop()
        known = word & ((1 << contract.OPCODE_BITS) - 1) in set(Opcode)
        opcode, fields = contract.decode(word) if known else (None, {})
        if opcode == Opcode.LOOP:
            _, end, turns = _entered(fields, number + 1, loops[-1][1] or len(words))
            loop = Loop(turns, [])
            loops[-1][0].body.append(loop)
            loops.append((loop, end))
        else:
            loops[-1][0].body.append((number, opcode, fields))
    return whole


def locate(words: Sequence[int], engine: Engine, completed: int) -> tuple[int, tuple[int, ...]] | None:
    """Find the instruction that an engine is at after it has completed so many, without going through all turns.

    Returns
    -------
    number : int
        Its place in the program.
    turns : tuple of int
        In which turn of each loop around it, the outermost first.

    None if the engine has no more instructions.
    """

    def own(number, opcode, fields):
        return {"own": ENGINE_OF.get(opcode) == engine}

    loop, left, turns = parse(words), completed, ()
    while loop:
        loop, inside = None, loop
        for node in inside.body:
            count = node.count(own)["own"] if isinstance(node, Loop) else own(*node)["own"]
            if isinstance(node, Loop) and left < node.turns * count:
                loop, turns, left = node, (*turns, left // count), left % count
                break
            if not isinstance(node, Loop) and left < count:
                return node[0], turns
            left -= count * (node.turns if isinstance(node, Loop) else 1)
    return None


def streams_before(words: Sequence[int], stores: int) -> tuple[int, float]:
    """Tell how far a log had come when a program's STORE engine had completed so many instructions.

    Returns
    -------
    log : int
        The log that the next instruction appends to.
    share : float
        How much of all that goes to this log, before compression and before it begins anew, was there.

    Raises
    ------
    ValueError
        If the next instruction appends to none.
    """
    found = locate(words, Engine.STORE, stores)
    streams = _Streams(*found) if found else None
    if streams is None or not _vectors_of(*contract.decode(words[found[0]])):
        raise ValueError("the STORE engine's next instruction appends to no log")
    log = contract.decode(words[found[0]])[1]["log"]
    streams.add(parse(words), log)
    return log, streams.before / streams.total


class _Streams:
    """Adds up what goes to a log: before an instruction in some turns, and in all.

    Members
    -------
    before, total : int
        Vectors, before compression, since the log began.
    """

    def __init__(self, number: int, turns: tuple[int, ...]):
        self._number, self._turns = number, turns
        self.before = self.total = 0
        self._passed = self._over = False

    def add(self, loop: Loop, log: int) -> None:
        """Add the nodes of a loop's body, once; the first turn of a loop that has the instruction stands for all."""
        for node in loop.body:
            if isinstance(node, Loop):
                self._add_loop(node, log)
            else:
                self._add_instruction(*node, log)

    def _add_loop(self, loop: Loop, log: int) -> None:
        size = loop.count(lambda number, opcode, fields: {"size": _vectors_of(opcode, fields, log)})["size"]
        if self._passed or not loop.has(self._number):
            self._sum(loop.turns * size)
            return
        turn, *self._turns = self._turns
        self._sum(turn * size)
        self.add(loop, log)
        self._sum((loop.turns - turn - 1) * size)

    def _add_instruction(self, number, opcode, fields, log) -> None:
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


def line_of(word: int) -> str:
    """Write an instruction as text: opcode, fields that are not 0, how far back it waits for which engine."""
    opcode, fields = contract.decode(word)
    waits = [f"{name[5:]} -{fields[name]}" for name in _WAITS if fields[name]]
    waits += ["by all channels"] if fields["everyone"] else []
    values = {name: fields[name] for name in contract.FIELDS[opcode] if fields[name]}
    if fields["register"] and "address" in fields:
        values["address"] = f"{fields['address']}+r{fields['register']}"
    rest = [f"{name}={value}" for name, value in values.items()]
    if opcode == Opcode.ADVANCE:
        rest = [f"r{register}+={_signed(amount)}" for register, amount in _decoded(0, word)[4]]
    after = f"  after {', '.join(waits)}" if waits else ""
    return f"{opcode.name:9s} {' '.join(rest)}{after}"


def _signed(amount: int) -> int:
    return amount - _MODULUS if amount >= _MODULUS // 2 else amount


def disassemble(words: Sequence[int]) -> Iterator[str]:
    """Write a program as text, one line each: number, instruction, the bodies of loops indented."""
    ends: list[int] = []
    for number, word in enumerate(words):
        while ends and number >= ends[-1]:
            ends.pop()
        yield f"{number:6d}  {'  ' * len(ends)}{line_of(word)}"
        opcode, fields = contract.decode(word)
        if opcode == Opcode.LOOP:
            ends.append(number + 1 + fields["length"])
