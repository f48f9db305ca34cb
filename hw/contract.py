"""What hardware and software agree on, declared once, in plain Python."""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from functools import cache


@dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format without subnormals.

    Parameters
    ----------
    exponent : int
        Bits of the biased exponent, 3 to 11.
    mantissa : int
        Bits of the stored fraction, 2 to 52; the leading one is implied.

    Raises
    ------
    ValueError
        If a size is outside its range.
    """

    exponent: int
    mantissa: int

    def __post_init__(self):
        if not 3 <= self.exponent <= 11:
            raise ValueError(f"exponent must have 3 to 11 bits, got {self.exponent}")
        if not 2 <= self.mantissa <= 52:
            raise ValueError(f"mantissa must have 2 to 52 bits, got {self.mantissa}")

    @property
    def width(self) -> int:
        """Bits of a word: sign, exponent, fraction."""
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        """What is added to the exponent before it is stored."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def nan(self) -> int:
        """The one quiet NaN that operations produce."""
        return ((1 << self.exponent) - 1) << self.mantissa | 1 << (self.mantissa - 1)

    @property
    def infinity(self) -> int:
        """Positive infinity."""
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def minus_zero(self) -> int:
        """The word of -0.0."""
        return 1 << (self.width - 1)

    @property
    def one(self) -> int:
        """The word of 1.0."""
        return self.bias << self.mantissa


BINARY32 = FloatFormat(exponent=8, mantissa=23)


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
    QUEUE = 3  #: partial sums: written by MAC, read by MAC, VECTOR and STORE


class Source(IntEnum):
    """Where a VECTOR operand comes from. Operand b never comes from the queue."""

    SCRATCH = 0  #: the scratch memory, at the operand's address
    QUEUE = 1  #: the partial sums, at the operand's address
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


INSTRUCTION_BITS = 256  # least significant bit first in memory
# Bits 255:240 of an instruction are its check: the CRC-16/IBM-3740 of bytes 0 to 29 (polynomial 0x1021, from 0xFFFF,
# each byte's most significant bit first, nothing inverted; of "123456789" it is 0x29B1), xor the number of the
# instruction in its program modulo 2^16. An instruction with another check is refused with BAD_CHECK.
CHECK_OFFSET = 240  # first bit of the check
CHECK_BITS = INSTRUCTION_BITS - CHECK_OFFSET
OPCODE_BITS = 4
WAIT_BITS = 8  # how many instructions back a wait can look
COMPLETED_BITS = 32  # how many instructions an engine has completed
TARGET_BITS = 20  # of such a count, as waits are compared with it: modulo 2^20
ADDRESS_BITS = 28  # in beats, relative to a channel's window
REGISTER_BITS = 4  # number of an address register
ADDRESS_REGISTERS = 1 << REGISTER_BITS
LOOP_DEPTH = 4  # loops inside each other
LOOP_BITS = 24  # instructions of a loop's body
TURN_BITS = 32  # turns of a loop
LANE_ADDRESS_BITS = 13
COUNT_BITS = 12
KIND_BITS = 2
CHANNEL_BITS = 8
GROUP_BITS = 4  # a group of channels; as a field, number of the group + 1, or 0
TILE_BITS = 12  # number of a vector of a channel's units or inputs
LOG_BITS = 1  # P and δ have logs of their own
STREAM_BITS = ADDRESS_BITS  # first and last beat of a log

# A compressed stream: elements in order (vector by vector, lane by lane) in blocks of STREAM_BLOCK. A block is a mask
# word (bit n: element n is kept), then the kept words in order; with bf16 two kept elements share a word, the first in
# the low half, and a block's last word is filled up with 0. The last block may have fewer elements, the mask bits of
# those that are missing are 0. The stream starts at a beat and is filled up to a whole beat with 0. Its index beat
# holds, as 32-bit words: the beat where it starts, relative to the channel's window; its length in beats; a check; the
# number of kept elements. The check is the xor of five words: the start, the number of elements rotated left by 5 bits,
# the beats by 11, the number of kept elements by 19, and by 27 the beat where the index itself lies.
STREAM_BLOCK = 32
MOST_GATES = 4  # of a block that is broadcast, and of a block of a map of rows
STREAM_INDEX = ("start", "beats", "check", "kept")
INDEX_CHECK = {"start": 0, "elements": 5, "beats": 11, "kept": 19, "place": 27}

