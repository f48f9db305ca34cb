"""Receives sealed streams over a connection whose other end may be slow, or stop."""

import socket
from collections.abc import Iterator

import numpy as np

from etalstm.errors import StreamError
from etalstm.formats.codec import whole_blocks
from etalstm.formats.sealed_stream import HEADER_BYTES, Encoding, StreamHeader, read_header
from etalstm_hw.contract import STREAM_BLOCK

_CHUNK_BYTES = 1 << 16


class StreamTimeoutError(StreamError):
    """A host stopped sending in the middle."""


def receive(connection: socket.socket, seconds: float) -> Iterator[bytes]:
    """Give the sealed streams that arrive, each as soon as it is whole, until the sender closes its end after one.

    Only headers are looked at here; :func:`etalstm.formats.sealed_stream.unseal` checks the rest.

    Parameters
    ----------
    connection : socket
    seconds : float
        How long to wait for more bytes.

    Raises
    ------
    StreamTimeoutError
        If none came for so long; the message names the stream and the block.
    StreamError
        If something else comes, or the sender closes in the middle of a stream.
    """
    connection.settimeout(seconds)
    number = 0
    while True:
        data = bytearray()
        _fill(connection, data, HEADER_BYTES, seconds, f"stream {number}", None)
        if not data:
            return
        header = read_header(bytes(data))
        _fill(connection, data, HEADER_BYTES + 4 * header.words, seconds, str(header), header)
        yield bytes(data)
        number += 1


def _fill(connection, data: bytearray, size: int, seconds: float, name: str, header: StreamHeader | None) -> None:
    """Append bytes up to a size; a sender that closes before the first one leaves none."""
    while len(data) < size:
        try:
            came = connection.recv(min(_CHUNK_BYTES, size - len(data)))
        except TimeoutError as error:
            message = f"{name}: nothing came for {seconds:g} seconds, in {_place(data, header)}"
            raise StreamTimeoutError(message) from error
        if not came:
            if not data:
                return
            raise StreamError(f"{name}: the sender closed in {_place(data, header)}")
        data += came


def _place(data: bytearray, header: StreamHeader | None) -> str:
    """Name the block that the next byte belongs to."""
    if header is None:
        return f"its header, after {len(data)} of {HEADER_BYTES} bytes"
    words = np.frombuffer(bytes(data[HEADER_BYTES : len(data) // 4 * 4]), "<u4").astype(np.uint32)
    dense = header.encoding == Encoding.DENSE
    block = words.size // STREAM_BLOCK if dense else whole_blocks(words, header.encoding == Encoding.BF16)
    return f"block {block} of {-(-header.elements // STREAM_BLOCK)}"
