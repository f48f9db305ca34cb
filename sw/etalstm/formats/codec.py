"""The compressed stream on the host: the words that the machine's compressor writes and its decompressor reads.

The format is the comment in :mod:`etalstm_hw.contract.streams`: blocks of 32 elements, each a mask word and the words
that are kept.
"""

from pathlib import Path

import numpy as np
from numba import njit

from etalstm.errors import StreamError
from etalstm.host.machine_code import keep_code
from etalstm.network.storage import check_threshold
from etalstm_hw import contract
from etalstm_hw.contract import INDEX_CHECK, STREAM_BLOCK, STREAM_INDEX

keep_code([Path(__file__)], contract.PARTS)

_INTACT, _SHORT, _MASK, _FILL = range(4)
_PROBLEMS = {
    _SHORT: "the stream ends inside it",
    _MASK: "its mask has bits beyond the last element",
    _FILL: "the half word that fills its last word is not 0",
}
QUIET = 0x0040_0000  # makes a NaN a quiet one, which rounding leaves one


@njit
def _half(word):
    """Round the word of a float32 (as int64) to the upper half's 16 bits, to nearest even."""
    if word & 0x7FFF_FFFF > 0x7F80_0000:
        return (word | QUIET) >> 16
    return (word + 0x7FFF + (word >> 16 & 1)) >> 16


@njit
def rounded(x):
    """Round one float32 in compiled code: :func:`round_bf16` of a scalar."""
    word = np.int64(np.float32(x).view(np.uint32))
    return np.uint32(_half(word) << 16).view(np.float32)


def round_bf16(x):
    """Round a float32 array to bfloat16, to nearest even; a NaN stays a NaN, overflow becomes infinite."""
    words = np.ascontiguousarray(x, np.float32).view(np.uint32)
    up = words + np.uint32(0x7FFF) + (words >> np.uint32(16) & np.uint32(1))
    chosen = np.where(words & np.uint32(0x7FFF_FFFF) > np.uint32(0x7F80_0000), words | np.uint32(QUIET), up)
    return (chosen & np.uint32(0xFFFF_0000)).view(np.float32).reshape(np.shape(x))


def pack_bf16(low, high):
    """Pack two float32 arrays of one shape into one of words, as ``VectorOp.PACK`` does.

    The arrays, each rounded by :func:`round_bf16`, become the lower and the upper halves of the words. The words have
    type float32, but their values as numbers mean nothing.
    """
    halves = (round_bf16(array).view(np.uint32) for array in (low, high))
    return (next(halves) >> np.uint32(16) | next(halves)).view(np.float32)


def unpack_bf16(words):
    """Give the two arrays of bfloat16 numbers, as float32, that :func:`pack_bf16` has packed."""
    bits = np.ascontiguousarray(words, np.float32).view(np.uint32)
    return (bits << np.uint32(16)).view(np.float32), (bits & np.uint32(0xFFFF_0000)).view(np.float32)


@njit
def is_kept(x, threshold):
    """Tell whether a stream keeps x: neither ±0 nor below the threshold. A NaN is kept."""
    return x != 0 and not abs(x) < threshold


@njit(nogil=True, cache=True)
def _encode(values, threshold, bf16, words):
    """Write the blocks of `values` to `words`; give the number of words."""
    bits, size = values.view(np.uint32), 0
    for first in range(0, values.size, STREAM_BLOCK):
        at, mask, kept = size, np.int64(0), 0
        size += 1
        for n in range(first, min(first + STREAM_BLOCK, values.size)):
            if not is_kept(values[n], threshold):
                continue
            mask |= np.int64(1) << (n - first)
            if not bf16:
                words[size] = bits[n]
                size += 1
            elif kept & 1:
                words[size - 1] |= np.uint32(_half(np.int64(bits[n])) << 16)
            else:
                words[size] = np.uint32(_half(np.int64(bits[n])))
                size += 1
            kept += 1
        words[at] = np.uint32(mask)
    return size


@njit(nogil=True, cache=True)
def _decode(words, bf16, bits):
    """Fill `bits` with elements; give the words used, and the problem with the block that has it."""
    at = 0
    for first in range(0, bits.size, STREAM_BLOCK):
        block, count = first // STREAM_BLOCK, min(STREAM_BLOCK, bits.size - first)
        if at == words.size:
            return at, _SHORT, block
        mask = np.int64(words[at])
        at += 1
        if mask >> count:
            return at, _MASK, block
        kept = 0
        for n in range(count):
            if not mask >> n & 1:
                continue
            index = at + (kept >> 1 if bf16 else kept)
            if index >= words.size:
                return at, _SHORT, block
            word = np.int64(words[index])
            if bf16:
                word = word & 0xFFFF_0000 if kept & 1 else (word & 0xFFFF) << 16
            bits[first + n] = np.uint32(word)
            kept += 1
        at += (kept + 1) >> 1 if bf16 else kept
        if bf16 and kept & 1 and words[at - 1] >> 16:
            return at, _FILL, block
    return at, _INTACT, 0


