"""Compressed streams."""

# A compressed stream: elements in order (vector by vector, lane by lane) in blocks of STREAM_BLOCK. A block is a mask
# word (bit n: element n is kept), then the kept words in order; with bf16 two kept elements share a word, the first in
# the low half, and a block's last word is filled up with 0. The last block may have fewer elements, the mask bits of
# those that are missing are 0. The stream starts at a beat and is filled up to a whole beat with 0. Its index beat
# holds, as 32-bit words: the beat where it starts, relative to the channel's window; its length in beats; a check; the
# number of kept elements. The check is the xor of five words: the start, the number of elements rotated left by 5 bits,
# the beats by 11, the number of kept elements by 19, and by 27 the beat where the index itself lies.
STREAM_BLOCK = 32
MOST_GATES = 4  # of a block that is broadcast, and of a block of a map of rows
STREAM_INDEX = ("start", "beats", "check", "kept")
INDEX_CHECK = {"start": 0, "elements": 5, "beats": 11, "kept": 19, "address": 27}
