"""The codec writes and reads the contract's streams, and refuses every other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etalstm.errors import StreamError
from etalstm.formats.codec import (
    check_index,
    decode,
    density,
    encode,
    index_words,
    kept_by_block,
    round_bf16,
    stream_words,
)

SEED = 20


def reference_bf16(word):
    """Round to the nearest of the two neighbours, an even one where they are as near."""
    if word & 0x7FFFFFFF > 0x7F800000:
        return (word | 0x400000) >> 16
    below, rest = word >> 16, word & 0xFFFF
    return below + (rest > 0x8000 or (rest == 0x8000 and below % 2 == 1))


def reference_encode(values, threshold, bf16, beat_words):
    """The contract's words, one element at a time."""
    stream = []
    for first in range(0, len(values), 32):
        mask, kept = 0, []
        for n, x in enumerate(values[first : first + 32]):
            if x != 0 and not abs(x) < threshold:
                mask |= 1 << n
                kept.append(int(x.view(np.uint32)))
        if bf16:
            halves = [reference_bf16(word) for word in kept] + [0] * (len(kept) % 2)
            kept = [low | high << 16 for low, high in zip(halves[::2], halves[1::2], strict=True)]
        stream += [mask, *kept]
    return stream + [0] * (-len(stream) % beat_words)


def draw(generator, count, share):
    values = generator.normal(size=count).astype(np.float32)
    values[generator.random(count) >= share] = generator.choice([0.0, -0.0])
    return values


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("share", [0.0, 1.0, None])
@pytest.mark.parametrize("beat_words", [1, 4, 8])
def test_every_length_has_the_words_of_the_contract_and_comes_back(share, bf16, beat_words):
    generator = np.random.default_rng(SEED)
    for count in range(201):
        values = draw(generator, count, generator.random() if share is None else share)
        threshold = np.float32(generator.choice([0.0, 0.1, 0.7]))
        words = encode(values, threshold, bf16, beat_words)
        expected = reference_encode(values, threshold, bf16, beat_words)
        assert words.tolist() == expected, f"{count} elements, threshold {threshold}"
        kept = np.where((values != 0) & ~(np.abs(values) < threshold), values, np.float32(0))
        kept = round_bf16(kept) if bf16 else kept
        assert decode(words, count, bf16, beat_words).view(np.uint32).tolist() == kept.view(np.uint32).tolist()
        blocks = kept_by_block(values, threshold)
        assert len(encode(values, threshold, bf16)) == stream_words(blocks, count, bf16)
        assert density(values, threshold) == pytest.approx(np.count_nonzero(kept) / max(count, 1))


ANY_WORD = st.integers(0, 2**32 - 1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(ANY_WORD, max_size=100), ANY_WORD, st.booleans(), st.sampled_from([1, 8]))
def test_any_words_have_the_stream_of_the_contract(words, threshold, bf16, beat_words):
    values = np.array(words, np.uint32).view(np.float32)
    threshold = np.abs(np.array([threshold], np.uint32).view(np.float32))[0]
    if not np.isfinite(threshold) or threshold < 2.0**-126:
        threshold = np.float32(0)
    stream = encode(values, threshold, bf16, beat_words)
    assert stream.tolist() == reference_encode(values, threshold, bf16, beat_words)
    back = decode(stream, values.size, bf16, beat_words)
    assert encode(back, 0, bf16).tolist() == encode(back, 0, False).tolist() or bf16
    assert np.array_equal(np.isnan(back), np.isnan(values))


