"""The registers that a board has besides the machine's."""

from enum import IntEnum, IntFlag


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