@njit(nogil=True, cache=True)
def _count_kept(values, threshold, counts):
    for n in range(values.size):
        if is_kept(values[n], threshold):
            counts[n // STREAM_BLOCK] += 1


def encode(values: np.ndarray, threshold: float = 0.0, bf16: bool = False, beat_words: int = 1) -> np.ndarray:
    """Compress a vector of float32.

    Raises ``ValueError`` if `values` is no such array, or the threshold is negative or no number.

    An element x is kept if it is neither zero nor |x| < `threshold`; all others are read back as +0. With `bf16` kept
    elements are rounded to bfloat16, two in a word. The stream, uint32, (words,), is filled up with 0 to a multiple of
    `beat_words`.
    """
    values = _vector("values", values, np.float32)
    least = np.float32(check_threshold("threshold", threshold))
    words = np.zeros(_blocks(values.size) + values.size + beat_words, np.uint32)
    size = _encode(values, least, bf16, words)
    return words[: -(-size // beat_words) * beat_words].copy()


def decode(words: np.ndarray, count: int, bf16: bool = False, beat_words: int = 1) -> np.ndarray:
    """Restore `count` elements, float32: the inverse of :func:`encode`, except for dropping and rounding.

    Raises :class:`StreamError` if no :func:`encode` writes such words: too few, too many, or a mask that the elements
    do not fit. The message names the block.
    """
    words = _vector("words", words, np.uint32)
    bits = np.zeros(count, np.uint32)
    used, problem, block = _decode(words, bf16, bits)
    if problem != _INTACT:
        raise StreamError(f"block {block} of {_blocks(count)}: {_PROBLEMS[problem]} ({words.size} words)")
    expected = -(-used // beat_words) * beat_words
    last = f"after the last block, {_blocks(count) - 1}:" if count else "no block is expected:"
    if words.size != expected:
        raise StreamError(f"{last} the stream has {words.size} words, expected {expected}")
    if words[used:].any():
        raise StreamError(f"{last} the words that fill the last beat are not 0")
    return bits.view(np.float32)


def whole_blocks(words: np.ndarray, bf16: bool = False) -> int:
    """Count the blocks of a stream that lie completely in its first words, uint32."""
    block, at = 0, 0
    while at < words.size:
        kept = int(words[at]).bit_count()
        at += 1 + ((kept + 1) // 2 if bf16 else kept)
        block += at <= words.size
    return block


def kept_by_block(values: np.ndarray, threshold: float = 0.0) -> np.ndarray:
    """Count the elements that :func:`encode` keeps of each block of a float32 vector; int64, (blocks,)."""
    values = _vector("values", values, np.float32)
    counts = np.zeros(_blocks(values.size), np.int64)
    _count_kept(values, np.float32(threshold), counts)
    return counts


def density(values: np.ndarray, threshold: float = 0.0) -> float:
    """Give the share of elements that :func:`encode` keeps, 0 if there are none."""
    return float(kept_by_block(values, threshold).sum() / max(values.size, 1))


def stream_words(kept, count: int, bf16: bool = False) -> int:
    """Give the words of a stream of `count` elements, masks included, before it is filled up to a beat.

    `kept` counts the kept elements, in all or by block. With `bf16` it must be by block, as each block fills up its
    last word. Raises ``ValueError`` if `kept` does not suit `count` or `bf16`.
    """
    kept = np.asarray(kept)
    if kept.ndim and kept.size != _blocks(count):
        raise ValueError(f"{count} elements make {_blocks(count)} blocks, got {kept.size}")
    if bf16 and not kept.ndim and count > STREAM_BLOCK:
        raise ValueError("with bf16 the size depends on what each block keeps: kept must be an array")
    return _blocks(count) + int(np.sum((kept + 1) // 2 if bf16 else kept))


def index_words(start, beats, elements, kept, address) -> np.ndarray:
    """Give the words of index beats, uint32, (…, 4), as the comment in :mod:`etalstm_hw.contract.streams` has them.

    The arguments are integers, or arrays of them that broadcast. `address` is that of the index itself, in beats of the
    channel's window.
    """
    given = {"start": start, "beats": beats, "elements": elements, "kept": kept, "address": address}
    words = {name: np.asarray(value, np.uint64) for name, value in given.items()}
    shape = np.broadcast_shapes(*(value.shape for value in words.values()))
    words["check"] = np.zeros(shape, np.uint64)
    for name, turn in INDEX_CHECK.items():
        words["check"] = words["check"] ^ (words[name] << np.uint64(turn)) ^ (words[name] >> np.uint64(32 - turn))
    return np.stack([np.broadcast_to(words[name] & 0xFFFF_FFFF, shape) for name in STREAM_INDEX], -1).astype(np.uint32)


def check_index(words: np.ndarray, elements, address) -> None:
    """Raise :class:`StreamError` if the check of index beats, integers, (…, 4), does not fit them; see
    :func:`index_words`.
    """
    start, beats, _, kept = np.moveaxis(words, -1, 0)
    wrong = (index_words(start, beats, elements, kept, address) != words).any(-1)
    if wrong.any():
        beat = np.broadcast_to(address, wrong.shape)[wrong][0]
        raise StreamError(f"the index of a stream, at beat {beat} of a channel's window, does not fit its check")


def _blocks(count: int) -> int:
    return -(-count // STREAM_BLOCK)


def _vector(name: str, values, dtype) -> np.ndarray:
    if not isinstance(values, np.ndarray) or values.dtype != dtype or values.ndim != 1:
        raise ValueError(f"{name} must be a one-dimensional array of {np.dtype(dtype)}")
    return np.ascontiguousarray(values)