def reference_decode(words, count, bf16, beat_words):
    """Read the contract's words, one element at a time; None if something is wrong."""
    left, elements = list(words), []
    try:
        for first in range(0, count, 32):
            size, mask = min(32, count - first), left.pop(0)
            if mask >> size:
                return None
            kept = [n for n in range(size) if mask >> n & 1]
            taken = [left.pop(0) for _ in range((len(kept) + 1) // 2 if bf16 else len(kept))]
            if bf16:
                taken = [half for word in taken for half in ((word & 0xFFFF) << 16, word >> 16 << 16)]
                if any(taken[len(kept) :]):
                    return None
            elements += [taken[kept.index(n)] if n in kept else 0 for n in range(size)]
    except IndexError:
        return None
    return None if any(left) or len(left) >= beat_words or len(words) % beat_words else elements


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.lists(ANY_WORD | st.integers(0, 15), max_size=40), st.integers(0, 70), st.booleans(), st.sampled_from([1, 4]))
def test_any_words_are_read_like_the_contract_or_refused_with_their_block(words, count, bf16, beat_words):
    expected = reference_decode(words, count, bf16, beat_words)
    try:
        values = decode(np.array(words, np.uint32), count, bf16, beat_words)
    except StreamError as error:
        assert expected is None and "block" in str(error)
    else:
        assert values.view(np.uint32).tolist() == expected


def test_rounding_goes_to_the_nearest_even_and_keeps_nan_and_infinity():
    words = [0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F7FFFFF, 0xFF800000, 0x7F800001, 0x80000000]
    expected = [0x3F800000, 0x3F800000, 0x3F820000, 0x3F810000, 0x3F800000, 0x7F800000, 0xFF800000, 0x7FC00000,
                0x80000000]  # fmt: skip
    assert round_bf16(np.array(words, np.uint32).view(np.float32)).view(np.uint32).tolist() == expected


def test_a_nan_is_kept_whatever_the_threshold():
    assert encode(np.array([np.nan], np.float32), 1e30).tolist() == [1, 0x7FC00000]


WHOLE = encode(np.arange(1, 71, dtype=np.float32))  # blocks of 33, 33 and 7 words


@pytest.mark.parametrize(
    ("words", "count", "bf16", "message"),
    [
        (WHOLE[:-1], 70, False, "block 2 of 3: the stream ends inside"),
        (WHOLE[:66], 70, False, "block 2 of 3: the stream ends inside"),
        (WHOLE[:20], 70, False, "block 0 of 3: the stream ends inside"),
        (WHOLE, 69, False, "block 2 of 3: its mask has bits beyond"),
        (np.append(WHOLE, np.uint32(0)), 70, False, "after the last block, 2: the stream has 74 words, expected 73"),
        (np.array([1, 0x10003F80], np.uint32), 1, True, "block 0 of 1: the half word"),
        (np.array([0], np.uint32), 0, False, "no block is expected"),
    ],
)
def test_damaged_streams_are_refused_with_their_block(words, count, bf16, message):
    with pytest.raises(StreamError, match=message):
        decode(words, count, bf16)


def test_words_that_fill_a_beat_must_be_zeros():
    words = encode(np.ones(1, np.float32), beat_words=8)
    assert words.size == 8
    words[7] = 1
    with pytest.raises(ValueError, match="fill the last beat"):
        decode(words, 1, beat_words=8)


@pytest.mark.parametrize("threshold", [-0.1, float("nan"), float("inf"), "1"])
def test_thresholds_that_cannot_be_are_refused(threshold):
    with pytest.raises(ValueError, match="threshold must be"):
        encode(np.ones(3, np.float32), threshold)


@pytest.mark.parametrize("values", [np.ones(3), np.ones((1, 3), np.float32), [1.0]])
def test_only_vectors_of_float32_are_encoded(values):
    with pytest.raises(ValueError, match="values must be a one-dimensional array of float32"):
        encode(values)


def test_words_of_bf16_need_what_each_block_keeps():
    assert stream_words(3, 20, bf16=True) == 3
    with pytest.raises(ValueError, match="kept must be an array"):
        stream_words(3, 40, bf16=True)
    with pytest.raises(ValueError, match="2 blocks, got 1"):
        stream_words(np.array([3]), 40)


def test_an_index_has_the_check_of_the_contracts_text():
    start, beats, elements, kept, place = 0x0123_4567, 0x89AB, 0x1_0001, 0xFFFF, 0x00F0_0F0F
    turned = (elements << 5, beats << 11, kept << 19, place << 27)
    check = start
    for word in turned:
        check ^= (word | word >> 32) & 0xFFFF_FFFF
    assert index_words(start, beats, elements, kept, place).tolist() == [start, beats, check, kept]


@pytest.mark.parametrize("bit", range(128))
def test_each_bit_of_an_index_is_checked(bit):
    places = np.arange(6).reshape(2, 3)
    words = index_words(100 + places, 7, 64, 20, places)
    check_index(words, 64, places)
    words[1, 2, bit // 32] ^= np.uint32(1 << bit % 32)
    with pytest.raises(StreamError, match="at beat 5 of a channel's window"):
        check_index(words, 64, places)
