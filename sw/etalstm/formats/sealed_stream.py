"""A cell's intermediates outside the machine: a header that identifies them, the words, and a checksum.

A stream has the intermediates of one kind that one channel stores for a batch tile and a span of units of one cell,
spilled to the host or encoded by the host. Its words are those in the machine's memory. All is little-endian:

====== ======================= ===============================================================
byte   field                   meaning
====== ======================= ===============================================================
0      magic                   ``ESTR``
4      version                 2
8      network                 :func:`network_id` of the network and sizes it belongs to
12     layer, step, kind       which cell, and 0 to 5 for P_i, P_f, P_g, P_o, P_s, P_r, 6 for a dense cell's gates
24     channel, tile, span     channel, batch tile and span of units of the elements
36     encoding                see :class:`Encoding`
40     beat_words              words that a beat has where the stream was written
44     elements, kept, words   counts; words are those that follow the header
56     reserved                0
60     crc                     CRC-32 of everything but itself
====== ======================= ===============================================================
"""

import struct
import zlib
from dataclasses import astuple, dataclass
from enum import IntEnum

import numpy as np

from etalstm.errors import StreamError
from etalstm.formats.codec import decode, kept_by_block
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import KINDS

MAGIC = b"ESTR"
VERSION = 2
DENSE_KIND = len(KINDS)  # of a dense cell's gates; the kinds before it are of local gradients
_FIELDS = struct.Struct("<4sI13I")
_CRC = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CRC.size


class Encoding(IntEnum):
    """How the words encode the elements."""

    FLOAT32 = 0  #: blocks: a mask, then the kept elements
    BF16 = 1  #: likewise, kept elements rounded, two in a word
    DENSE = 2  #: the elements, no masks


@dataclass(frozen=True)
class StreamHeader:
    """The header of a stream; `elements`, `kept` and `words` are counts."""

    network: int
    layer: int
    step: int
    kind: int
    channel: int
    tile: int
    span: int
    encoding: Encoding
    beat_words: int
    elements: int
    kept: int
    words: int

    def __str__(self):
        names = [f"P_{kind}" for kind in KINDS] + ["gates"]
        kind = names[self.kind] if self.kind < len(names) else f"kind {self.kind}"
        source = f"channel {self.channel}, batch tile {self.tile}, span {self.span}"
        return f"stream {kind} of layer {self.layer}, step {self.step} ({source})"

    @property
    def position(self) -> tuple[int, ...]:
        """The stream's position in the network: layer, step, kind, channel, batch tile, span of units."""
        return self.layer, self.step, self.kind, self.channel, self.tile, self.span


def network_id(shape: NetworkShape, batch: int, steps: int, slices: int) -> int:
    """Give a number that tells streams of one network and its sizes from another's."""
    sizes = (shape.input_size, shape.hidden_size, shape.layers, batch, steps, slices)
    of_sizes = zlib.crc32(struct.pack("<6Q", *sizes))
    return of_sizes if shape.is_lstm else zlib.crc32(shape.cell.encode(), of_sizes)


def seal(header: StreamHeader, words: np.ndarray) -> bytes:
    """Give the bytes of header, checksum and words, uint32, (header.words,)."""
    fields = _FIELDS.pack(MAGIC, VERSION, *map(int, astuple(header)), 0)
    body = np.ascontiguousarray(words, "<u4").tobytes()
    return fields + _CRC.pack(zlib.crc32(body, zlib.crc32(fields))) + body


def unseal(data: bytes, network: int) -> tuple[StreamHeader, np.ndarray]:
    """Check a stream from :func:`seal`, including its masks; give header and words, uint32, (header.words,).

    `network` is the :func:`network_id` that it must have. The :class:`StreamError` names what is wrong: length, magic,
    version, checksum, network, a count, or a block.
    """
    header = read_header(data)
    expected = HEADER_BYTES + 4 * header.words
    if len(data) != expected:
        raise StreamError(f"{header}: {header.words} words make {expected} bytes, got {len(data)}")
    crc = _CRC.unpack_from(data, _FIELDS.size)[0]
    found = zlib.crc32(data[HEADER_BYTES:], zlib.crc32(data[: _FIELDS.size]))
    if crc != found:
        raise StreamError(f"{header}: corrupted: its CRC is {crc:#010x}, its bytes have {found:#010x}")
    if header.network != network:
        raise StreamError(f"{header}: of another network: {header.network:#010x}, here it is {network:#010x}")
    if header.kind > DENSE_KIND or header.encoding > max(Encoding) or not header.beat_words:
        raise StreamError(f"{header}: a field of its header is out of range: {header!r}")
    words = np.frombuffer(data, "<u4", offset=HEADER_BYTES).astype(np.uint32)
    _check_counts(header, words)
    return header, words


def read_header(data: bytes) -> StreamHeader:
    """Read the header of a stream; :class:`StreamError` if magic or version are wrong, or bytes are missing."""
    if len(data) < HEADER_BYTES:
        raise StreamError(f"a stream has a header of {HEADER_BYTES} bytes, got {len(data)}")
    magic, version, *fields, _ = _FIELDS.unpack_from(data)
    if magic != MAGIC:
        raise StreamError(f"not a stream: its magic is {magic!r}, expected {MAGIC!r}")
    if version != VERSION:
        raise StreamError(f"stream of version {version}, this program reads version {VERSION}")
    return StreamHeader(*fields)


def values_of(header: StreamHeader, words: np.ndarray) -> np.ndarray:
    """Give a stream's elements, float32, (header.elements,); raise :class:`StreamError` where masks are damaged."""
    if header.encoding == Encoding.DENSE:
        return words.view(np.float32)
    return decode(words, header.elements, header.encoding == Encoding.BF16, header.beat_words)


def _check_counts(header: StreamHeader, words: np.ndarray) -> None:
    """Compare the header's counts with the masks."""
    if header.encoding == Encoding.DENSE:
        if not header.elements == header.kept == words.size:
            raise StreamError(f"{header}: {words.size} words are no {header.elements} elements, {header.kept} kept")
        return
    if header.elements > 32 * words.size:  # each block of 32 has a mask: no array of a forged size is allocated
        raise StreamError(f"{header}: {words.size} words cannot hold {header.elements} elements")
    try:
        values = values_of(header, words)
    except StreamError as error:
        raise StreamError(f"{header}: {error}") from error
    kept = int(kept_by_block(values).sum())
    if kept != header.kept:
        raise StreamError(f"{header}: its masks keep {kept} elements, its header says {header.kept}")
