"""Compressor and decompressor, cycle by cycle: see hw/codec/.

Of a stream that was counted from data, each beat's number of kept elements is known. Of any other stream only the sum
is known; its kept elements are taken to be spread evenly.
"""

from etalstm.model.machine.state import compiled, record
from etalstm_hw.contract import STREAM_BLOCK

DECOMPRESSOR = record(
    "words", "factor", "active", "beats", "beat", "all_beats", "kept", "counts_from", "bf16", "have", "position",
    "mask_beats", "ended", "fits", "valid", "last", "piece", "waiting", "waiting_last", "packed", "full", "full_last",
)  # fmt: skip
"""A beat, or a piece of one, may be `waiting` in the elastic buffer before the codec."""
COMPRESSOR = record(
    "words", "factor", "beat", "all_beats", "kept", "counts_from", "bf16", "piece", "first_valid", "first_last",
    "second_valid", "second_last", "position", "mask_position", "open", "read", "half", "block_beat", "masking",
    "closing", "ending", "valid", "last", "waiting", "waiting_last", "packed", "full", "full_last",
)  # fmt: skip
_LINE_BITS_LEAST = 4


@compiled
def _kept(codec, beat, counts):
    """Give how many elements of a beat are kept."""
    if len(counts):
        return counts[codec.counts_from + beat]
    return (beat + 1) * codec.kept // codec.all_beats - beat * codec.kept // codec.all_beats


@compiled
def stream_of(instruction, given, channel):
    """Give first beat and beats of a LOAD's or STORE's stream in a channel, and where its counts begin."""
    if given.streams.size:
        found = given.streams[channel, instruction.given_number]
        return found[0], found[1], found[2]
    return instruction.stream_start, instruction.stream_beats, 0


@compiled
def begin_decompression(codec, elements, kept, counts_from, bf16):
    """Announce a stream."""
    codec.active = 1
    codec.beats = codec.all_beats = elements // codec.words
    codec.kept, codec.counts_from, codec.bf16, codec.beat = kept, counts_from, bf16, 0


@compiled
def window_of(codec):
    """Give what a decompressor holds; once a cycle changes nothing of it, only a beat or room does."""
    return (
        codec.active, codec.have, codec.position, codec.beat, codec.mask_beats, codec.ended, codec.fits, codec.valid,
        codec.piece, codec.waiting, codec.packed, codec.full,
    )  # fmt: skip


@compiled
def step_decompressor(codec, beat_there, beat_last, out_ready, counts):
    """Do a cycle's work; tell whether the beat was taken, and whether one was given, and whether it was the last."""
    words, factor = codec.words, codec.factor
    gave = out_ready and (codec.full if factor > 1 else codec.valid)
    gave_last = gave and (codec.full_last if factor > 1 else codec.last)
    ready = out_ready or not codec.full if factor > 1 else out_ready
    masked, last = codec.mask_beats > 0, codec.beats == 1
    behind = codec.position + (_kept(codec, codec.beat, counts) << (0 if codec.bf16 else 1) if masked else 0)
    odd = codec.bf16 and behind & 1 and (codec.mask_beats == 1 or last)
    after = behind + (1 if odd else 0)
    end, level = after >> 1, codec.have * words
    # Elements that are spread evenly need other words than the stream has. Once all of the stream has come, no beat
    # waits for words.
    elements_there = masked and (codec.ended or (after + 1) >> 1 <= level)
    final = elements_there and last
    takes = elements_there and (not last or codec.fits) and (not codec.valid or ready)
    word_there = codec.ended or end < level
    fetches = word_there and ((takes and codec.mask_beats == 1 and not last) if masked else codec.beats != 0)
    used = (after if takes else codec.position) + (2 if fetches else 0)
    used = min(used, codec.have * 2 * words)
    rest = codec.have - used // (2 * words)
    takes_piece = codec.active and not codec.ended and (final or rest != 2)
    took_beat, taken, taken_last = _next_piece(codec, beat_there, beat_last, takes_piece)
    codec.fits = final and codec.ended
    _move(codec, takes, fetches, rest, used % (2 * words), ready, factor)
    if taken:
        codec.ended = taken_last
        if not final:
            codec.have = rest + 1
    if takes and last:
        codec.active = codec.have = codec.position = codec.mask_beats = codec.ended = 0
        codec.fits = 0
    return took_beat, gave, gave_last


