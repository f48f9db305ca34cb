"""What instructions can do, and what their fields name."""

from enum import IntEnum


class Engine(IntEnum):
    """The units that take instructions, each in order from a queue of its own."""

    LOAD = 0  #: memory to lane memories, one per channel
    MAC = 1  #: multiply-accumulate of broadcast scalars, one per channel
    VECTOR = 2  #: element-wise work, one per channel
    STORE = 3  #: lane memories to memory, one per channel
    CAST = 4  #: memory to the broadcast stream, one per group of channels


class Opcode(IntEnum):
    """What an instruction does. Everything else is refused with :attr:`Status.BAD_OPCODE`."""

    HALT = 0
    LOAD = 1
    MAC = 2
    VECTOR = 3
    STORE = 4
    TRANSPOSE = 5
    CAST = 6
    LOAD_ROWS = 7
    LOOP = 8
    ADVANCE = 9
    SEND = 10
    PRODUCT = 11


ENGINE_OF = {
    Opcode.LOAD: Engine.LOAD,
    Opcode.LOAD_ROWS: Engine.LOAD,
    Opcode.MAC: Engine.MAC,
    Opcode.VECTOR: Engine.VECTOR,
    Opcode.STORE: Engine.STORE,
    Opcode.TRANSPOSE: Engine.STORE,
    Opcode.CAST: Engine.CAST,
    Opcode.SEND: Engine.CAST,
    Opcode.PRODUCT: Engine.MAC,
}

OF_FLOATS = (Opcode.MAC, Opcode.CAST)
OF_INTEGERS = (Opcode.PRODUCT, Opcode.SEND)
"""What only machines whose products are float32 can do, and what only those whose products are integers can do."""


def is_known(opcode: Opcode, integers: bool) -> bool:
    """Tell whether a machine executes an opcode: one whose products are `integers`, or float32."""
    return opcode not in (OF_FLOATS if integers else OF_INTEGERS)


class Memory(IntEnum):
    """The memories of a lane, as LOAD and STORE name them."""

    WEIGHTS = 0  #: written by LOAD, read by MAC and PRODUCT
    SCRATCH = 1  #: written by LOAD and VECTOR, read by VECTOR and STORE
    BIAS = 2  #: written by LOAD, read by MAC when a sum starts; machines whose products are integers have none
    SUMS = 3  #: partial sums: written by MAC or PRODUCT, read by these and by VECTOR; those of MAC by STORE, too


class Source(IntEnum):
    """Where a VECTOR operand comes from. Operand b is never a partial sum."""

    SCRATCH = 0  #: the scratch memory, at the operand's address
    SUMS = 1  #: the partial sums, at the operand's address
    PARAMETER = 2  #: a register that the host has set, the same for every element


class VectorOp(IntEnum):
    """What VECTOR does with each pair of elements."""

    MULTIPLY = 0  #: a · b
    ADD = 1  #: a + b
    SUBTRACT = 2  #: a - b
    SIGMOID = 3  #: σ(a)
    TANH = 4  #: tanh(a)
    SELECT = 5  #: -0 + b where a is not ±0, else the destination keeps its value
    SELECT_ZERO = 6  #: -0 + b where a is ±0, else the destination keeps its value
    PACK = 7  #: bfloat16(a) in the low half, bfloat16(b) in the high half: two weights of a narrow CAST
    ADD_POSITIVE = 8  #: a + b where the sign of a is + and a is not 0, else the destination keeps its value
    ADD_SCALED = 9  #: (a · parameter `bits`) + b, both rounded; neither a nor b is a parameter
    ADD_SQUARE = 10  #: (a · a) + b, both rounded
    # Only of machines whose products are integers. Integers in words have 32 bits, with their sign; a partial sum has
    # SUM_BITS. An exponent is the integer in the ten lower bits of b, with its sign. BYTES and those of digits make
    # words of four bytes: that of element n of the inner loop is byte n modulo 4, the bytes above it are 0, those below
    # it are of the elements before it in this loop. A word is written, at its last element's d, with byte 3 and with
    # the last element of the inner loop. What NOTED_DIGITS notes is noted by lane; what tells it forgets it.
    CONVERT = 11  #: the integer a as float32, rounded once, times 2^b; +0 if that is below 2^-126
    QUANTISE = 12  #: the float32 a times 2^b, rounded to an integer, and clamped to what `bits` can hold
    BYTES = 13  #: the integer of QUANTISE, of 8 bits, as a byte
    LOWER_DIGITS = 14  #: its lower digit as a byte; 0 where |a| is below PARAMETER_DELTA_THRESHOLD
    UPPER_DIGITS = 15  #: its upper digit, likewise
    SCALE = 16  #: the float32 a times 2^b; +0 if that is below 2^-126
    EXPONENT = 17  #: the least integer n, from -126 on, with |a| < 2^n
    LARGEST = 18  #: the larger of |a| and |b|
    ADD_INTEGERS = 19  #: the integer a + b
    SUBTRACT_INTEGERS = 20  #: the integer a - b
    NOTED_EXPONENT = 21  #: the largest EXPONENT of all a that were noted, plus its b
    NOTED_CLAMPED = 22  #: how many of the integers that were noted are clamped
    CONVERT_BYTE = 23  #: what CONVERT makes of the byte of a, with its sign, that BYTES would make of this element
    NOTED_DIGITS = 24  #: as LOWER_DIGITS; notes a, b, and the integer as it is above and below the threshold
    NOTED_SUM = 25  #: the integer a + the sum of the integers that were noted, which wraps around


NOTHING_NOTED, NOTED_NOT_FINITE = -1024, 1023
"""NOTED_EXPONENT where all a were zero, and where one was not finite."""

OF_ONE_OPERAND = (
    VectorOp.SIGMOID, VectorOp.TANH, VectorOp.EXPONENT,
    VectorOp.NOTED_EXPONENT, VectorOp.NOTED_CLAMPED, VectorOp.NOTED_SUM,
)  # fmt: skip
"""Operations that have no operand b. NOTED_EXPONENT and NOTED_CLAMPED do not look at a either."""

OF_BYTES = (VectorOp.BYTES, VectorOp.LOWER_DIGITS, VectorOp.UPPER_DIGITS, VectorOp.NOTED_DIGITS)
"""Operations that make words of four bytes."""

WITH_BITS = (VectorOp.QUANTISE, *OF_BYTES)
"""Operations that look at `bits` as those of an integer."""

OPS_OF_INTEGERS = tuple(op for op in VectorOp if op >= VectorOp.CONVERT)
"""What only machines whose products are integers do."""

COMMON_OPS = tuple(op for op in VectorOp if op not in OPS_OF_INTEGERS)
"""What all machines do."""


def last_op(integers: bool) -> VectorOp:
    """Give the last operation of a machine whose products are `integers`, or float32."""
    return max(VectorOp if integers else COMMON_OPS)


class Start(IntEnum):
    """What a MAC sum starts from."""

    NOTHING = 0  #: its first term; an empty sum is +0
    BIAS = 1  #: bias[tile]


class Traffic(IntEnum):
    """What a transfer carries, so that bytes are counted by kind."""

    WEIGHTS = 0  #: both copies, biases, their gradients and velocities
    ACTIVATIONS = 1  #: x, h, and the gradients that arrive at and leave a layer
    INTERMEDIATES = 2  #: what a cell keeps for its backward pass
    DELTAS = 3  #: gradients of the gates
