"""Compressor and decompressor, cycle by cycle: see hw/codec/.

Which elements are kept is not known here, only how many of a stream: they are taken to be spread evenly.
"""

from etalstm.model.machine.state import compiled, record
from etalstm_hw.contract import STREAM_BLOCK

DECOMPRESSOR = record(
    "words", "factor", "active", "rows", "row", "all_rows", "kept", "bf16", "have", "position", "mask_rows", "ended",
    "fits", "valid", "last", "part", "packed", "full", "full_last",
)  # fmt: skip
COMPRESSOR = record(
    "words", "factor", "row", "all_rows", "kept", "bf16", "part", "first_valid", "first_last", "second_valid",
    "second_last", "position", "mask_position", "open", "read", "half", "block_row", "masking", "closing", "ending",
    "valid", "last", "packed", "full", "full_last",
)  # fmt: skip
_ROW_BITS_LEAST = 4


@compiled
def _kept(codec, row):
    """Give how many elements of a row are kept."""
    return (row + 1) * codec.kept // codec.all_rows - row * codec.kept // codec.all_rows


@compiled
def begin_decompression(codec, elements, kept, bf16):
    """Announce a stream."""
    codec.active = 1
    codec.rows = codec.all_rows = elements // codec.words
    codec.kept, codec.bf16, codec.row = kept, bf16, 0


@compiled
def window_of(codec):
    """Give what a decompressor holds; once a cycle changes nothing of it, only a beat or room does."""
    return (
        codec.active, codec.have, codec.position, codec.row, codec.mask_rows, codec.ended, codec.fits, codec.valid,
        codec.part, codec.packed, codec.full,
    )  # fmt: skip


@compiled
def step_decompressor(codec, beat_there, beat_last, out_ready):
    """Do a cycle's work; tell whether the beat was taken, and whether one was given, and whether it was the last."""
    words, factor = codec.words, codec.factor
    gave = out_ready and (codec.full if factor > 1 else codec.valid)
    gave_last = gave and (codec.full_last if factor > 1 else codec.last)
    ready = out_ready or not codec.full if factor > 1 else out_ready
    masked, last = codec.mask_rows > 0, codec.rows == 1
    behind = codec.position + (_kept(codec, codec.row) << (0 if codec.bf16 else 1) if masked else 0)
    odd = codec.bf16 and behind & 1 and (codec.mask_rows == 1 or last)
    after = behind + (1 if odd else 0)
    end, level = after >> 1, codec.have * words
    # Elements are not spread as in the stream. Once all of it has come, no row waits for words that it does not have.
    row_there = masked and (codec.ended or (after + 1) >> 1 <= level)
    final = row_there and last
    takes = row_there and (not last or codec.fits) and (not codec.valid or ready)
    word_there = codec.ended or end < level
    fetches = word_there and ((takes and codec.mask_rows == 1 and not last) if masked else codec.rows != 0)
    used = (after if takes else codec.position) + (2 if fetches else 0)
    used = min(used, codec.have * 2 * words)
    rest = codec.have - used // (2 * words)
    taken = beat_there and codec.active and not codec.ended and (final or rest != 2)
    took_beat = taken and codec.part == factor - 1
    codec.fits = final and codec.ended
    _move(codec, takes, fetches, rest, used % (2 * words), ready, factor)
    if taken:
        codec.ended = took_beat and beat_last
        codec.part = (codec.part + 1) % factor
        if not final:
            codec.have = rest + 1
    if takes and last:
        codec.active = codec.have = codec.position = codec.mask_rows = codec.ended = 0
        codec.fits = 0
    return took_beat, gave, gave_last


@compiled
def _move(codec, takes, fetches, rest, position, ready, factor):
    """Update window, mask and output."""
    if factor > 1:
        if ready:
            codec.full = 0
        if codec.valid and ready:
            codec.packed = (codec.packed + 1) % factor
            codec.full, codec.full_last = codec.packed == 0, codec.last
    if ready:
        codec.valid = 0
    if takes:
        codec.valid, codec.last = 1, codec.rows == 1
        codec.rows -= 1
        codec.row += 1
        codec.mask_rows -= 1
    if fetches:
        codec.mask_rows = STREAM_BLOCK // codec.words
    codec.have, codec.position = rest, position


@compiled
def begin_compression(codec, elements, kept, bf16):
    """Announce a stream, whose first row may come in the next cycle."""
    codec.all_rows, codec.kept, codec.bf16, codec.row = elements // codec.words, kept, bf16, 0


@compiled
def step_compressor(codec, beat_there, beat_last, out_ready):
    """Do a cycle's work; tell whether the beat was taken, and whether one was given, and whether it was the last."""
    words, factor = codec.words, codec.factor
    rows = 1 << max(_ROW_BITS_LEAST, _bit_length(STREAM_BLOCK // words + 1))
    gave = out_ready and (codec.full if factor > 1 else codec.valid)
    gave_last = gave and (codec.full_last if factor > 1 else codec.last)
    ready = out_ready or not codec.full if factor > 1 else out_ready
    room = codec.position // words - codec.read < rows - 1
    takes = codec.second_valid and not codec.masking and not codec.ending and room
    _give(codec, ready, factor)
    was_masking = codec.masking
    if takes:
        _place_row(codec)
    if was_masking:
        codec.masking, codec.open, codec.ending = 0, 0, codec.closing
    leaves = not codec.second_valid or takes
    enters = not codec.first_valid or leaves
    took_part = beat_there and enters
    took_beat = took_part and codec.part == factor - 1
    if leaves:
        codec.second_valid, codec.second_last = codec.first_valid, codec.first_last
    if enters:
        codec.first_valid, codec.first_last = took_part, took_beat and beat_last
    if took_part:
        codec.part = (codec.part + 1) % factor
    return took_beat, gave, gave_last


@compiled
def _bit_length(number):
    bits = 0
    while number:
        bits += 1
        number >>= 1
    return bits


@compiled
def _place_row(codec):
    """Place the words of a row that is kept."""
    count = _kept(codec, codec.row)
    codec.row += 1
    ends = codec.second_last or codec.block_row == STREAM_BLOCK // codec.words - 1
    if codec.bf16:
        halves = count + codec.half
        codec.half = halves & 1 and not ends
        count = (halves + (1 if ends else 0)) >> 1
    if not codec.open:
        codec.mask_position = codec.position
        codec.position += 1
        codec.open = 1
    codec.position += count
    codec.block_row = 0 if ends else codec.block_row + 1
    codec.masking, codec.closing = ends, codec.second_last


@compiled
def _give(codec, ready, factor):
    """Put a row that is complete to the output, and what is there into the packer."""
    words = codec.words
    if factor > 1:
        if ready:
            codec.full = 0
        if codec.valid and ready:
            codec.packed = 0 if codec.last else (codec.packed + 1) % factor
            codec.full, codec.full_last = codec.packed == 0, codec.last
    known = codec.mask_position if codec.open else codec.position
    end, partial = codec.position // words, codec.position % words != 0
    there = codec.read != known // words or (codec.ending and partial)
    last = codec.ending and codec.read == end - (0 if partial else 1)
    free = not codec.valid or ready
    if ready:
        codec.valid = 0
    if there and free:
        codec.valid, codec.last = 1, last
        codec.read += 1
        if last:
            codec.position = (end + (1 if partial else 0)) * words
            codec.ending = 0
