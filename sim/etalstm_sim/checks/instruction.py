"""Instructions as the sequencer sees them."""

from functools import lru_cache
from typing import NamedTuple

from etalstm_hw import contract
from etalstm_hw.contract import ADVANCES, ENGINE_OF, Engine, Opcode, Status
from etalstm_sim.checks.refusals import BROADCASTS, COUNTS, OPCODES, WAITS, known_opcodes

_REMEMBERED = 1 << 16
_OF_CHANNELS = WAITS[:3]  # waits that a CAST and a SEND cannot have


class Instruction(NamedTuple):
    """A decoded instruction.

    Members
    -------
    word : int
    opcode : Opcode, or None if it is unknown
    fields : dict
    engine : Engine, or None if the sequencer executes it
    register : int
        Whose value is added to the address; 0 for instructions without an address.
    advances : tuple of (register, amount)
        Of an ADVANCE.
    refusal : Status or None
        With which the sequencer refuses the instruction, wherever it stands.
    """

    word: int
    opcode: Opcode | None
    fields: dict[str, int]
    engine: Engine | None
    register: int
    advances: tuple[tuple[int, int], ...]
    refusal: Status | None


@lru_cache(_REMEMBERED)
def decoded(word: int, integers: bool) -> Instruction:
    """Decode an instruction of a machine whose products are `integers`, or float32; an unknown opcode has no fields."""
    if word & OPCODES not in known_opcodes(integers):
        return Instruction(word, None, {}, None, 0, (), Status.BAD_OPCODE)
    opcode, fields = contract.decode(word)
    register = fields["register"] if "address" in fields else 0
    advances: tuple[tuple[int, int], ...] = ()
    if opcode == Opcode.ADVANCE:
        pairs = ((fields[f"register{n}"], fields[f"amount{n}"]) for n in range(ADVANCES))
        advances = tuple(pair for pair in pairs if pair[0])
    empty = any(not fields[name] for name in COUNTS.get(opcode, ()))
    waits = opcode in BROADCASTS and any(fields[name] for name in _OF_CHANNELS)
    refusal = Status.BAD_FIELD if empty or waits else None
    return Instruction(word, opcode, fields, ENGINE_OF.get(opcode), register, advances, refusal)
