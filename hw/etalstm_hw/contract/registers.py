"""The machine's registers."""

from enum import IntEnum

from etalstm_hw.contract.parameters import PARAMETERS

MAGIC = 0x4554414C  # "ETAL"
VERSION = 17


class Status(IntEnum):
    """Why the machine stopped (or that it runs).

    Where it is not DONE, each word that a STORE or a TRANSPOSE of the program writes is undefined: the old one, the new
    one or any other. A write that was broken off has no byte enabled any more, and memory whose mask pins carry check
    bits writes it all the same.
    """

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
    SHAPE = 0x00C  #: channels in bits 15:0, lanes in bits 23:16, PEs of integers of a lane in bits 31:24
    CONTROL = 0x010  #: write START or ABORT
    STATUS = 0x014  #: a Status; RUNNING until the machine has come to rest
    ERROR_ENGINE = 0x018  #: the engine that stopped the program
    ERROR_INSTRUCTION = 0x01C  #: instructions that it had completed; the sequencer: number of the refused one
    # Byte address of the program, a multiple of 4096. With any other, or where an instruction lies beyond the machine's
    # addresses, the program ends there with READ_ERROR and nothing is read.
    PROGRAM_LOW = 0x020
    PROGRAM_HIGH = 0x024  #: its upper half
    PROGRAM_LENGTH = 0x028  #: instructions
    WATCHDOG = 0x02C  #: cycles without progress of an engine until STUCK; 0: never
    WINDOW_LOW = 0x030  #: byte address of channel 0's window, a multiple of 4096
    WINDOW_HIGH = 0x034  #: its upper half
    WINDOW_STRIDE = 0x038  #: from one channel's window to the next, in units of 4096 bytes
    REFUSED = 0x03C  #: how often START was written while a program ran (such a write does nothing else)
    PARAMETER = 0x040  #: 16 words, the values of Source.PARAMETER; see PARAMETERS
    BUILD = 0x080  #: what the bitstream was built from, see :func:`etalstm_boards.build.build_id`; 0 in simulation
    SHARES = 0x084  #: 0: any operation may use any cycle of the PEs; otherwise fixed shares, see SHARES
    SEND_ZEROS = 0x088  #: 1: a scalar that is zero takes the cycles of any other, and is no term of a sum; 0: skipped
    # Of each window, in units of 4096 bytes. If a window reaches beyond the machine's addresses, or WINDOW_LOW is no
    # multiple of 4096, the size counts as 0: every access is refused with BAD_ADDRESS.
    WINDOW_SIZE = 0x08C
    GROUPS = 0x090  #: how many equal groups of channels, each with a broadcaster; 0: one. START with another: BAD_FIELD
    # 64-bit words, low half first, in the order of Counter; cleared by START. Reading a low half latches the high half:
    # a read of any high half gives what was latched last.
    COUNTER = 0x100


# Registers that keep all 32 bits of what is written, and give them back. They must not be written while a program runs:
# their paths are timed for more than a cycle.
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
