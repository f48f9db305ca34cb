"""The check of an instruction: its definition, worked out anew, and what it finds."""

import random
from itertools import combinations

from etalstm_hw.contract import CHECK_BITS, CHECK_OFFSET, Opcode, encode
from etalstm_hw.contract.image import check_masks, check_of, image_of, words_of

WORDS = [encode(Opcode.LOAD, address=n, outer=1, inner=3) for n in range(300)]


def crc(data):
    """The remainder of the message's bits by the polynomial, one bit after the other."""
    remainder = 0xFFFF
    for byte in data:
        for n in reversed(range(8)):
            leaves = (remainder >> 15 & 1) != (byte >> n & 1)
            remainder = remainder << 1 & 0xFFFF ^ (0x1021 if leaves else 0)
    return remainder


def test_the_check_is_that_of_the_text():
    assert crc(b"123456789") == 0x29B1  # the CRC's published example
    for number in (0, 7, 299):
        data = WORDS[number].to_bytes(32, "little")
        assert check_of(WORDS[number], number) == crc(data[: CHECK_OFFSET // 8]) ^ number
    assert check_of(WORDS[0], 70_000) == check_of(WORDS[0], 70_000 - 65_536)


def test_the_masks_are_those_of_the_check():
    generator = random.Random(3)
    for _ in range(20):
        word = generator.getrandbits(CHECK_OFFSET)
        parities = sum((word & mask).bit_count() % 2 << n for n, mask in enumerate(check_masks()))
        assert parities ^ check_of(0, 0) == check_of(word, 0)


def test_up_to_three_wrong_bits_are_found():
    bits = [check_of(1 << place, 0) ^ check_of(0, 0) for place in range(CHECK_OFFSET)]
    bits += [1 << n for n in range(CHECK_BITS)]
    assert len({0, *bits}) == len(bits) + 1  # no single bit is missed, and no two
    assert {one ^ other for one, other in combinations(bits, 2)}.isdisjoint(bits)


def test_a_program_comes_back_from_its_bytes():
    assert words_of(image_of(WORDS)) == WORDS
