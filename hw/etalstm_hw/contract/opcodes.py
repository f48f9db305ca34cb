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


ENGINE_OF = {
    Opcode.LOAD: Engine.LOAD,
    Opcode.LOAD_ROWS: Engine.LOAD,
    Opcode.MAC: Engine.MAC,
    Opcode.VECTOR: Engine.VECTOR,
    Opcode.STORE: Engine.STORE,
    Opcode.TRANSPOSE: Engine.STORE,
    Opcode.CAST: Engine.CAST,
}


class Memory(IntEnum):
    """The memories of a lane, as LOAD and STORE name them."""

    WEIGHTS = 0  #: written by LOAD, read by MAC
    SCRATCH = 1  #: written by LOAD and VECTOR, read by VECTOR and STORE
    BIAS = 2  #: written by LOAD, read by MAC when a sum starts
    SUMS = 3  #: partial sums: written by MAC, read by MAC, VECTOR and STORE


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
