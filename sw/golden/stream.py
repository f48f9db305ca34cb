"""Compressed streams outside the machine: a header that says whose they are, the words, and a checksum.

A stream of one kind of local gradient of one cell, spilled to the host or encoded by it. All is little-endian:

====== ======================= ===============================================================
byte   field                   meaning
====== ======================= ===============================================================
0      magic                   ``ESTR``
4      version                 1
8      network                 :func:`network_id` of the network and sizes it belongs to
12     layer, step, kind       which cell, and 0 to 5 for P_i, P_f, P_g, P_o, P_s, P_r
24     bf16                    1 if kept words are bfloat16
28     beat_words              words that a beat has where the stream was written
32     elements, kept, words   counts; words are those that follow the header
44     crc                     CRC-32 of everything but itself
====== ======================= ===============================================================
"""

import struct
import zlib
from dataclasses import astuple, dataclass

import numpy as np

from etalstm.codec import decode, kept_by_block
from etalstm.errors import StreamError
from etalstm.network import NetworkShape

MAGIC = b"ESTR"
VERSION = 1
KINDS = 6
_FIELDS = struct.Struct("<4sI10I")
_CRC = struct.Struct("<I")
HEADER_BYTES = _FIELDS.size + _CRC.size


@dataclass(frozen=True)
class StreamHeader:
    """What a stream is; `elements`, `kept` and `words` are counts."""

    network: int
    layer: int
    step: int
    kind: int
    bf16: bool
    beat_words: int
    elements: int
    kept: int
    words: int

    def __str__(self):
        return f"stream of layer {self.layer}, step {self.step}, kind {self.kind}"


def network_id(shape: NetworkShape, batch: int, steps: int) -> int:
    """Give a number that tells streams of one network and its sizes from another's."""
    sizes = (shape.input_size, shape.hidden_size, shape.layers, batch, steps)
    return zlib.crc32(struct.pack("<5Q", *sizes))


def seal(header: StreamHeader, words: np.ndarray) -> bytes:
    """Put header, words and checksum together.

    Parameters
    ----------
    header : StreamHeader
    words : array, uint32, (header.words,)
    """
    fields = _FIELDS.pack(MAGIC, VERSION, *map(int, astuple(header)), 0)
    body = np.ascontiguousarray(words, "<u4").tobytes()
    return fields + _CRC.pack(zlib.crc32(body, zlib.crc32(fields))) + body


def unseal(data: bytes, network: int) -> tuple[StreamHeader, np.ndarray]:
    """Check a stream and take it apart.

    Parameters
    ----------
    data : bytes
        From :func:`seal`.
    network : int
        The :func:`network_id` it must have.

    Returns
    -------
    header : StreamHeader
    values : array, float32, (header.elements,)

    Raises
    ------
    StreamError
        Naming what is wrong: length, magic, version, checksum, network, a count, or a block.
    """
    if len(data) < HEADER_BYTES:
        raise StreamError(f"a stream has a header of {HEADER_BYTES} bytes, got {len(data)}")
    magic, version, *fields, reserved = _FIELDS.unpack_from(data)
    if magic != MAGIC:
        raise StreamError(f"not a stream: its magic is {magic!r}, expected {MAGIC!r}")
    if version != VERSION:
        raise StreamError(f"stream of version {version}, this program reads version {VERSION}")
    header = StreamHeader(*fields)
    expected = HEADER_BYTES + 4 * header.words
    if len(data) != expected:
        raise StreamError(f"{header}: {header.words} words make {expected} bytes, got {len(data)}")
    crc = _CRC.unpack_from(data, _FIELDS.size)[0]
    found = zlib.crc32(data[HEADER_BYTES:], zlib.crc32(data[: _FIELDS.size]))
    if crc != found:
        raise StreamError(f"{header}: corrupted: its CRC is {crc:#010x}, its bytes have {found:#010x}")
    if header.network != network:
        raise StreamError(f"{header}: of another network: {header.network:#010x}, here it is {network:#010x}")
    if reserved or header.kind >= KINDS or header.bf16 > 1 or not header.beat_words:
        raise StreamError(f"{header}: a field of its header is out of range: {header!r}")
    return header, _values(header, np.frombuffer(data, "<u4", offset=HEADER_BYTES).astype(np.uint32))


def _values(header: StreamHeader, words: np.ndarray) -> np.ndarray:
    """Decode, and hold the counts to what the masks say."""
    if header.elements > 32 * words.size:  # a mask for every 32, so no array of a forged size is ever made
        raise StreamError(f"{header}: {words.size} words cannot hold {header.elements} elements")
    try:
        values = decode(words, header.elements, bool(header.bf16), header.beat_words)
    except StreamError as error:
        raise StreamError(f"{header}: {error}") from error
    kept = int(kept_by_block(values).sum())
    if kept != header.kept:
        raise StreamError(f"{header}: its masks keep {kept} elements, its header says {header.kept}")
    return values