# Every instruction starts with these. Waits are relative: an engine holds an instruction back until the n-th last
# instruction that was dispatched to the named engine before this one is completed (1: the very last; 0: no wait). Where
# fewer than n were dispatched there is nothing to wait for. Each turn of a loop dispatches its body anew; LOAD_ROWS
# counts as one LOAD; LOOP, ADVANCE and HALT go to no engine and do not count. Programs may dispatch any number of
# instructions. Channels look at their own engines; with `everyone` set, and always in CAST and LOAD_ROWS, wait_store
# means "completed by every channel". A CAST has no other waits (BAD_FIELD).
# `register` names an address register. Its value is added, modulo 2^ADDRESS_BITS, to the field `address` of the
# opcodes that have one; the others do not look at it. Register 0 is always 0; a program starts with all registers 0.
HEADER = {
    "opcode": OPCODE_BITS,  # an Opcode
    "wait_load": WAIT_BITS,  # how far back the LOAD is that must be completed
    "wait_mac": WAIT_BITS,  # ... MAC
    "wait_vector": WAIT_BITS,  # ... VECTOR
    "wait_store": WAIT_BITS,  # ... STORE
    "everyone": 1,  # wait_store is about every channel's
    "register": REGISTER_BITS,  # address register
}
HEADER_BITS = sum(HEADER.values())

# Lane addresses of LOAD, STORE and VECTOR run through two nested loops:
# address + outer·outer_stride + inner·inner_stride, inner fastest, modulo 2^LANE_ADDRESS_BITS. Counts are at least 1.
_LOOP = {
    "outer": COUNT_BITS,  # runs of the inner loop
    "inner": COUNT_BITS,  # vectors of each
}
_TRANSFER = {
    "address": ADDRESS_BITS,  # first beat in the channel's window; vectors are contiguous there
    "kind": KIND_BITS,  # a Traffic
    "memory": 2,  # a Memory
    "lane_address": LANE_ADDRESS_BITS,  # of the first vector in that memory
    **_LOOP,
    "outer_stride": LANE_ADDRESS_BITS,  # of lane_address
    "inner_stride": LANE_ADDRESS_BITS,
}

