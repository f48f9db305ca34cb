"""From instructions with strides to the machine's words: address registers, LOOP and ADVANCE."""

from collections import Counter

from etalstm.errors import PlanError
from etalstm.plan.program.fold import Block, Instruction, Repeat, instructions
from etalstm_hw import contract
from etalstm_hw.contract import Engine, Opcode

WAIT_FIELDS = {engine: f"wait_{engine.name.lower()}" for engine in Engine if engine != Engine.CAST}


def encode(opcode: Opcode, **values: int) -> int:
    """Pack an instruction.

    Raises
    ------
    PlanError
        If a value does not fit its field.
    """
    try:
        return contract.encode(opcode, **values)
    except ValueError as error:
        raise PlanError(f"no instruction can express this network on this machine: {error}") from error


def lowered(node: Instruction | Repeat) -> list[int]:
    """Give the words of an instruction, or of a loop that no other loop is around.

    An address register belongs to a vector of strides: what each turn of the loops, the outermost first, adds to an
    address. It is advanced at the end of each body, and set back behind the loop.

    Raises
    ------
    PlanError
        If there are too many vectors, or loops inside each other.
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
    """Give the ADVANCEs that add amounts to registers."""
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
