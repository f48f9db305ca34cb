"""What a difference of words says about wires."""

import numpy as np
import pytest

from etalstm.device.selftest.bench import describe, patterns, spans

SENT = patterns(4096, seed=1)


def changed(change):
    got = SENT.copy()
    change(got)
    return describe(SENT, got, beat_words=4)


def test_equal_words_say_nothing():
    assert changed(lambda got: None) is None


@pytest.mark.parametrize("bit", [0, 31])
@pytest.mark.parametrize("word", [0, 3])
def test_a_stuck_bit_is_named_by_its_place_in_the_beat(word, bit):
    def low(got):
        got[word::4] &= ~np.uint32(1 << bit)

    def high(got):
        got[word::4] |= np.uint32(1 << bit)

    assert changed(low) == f"bit {32 * word + bit} is stuck at 0 of a beat of 128 bits"
    assert changed(high) == f"bit {32 * word + bit} is stuck at 1 of a beat of 128 bits"


def test_several_stuck_bits_are_named():
    def change(got):
        got[1::4] |= np.uint32(0x30)
        got[2::4] &= ~np.uint32(1)

    assert changed(change) == "bit 64 is stuck at 0 and bits [36, 37] are stuck at 1 of a beat of 128 bits"


def test_a_single_wrong_word_is_no_stuck_bit():
    def change(got):
        got[1001] ^= 0x80

    assert f"1 of 4096 words differ, first word 1001: {SENT[1001] ^ 0x80:#010x}, expected" in changed(change)


def test_patterns_show_every_bit_at_both_levels_beside_both():
    assert np.bitwise_or.reduce(SENT) == 0xFFFFFFFF and np.bitwise_and.reduce(SENT) == 0
    assert patterns(8, seed=2).tolist() == [0] * 8
    assert (patterns(4096, seed=2) != SENT).any()


def test_spans():
    assert spans([]) == "" and spans([3]) == "3" and spans([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