FIELDS = {
    # Ends the program when every engine has done all of its work.
    Opcode.HALT: {},
    # Repeats the next `length` instructions `turns` times. Loops may contain loops, LOOP_DEPTH at most inside each
    # other; a body ends inside its enclosing body, or together with it. The sequencer executes LOOP and ADVANCE: of the
    # header it looks at the opcode only.
    # BAD_FIELD: a count of 0; too many loops inside each other; a body that ends outside the program or its loop; a
    # HALT in a body, which is the instruction that is refused.
    Opcode.LOOP: {
        "turns": TURN_BITS,
        "length": LOOP_BITS,
    },
    # Adds `amount0` to address register `register0`, modulo 2^ADDRESS_BITS, and so on in order. The instructions after
    # it see the sums. Register 0 keeps its 0.
    Opcode.ADVANCE: {
        "register0": REGISTER_BITS,  # of the first addition
        "amount0": ADDRESS_BITS,  # ... what is added
        "register1": REGISTER_BITS,  # of the second addition
        "amount1": ADDRESS_BITS,  # ... what is added
        "register2": REGISTER_BITS,  # of the third addition
        "amount2": ADDRESS_BITS,  # ... what is added
        "register3": REGISTER_BITS,  # of the fourth addition
        "amount3": ADDRESS_BITS,  # ... what is added
        "register4": REGISTER_BITS,  # of the fifth addition
        "amount4": ADDRESS_BITS,  # ... what is added
        "register5": REGISTER_BITS,  # of the sixth addition
        "amount5": ADDRESS_BITS,  # ... what is added
    },
    # Copies outer·inner vectors of the channel's window, one after the other, to lane memory `memory`.
    # With `compressed`, LOAD reads a stream that a compressed STORE wrote: `address` is that of its index beat.
    # With `group` = k > 0 the window is that of another channel: the one at the same position in group k - 1.
    # The number of the executing channel's own group, times `group_stride`, is added to `address`.
    # BAD_FIELD: a group that there is not.
    Opcode.LOAD: {
        **_TRANSFER,
        "more": 1,  # a part: completed, and counted, with the next LOAD, which there must be
        "compressed": 1,
        "bf16": 1,  # of the stream's words
        "group": GROUP_BITS,  # 0: the channel's own window
        "group_stride": ADDRESS_BITS,  # beats
    },
    # A LOAD of `outer` rows of `inner` vectors each that leaves out rows which no scalar of a CAST has a use for. The
    # sequencer turns it into LOADs of the others; lane memory keeps what it had where a row is left out, but one row at
    # least is read. Rows belong to blocks in the order of a CAST by rows: the first block is tile `tile` of channel
    # `channel`, then come the next tiles, after tile `tiles_per_channel - 1` tile 0 of the next channel. A block has
    # the rows of `lanes` lanes, or of `last_lanes` in a channel's last tile: of each lane four, one for each gate, or
    # with `single` one. `channel` is a position in a group: every group has a map of each block, and a row is left out
    # if none of them needs it. The map of a block is a vector for each of its lane's rows, four or one of them, at beat
    # map + tile·(beats of these vectors) of the channel's window: a row is left out if its lane's word is ±0. It is
    # read when the waits are over.
    # BAD_FIELD: a count of 0; lanes that a vector does not have; `outer` rows are not those of whole blocks.
    Opcode.LOAD_ROWS: {
        **_TRANSFER,
        "map": ADDRESS_BITS,
        "channel": CHANNEL_BITS,
        "tile": TILE_BITS,
        "tiles_per_channel": TILE_BITS,
        "lanes": 6,
        "last_lanes": 6,
        "single": 1,  # a lane has one row
    },
    # Copies outer·inner vectors of lane memory `memory` to the channel's window, one after the other.
    # With `compressed`, STORE appends a stream to the channel's log `log` and writes its index beat (see STREAM_INDEX)
    # to `address`. With `first` the log begins anew at beat `start`; before a program's first one it is at beat 0. It
    # may grow up to beat `end` (exclusive), beyond that the program stops with OVERFLOW and nothing outside is written.
    # Elements x with |x| < parameter `threshold`, and zeros, are not kept. With `bf16` kept words are rounded to
    # bfloat16 and packed by two.
    Opcode.STORE: {
        **_TRANSFER,
        "compressed": 1,
        "bf16": 1,
        "threshold": 4,  # number of a parameter
        "log": LOG_BITS,
        "first": 1,
        "start": STREAM_BITS,
        "end": STREAM_BITS,
    },
    # For each scalar of the paired CAST, one MAC per tile: queue[queue + inner·tiles + tile] += weights[weights +
    # outer·tiles + tile] · value. The offsets outer·tiles and inner·tiles arrive with the scalar. With `start` a sum
    # starts from bias[bias + tile] (see Start).
    # If the CAST is `narrow`, each word of the weight memory holds the weights of two tiles in bfloat16, as PACK makes
    # it. A scalar then has ⌈tiles/2⌉ vectors, and its offset is outer·⌈tiles/2⌉. Tile t is a half of the vector ⌊t/2⌋
    # further on, the low half if t is even. The weight is the float32 whose upper 16 bits are that half.
    # BAD_FIELD: `tiles` is 0 or differs from that of the paired CAST. BAD_ADDRESS: a weight, sum or bias outside its
    # memory, however large the offset.
    Opcode.MAC: {
        "weights": LANE_ADDRESS_BITS,  # of the first weight
        "queue": LANE_ADDRESS_BITS,  # of the first sum
        "bias": LANE_ADDRESS_BITS,
        "tiles": COUNT_BITS,
        "start": 1,
        "backward": 1,  # of the backward pass, Wᵀδ or dW: which of the SHARES it may use
    },
    # For every element of the two loops d = op(a, b) in all lanes; each of the three addresses has strides of its own.
    Opcode.VECTOR: {
        "op": 4,  # a VectorOp
        "a_source": 2,  # a Source
        "b_source": 2,
        "a": LANE_ADDRESS_BITS,  # for PARAMETER: its number
        "b": LANE_ADDRESS_BITS,
        "d": LANE_ADDRESS_BITS,  # in the scratch memory
        **_LOOP,
        "a_outer": COUNT_BITS,  # strides of a
        "a_inner": COUNT_BITS,
        "b_outer": COUNT_BITS,  # ... b
        "b_inner": COUNT_BITS,
        "d_outer": COUNT_BITS,  # ... d
        "d_inner": COUNT_BITS,
        "serial": 1,  # each run of the inner loop waits until the results of the run before are written
    },
    # Transposes squares of vectors. Square q (of `outer`) reads vectors lane_address + q·outer_stride + i·inner_stride
    # for i < rows from the scratch memory. For each lane l < lanes it writes the words of that lane, word i that of
    # vector i, as consecutive beats, the last one filled up with zeros. They begin at beat address + q·outer_beats +
    # l·lane_beats + n·channel_beats (n: the position in its group of the channel that executes) of the window of the
    # channel at position `target` of the same group.
    # BAD_FIELD: a count of 0; more rows, or more lanes, than a vector has words.
    Opcode.TRANSPOSE: {
        "address": ADDRESS_BITS,
        "kind": KIND_BITS,  # a Traffic
        "target": CHANNEL_BITS,
        "lane_address": LANE_ADDRESS_BITS,
        "outer": 8,
        "outer_stride": LANE_ADDRESS_BITS,
        "inner_stride": LANE_ADDRESS_BITS,
        "rows": 8,
        "lanes": 8,
        "outer_beats": 20,
        "lane_beats": 20,
        "channel_beats": 24,
    },
    # Executed by the broadcaster of every group, each for the channels of its group; `channel` is a position in it.
    # Reads `blocks` blocks, starting with tile `tile` of channel `channel`; the next block is the next tile, after tile
    # `tiles_per_channel - 1` tile 0 of the next channel. A block is [gate][batch][lane] words at beat address +
    # tile·(gates·batch·beats per vector) of the channel's window. Lanes `lane` to `lane + lanes - 1` of it are sent; of
    # a channel's last tile `last_lanes` instead of `lanes`.
    # With `compressed` a block is a stream that a compressed STORE without `bf16` wrote, of the same words in the same
    # order; its index beat is at beat address + tile·(beats per vector).
    # Order of scalars, and their indices:  by rows (batch_outer = 0): for block, lane, gate: for b, with outer = number
    # of (block, lane, gate), inner = first_sum + b;  by batch (batch_outer = 1): for block: for b: for lane, gate, with
    # outer = block·batch + b, inner = first_sum + number of (lane, gate).
    # (whose blocks are then of one size: lanes = last_lanes).
    # `start` begins new sums: none of them has a scalar yet. CASTs without `start` go on with these sums, each from its
    # own `first_sum` on, so that several arrays can share one load of weights. `finish` ends all sums from 0 to the
    # last one that a CAST since `start` has: those that got no scalar are set to their start.
    # BAD_FIELD: a count of 0; more than four gates; a block larger than the broadcaster's buffer; lanes that a vector
    # does not have; a sum beyond those that the broadcaster knows (see `cast_sums`).
    Opcode.CAST: {
        "address": ADDRESS_BITS,
        "kind": KIND_BITS,  # a Traffic
        "compressed": 1,  # the blocks are streams
        "channel": CHANNEL_BITS,
        "tile": TILE_BITS,
        "tiles_per_channel": TILE_BITS,
        "blocks": COUNT_BITS,
        "gates": 3,
        "batch": COUNT_BITS,
        "lane": 6,
        "lanes": 6,
        "last_lanes": 6,
        "tiles": COUNT_BITS,  # of the paired MAC: what the offsets are multiplied by, that of weights unless `narrow`
        "first_sum": COUNT_BITS,  # inner index of the first sum
        "batch_outer": 1,
        "start": 1,
        "finish": 1,
        "narrow": 1,  # the paired MAC's weights are bfloat16, two tiles in a vector
    },
}
ADVANCES = len(FIELDS[Opcode.ADVANCE]) // 2  # additions of an ADVANCE


