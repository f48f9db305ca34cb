"""Instructions as integers, and as names and values."""

from functools import cache

from etalstm_hw.contract.fields import CHECK_OFFSET, FIELDS, HEADER, OPCODE_BITS
from etalstm_hw.contract.opcodes import Opcode
from etalstm_hw.contract.streams import MOST_GATES


def cast_sums(lanes: int, broadcast_words: int) -> int:
    """Give how many sums the broadcaster knows between a `start` and its `finish`: every `inner` of a CAST is below.

    They are those of the largest block in either order.

    Parameters
    ----------
    lanes, broadcast_words : int
        Words of a vector, and of one of the broadcaster's buffers.
    """
    return max(broadcast_words // lanes, MOST_GATES * lanes)


@cache
def layout(opcode: Opcode) -> dict[str, tuple[int, int]]:
    """Bit offset and width of every field of an instruction, header first, least significant bit first."""
    fields, offset = {}, 0
    for name, width in (HEADER | FIELDS[opcode]).items():
        fields[name] = (offset, width)
        offset += width
    if offset > CHECK_OFFSET:
        raise ValueError(f"{opcode.name} needs {offset} bits, an instruction has {CHECK_OFFSET} before its check")
    return fields


def encode(opcode: Opcode, **values: int) -> int:
    """Pack an instruction into an integer of 256 bits, without its check. Fields not named are 0.

    Raises
    ------
    ValueError
        If a field does not exist or its value does not fit.
    """
    fields = layout(opcode)
    word = int(opcode)
    for name, value in values.items():
        if name not in fields or name == "opcode":
            raise ValueError(f"{opcode.name} has no field {name!r}")
        offset, width = fields[name]
        if not 0 <= value < 1 << width:
            raise ValueError(f"{opcode.name}.{name} must be 0 to {(1 << width) - 1}, got {value}")
        word |= int(value) << offset
    return word


def decode(word: int) -> tuple[Opcode, dict[str, int]]:
    """Unpack an instruction: the inverse of :func:`encode`.

    Raises
    ------
    ValueError
        If the opcode is unknown.
    """
    opcode = Opcode(word & ((1 << OPCODE_BITS) - 1))
    return opcode, {n: word >> o & ((1 << w) - 1) for n, (o, w) in layout(opcode).items() if n != "opcode"}