@compiled
def _next_piece(codec, beat_there, beat_last, takes_piece):
    """Tell whether a beat is taken, whether a piece enters the codec, and whether that is a stream's last."""
    factor = codec.factor
    piece_last = beat_last and codec.piece == factor - 1
    taken = takes_piece and (codec.waiting or beat_there)
    taken_last = taken and (codec.waiting_last if codec.waiting else piece_last)
    leaves = beat_there and not codec.waiting
    took_beat = leaves and codec.piece == factor - 1
    if leaves:
        codec.piece = (codec.piece + 1) % factor
        codec.waiting_last = piece_last
    codec.waiting = (codec.waiting or leaves) and not taken
    return took_beat, taken, taken_last


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
        codec.valid, codec.last = 1, codec.beats == 1
        codec.beats -= 1
        codec.beat += 1
        codec.mask_beats -= 1
    if fetches:
        codec.mask_beats = STREAM_BLOCK // codec.words
    codec.have, codec.position = rest, position


@compiled
def begin_compression(codec, elements, kept, counts_from, bf16):
    """Announce a stream, whose first beat may come in the next cycle."""
    codec.all_beats, codec.kept, codec.counts_from = elements // codec.words, kept, counts_from
    codec.bf16, codec.beat = bf16, 0


@compiled
def step_compressor(codec, beat_there, beat_last, out_ready, counts):
    """Do a cycle's work; tell whether the beat was taken, and whether one was given, and whether it was the last."""
    words, factor = codec.words, codec.factor
    lines = 1 << max(_LINE_BITS_LEAST, _bit_length(STREAM_BLOCK // words + 1))
    gave = out_ready and (codec.full if factor > 1 else codec.valid)
    gave_last = gave and (codec.full_last if factor > 1 else codec.last)
    ready = out_ready or not codec.full if factor > 1 else out_ready
    room = codec.position // words - codec.read < lines - 1
    takes = codec.second_valid and not codec.masking and not codec.ending and room
    _give(codec, ready, factor)
    was_masking = codec.masking
    if takes:
        _place_beat(codec, counts)
    if was_masking:
        codec.masking, codec.open, codec.ending = 0, 0, codec.closing
    leaves = not codec.second_valid or takes
    enters = not codec.first_valid or leaves
    took_beat, took_piece, piece_last = _next_piece(codec, beat_there, beat_last, enters)
    if leaves:
        codec.second_valid, codec.second_last = codec.first_valid, codec.first_last
    if enters:
        codec.first_valid, codec.first_last = took_piece, piece_last
    return took_beat, gave, gave_last


@compiled
def _bit_length(number):
    bits = 0
    while number:
        bits += 1
        number >>= 1
    return bits


@compiled
def _place_beat(codec, counts):
    """Put the kept words of a beat into the lines."""
    count = _kept(codec, codec.beat, counts)
    codec.beat += 1
    ends = codec.second_last or codec.block_beat == STREAM_BLOCK // codec.words - 1
    if codec.bf16:
        halves = count + codec.half
        codec.half = halves & 1 and not ends
        count = (halves + (1 if ends else 0)) >> 1
    if not codec.open:
        codec.mask_position = codec.position
        codec.position += 1
        codec.open = 1
    codec.position += count
    codec.block_beat = 0 if ends else codec.block_beat + 1
    codec.masking, codec.closing = ends, codec.second_last


@compiled
def _give(codec, ready, factor):
    """Put a beat that is complete to the output, and what is there into the packer."""
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