def cast_sums(lanes: int, broadcast_words: int) -> int:
    """Give how many sums the broadcaster knows between a `start` and its `finish`: inner indices of CAST are below.

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


class Status(IntEnum):
    """Why the machine stopped (or that it runs)."""

    IDLE = 0  #: nothing has run since reset
    RUNNING = 1  #: between a start and the end of all that it caused
    DONE = 2  #: the program has reached its HALT
    BAD_OPCODE = 3  #: an instruction with an unknown opcode
    BAD_FIELD = 4  #: a field has a value that it cannot have: a count of 0, or fields that contradict each other
    BAD_ADDRESS = 5  #: an address outside its window
    READ_ERROR = 6  #: a read was answered with SLVERR or DECERR
    WRITE_ERROR = 7  #: a write was
    TRUNCATED = 8  #: the program ended without HALT
    STUCK = 9  #: no engine moved for `watchdog` cycles: they wait for each other, or a memory does not answer
    ABORTED = 10  #: stopped by the host
    OVERFLOW = 11  #: a compressed stream outgrew its log
    BAD_STREAM = 12  #: an index beat or a mask that no compressed STORE writes
    BAD_CHECK = 13  #: an instruction whose check does not fit it, or its place in the program


class Register(IntEnum):
    """AXI4-Lite registers, byte offsets, 32 bits each."""

    MAGIC = 0x000  #: the constant MAGIC
    VERSION = 0x004  #: the constant VERSION
    PRESET = 0x008  #: hash of the configuration
    SHAPE = 0x00C  #: channels in bits 15:0, lanes in bits 31:16
    CONTROL = 0x010  #: write START or ABORT
    STATUS = 0x014  #: a Status; RUNNING until the machine has come to rest
    ERROR_ENGINE = 0x018  #: the engine that stopped the program
    ERROR_INSTRUCTION = 0x01C  #: instructions that it had completed; the sequencer: number of the refused one
    PROGRAM_LOW = 0x020  #: byte address of the program, a multiple of 4096
    PROGRAM_HIGH = 0x024  #: its upper half
    PROGRAM_LENGTH = 0x028  #: instructions
    WATCHDOG = 0x02C  #: cycles without progress of an engine until STUCK; 0: never
    WINDOW_LOW = 0x030  #: byte address of channel 0's window, a multiple of 4096
    WINDOW_HIGH = 0x034  #: its upper half
    WINDOW_STRIDE = 0x038  #: from one channel's window to the next, in units of 4096 bytes
    REFUSED = 0x03C  #: how often START was written while a program ran (such a write does nothing else)
    PARAMETER = 0x040  #: 16 words, the values of Source.PARAMETER; see PARAMETERS
    BUILD = 0x080  #: what the bitstream was built from, see :func:`etalstm.boards.build.build_id`; 0 in simulation
    SHARES = 0x084  #: 0: any operation may use any cycle of the PEs; otherwise fixed shares, see SHARES
    SEND_ZEROS = 0x088  #: 1: a scalar that is zero takes the cycles of any other, and is no term of a sum; 0: skipped
    # Of each window, in units of 4096 bytes. If a window reaches beyond the machine's addresses, the size counts as 0:
    # every access is refused with BAD_ADDRESS.
    WINDOW_SIZE = 0x08C
    GROUPS = 0x090  #: how many equal groups of channels, each with a broadcaster; 0: one. START with another: BAD_FIELD
    # 64-bit words, low half first, in the order of Counter; cleared by START. Reading a low half latches the high half:
    # a read of any high half gives what was latched last.
    COUNTER = 0x100


# Registers that keep all 32 bits of what is written, and give them back.
KEPT_REGISTERS = (
    Register.PROGRAM_LOW,
    Register.PROGRAM_HIGH,
    Register.PROGRAM_LENGTH,
    Register.WATCHDOG,
    Register.WINDOW_LOW,
    Register.WINDOW_HIGH,
    Register.WINDOW_STRIDE,
    Register.PARAMETER,
    Register.SHARES,
    Register.SEND_ZEROS,
    Register.WINDOW_SIZE,
    Register.GROUPS,
)


def kept_words() -> dict[int, str]:
    """Give the words of KEPT_REGISTERS, all those of the parameters among them: their names by byte offset."""
    words = {int(register): register.name for register in KEPT_REGISTERS if register != Register.PARAMETER}
    return words | {Register.PARAMETER + 4 * n: f"{Register.PARAMETER.name} {n}" for n in range(PARAMETERS)}


REGISTER_SPACE_BYTES = 0x400
PAGE_BYTES = 4096  # windows and programs begin at multiples of it, and windows have a multiple of it as their size

# Fixed shares of the PEs, each a field of 8 bits, lowest first: of every SLOTS cycles of a channel, how many are for
# element-wise work; and of the others, how many MACs of the forward pass may use, and how many those of the backward
# pass. The slots of each are spread evenly.
SHARES = ("elementwise", "forward", "backward")
SLOTS = 32
CONTROL_START = 1  # written to CONTROL: start the program
CONTROL_ABORT = 2  # written to CONTROL: stop it


class BoardRegister(IntEnum):
    """AXI4-Lite registers that a board has besides the machine's, byte offsets, 32 bits each.

    They answer whenever the host's link is up. Without ``BoardStatus.UP`` every other register reads 0.
    """

    STATUS = 0x1000  #: see :class:`BoardStatus`
    CONTROL = 0x1004  #: write BOARD_RESET
    TEMPERATURE = 0x1008  #: of the memory stacks in degrees Celsius: the first in bits 6:0, the second in bits 14:8
    BIT_ERRORS = 0x100C  #: that the memory controllers have found: corrected ones in bits 15:0; see BIT_ERRORS_SHIFT


class BoardStatus(IntFlag):
    """Bits of ``BoardRegister.STATUS``."""

    LOCKED = 1  #: the clocks run
    CALIBRATED = 2  #: the memory is ready
    TRIPPED = 4  #: the memory was too hot and is stopped, until the board is reset
    UP = 8  #: the machine is out of reset


BOARD_SPACE_BYTES = 0x2000  # of both kinds of registers together
BOARD_RESET = 1  # lets the memory finish what is under way, then resets the machine; its memory keeps its bytes
BIT_ERRORS_SHIFT = 16  # of the number of words with more wrong bits than can be corrected, 15 bits
BIT_ERRORS_KNOWN = 1 << 31  # without it the controllers could not be asked
MAGIC = 0x4554414C  # "ETAL"
VERSION = 11
PARAMETERS = 16
PARAMETER_ONE = 0  # as an operand 1.0, whatever the register keeps
PARAMETER_ZERO = 1  # as an operand +0.0, likewise
PARAMETER_MINUS_ZERO = 2  # as an operand -0.0, likewise: x + -0.0 is x for every x
PARAMETER_SCALE = 3  # what gradients are multiplied by: clipping
PARAMETER_WEIGHT_DECAY = 4
PARAMETER_MOMENTUM = 5
PARAMETER_LEARNING_RATE = 6
PARAMETER_INPUT_THRESHOLDS = 3  # in a forward pass, the first of five: thresholds of what is broadcast
MOST_INPUT_THRESHOLDS = 5
PARAMETER_THRESHOLDS = 8  # the first of six: thresholds of P_i, P_f, P_g, P_o, P_s, P_r
PARAMETER_DELTA_THRESHOLD = 14  # of the gradients of gates
PARAMETER_NEEDED_SCALE = 15  # what gradients of gates are multiplied by: those below their threshold become ±0
PARAMETER_INPUT_SCALES = 14  # in a forward pass, the first of two: what changes of x and h are multiplied by, likewise
MOST_INPUT_SCALES = 2


class Cycle(IntEnum):
    """What a channel's PEs did in a cycle: each cycle of each channel counts once, so the sum is channels × cycles."""

    MAC = 0  #: a MAC was issued
    ELEMENTWISE = 1  #: an element-wise operation was issued to the PEs
    QUEUE_PORT = 2  #: MAC held back: its queue's read port served an activation or a store
    HAZARD = 3  #: MAC held back: its partial sum is still in the adder
    BROADCAST_EMPTY = 4  #: MAC held back: no scalar has arrived
    WAIT_LOAD = 5  #: the next MAC instruction waits for weights
    WAIT_VECTOR = 6  #: ... for element-wise work
    WAIT_STORE = 7  #: ... for results to be written
    NO_MAC = 8  #: no MAC instruction is queued, element-wise work or transfers run
    IDLE = 9  #: no engine of the channel has work
    SHARE = 10  #: something was ready, the cycle belonged to work of another kind: lost to fixed SHARES


class Counter(IntEnum):
    """64-bit counters, in the order in which the registers show them."""

    CYCLES = 0  #: clock cycles between start and end
    CYCLE_KINDS = 1  #: one for each Cycle, summed over channels
    MAC_PHASE = 12  #: channel-cycles from a MAC instruction's start to its last MAC
    ACTIVATION = 13  #: activation-unit operations issued (one lane's value each)
    SCALARS_SEEN = 14  #: scalars that the broadcaster had to send
    SCALARS_SKIPPED = 15  #: those of them that were zero, and not sent
    ROWS_SEEN = 16  #: rows of LOAD_ROWS, of one channel
    ROWS_SKIPPED = 17  #: those of them that the map leaves out
    READ_BEATS = 18  #: one for each Traffic, LOAD and CAST, summed over channels; and maps, with DELTAS
    WRITE_BEATS = 22  #: likewise, STORE and TRANSPOSE
    PROGRAM_BEATS = 26  #: beats of instructions that were fetched
    COUNT = 27  #: of counters
