"""A program's bytes as they lie in memory, with the check that each instruction carries."""

from binascii import crc_hqx
from collections.abc import Sequence

from etalstm_hw.contract import CHECK_BITS, CHECK_OFFSET, INSTRUCTION_BITS

INSTRUCTION_BYTES = INSTRUCTION_BITS // 8
_CHECKED_BYTES = CHECK_OFFSET // 8
_START = 0xFFFF
_FIELDS_MASK, _CHECK_MASK = (1 << CHECK_OFFSET) - 1, (1 << CHECK_BITS) - 1


def check_of(word: int, number: int) -> int:
    """Give the check of an instruction; see ``CHECK_OFFSET`` in :mod:`etalstm_hw.contract`.

    Parameters
    ----------
    word : int
        The instruction; its bits from CHECK_OFFSET on do not count.
    number : int
        Of the instruction in its program, from 0.
    """
    return crc_hqx((word & _FIELDS_MASK).to_bytes(_CHECKED_BYTES, "little"), _START) ^ number & _CHECK_MASK


def check_masks() -> list[int]:
    """Give a mask of an instruction's bits for each bit of its check.

    Bit n of ``check_of(word, 0)`` is the parity of ``word & masks[n]``, xor bit n of ``check_of(0, 0)``.
    """
    base = check_of(0, 0)
    columns = [check_of(1 << place, 0) ^ base for place in range(CHECK_OFFSET)]
    return [sum((column >> n & 1) << place for place, column in enumerate(columns)) for n in range(CHECK_BITS)]


def image_of(words: Sequence[int]) -> bytes:
    """Give the bytes of a program of instructions, each with its check."""
    return b"".join(
        (word & _FIELDS_MASK | check_of(word, number) << CHECK_OFFSET).to_bytes(INSTRUCTION_BYTES, "little")
        for number, word in enumerate(words)
    )


def words_of(image: bytes) -> list[int]:
    """Give the instructions in a program's bytes, without their checks, which are not looked at."""
    starts = range(0, len(image), INSTRUCTION_BYTES)
    return [int.from_bytes(image[start : start + INSTRUCTION_BYTES], "little") & _FIELDS_MASK for start in starts]
