"""Streams whose elements are not spread as the model spreads them, and streams that were counted."""

import numpy as np
import pytest

from etalstm.model.machine import codec as model
from etalstm.model.operands import count_words
from tests.model.python import from_python

begin_decompression, step_decompressor = from_python(model.begin_decompression, model.step_decompressor)
ELEMENTS, WORDS, FACTOR, MOST_CYCLES = 512, 2, 4, 10_000


def decompress(kept, bf16, beats, counts=()):
    """Give the cycles that a stream of so many beats takes, and how many beats were given; it must end.

    `counts` are the kept elements of each beat of the codec, if they are known.
    """
    codec = np.zeros(1, model.DECOMPRESSOR)[0]
    codec["words"], codec["factor"] = WORDS, FACTOR
    begin_decompression(codec, ELEMENTS, kept, 0, bf16)
    taken = given = 0
    for cycle in range(MOST_CYCLES):
        took, gave, last = step_decompressor(codec, taken < beats, taken == beats - 1, True, np.array(counts, np.int64))
        taken, given = taken + bool(took), given + bool(gave)
        if last:
            return cycle, given
    raise AssertionError(f"{taken} of {beats} beats were taken, {given} given, and the stream does not end")


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 112, 255, 512])
def test_a_stream_ends_with_its_last_beat(kept, bf16):
    beats = -(-count_words(ELEMENTS, kept, bf16) // (WORDS * FACTOR))
    assert decompress(kept, bf16, beats)[1] == ELEMENTS // (WORDS * FACTOR)


@pytest.mark.parametrize("beats", [-1, 1])
def test_a_stream_ends_if_its_blocks_have_other_words_than_an_even_spread(beats):
    even = -(-count_words(ELEMENTS, 112, True) // (WORDS * FACTOR))
    assert decompress(112, True, even + beats)[1] == ELEMENTS // (WORDS * FACTOR)


def test_counts_that_are_an_even_spread_make_no_difference():
    counts = [1] * (ELEMENTS // WORDS)
    beats = count_words(ELEMENTS, sum(counts), False) // (WORDS * FACTOR)
    assert decompress(0, False, beats, counts) == decompress(sum(counts), False, beats)


def test_elements_that_are_kept_one_behind_the_other_take_the_cycles_of_their_words():
    half = ELEMENTS // WORDS // 2
    counts = [WORDS] * half + [0] * half
    words = count_words(ELEMENTS, sum(counts), False)
    spread, _ = decompress(sum(counts), False, words // (WORDS * FACTOR))
    gathered, given = decompress(0, False, words // (WORDS * FACTOR), counts)
    assert given == ELEMENTS // (WORDS * FACTOR)
    assert gathered > spread


def test_blocks_of_halves_are_rounded_each():
    assert count_words(64, 2, True) == 2 + 2
    assert count_words(64, 2, False) == 2 + 2
    assert count_words(64, 64, True) == 2 + 32
