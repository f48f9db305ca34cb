"""Streams on the host are whole and of the right network, or refused."""

import dataclasses

import numpy as np
import pytest

from etalstm.errors import StreamError
from etalstm.formats.codec import encode
from etalstm.formats.sealed_stream import (
    DENSE_KIND,
    HEADER_BYTES,
    Encoding,
    StreamHeader,
    network_id,
    read_header,
    seal,
    unseal,
    values_of,
)
from etalstm.network.shape import NetworkShape

NETWORK = network_id(NetworkShape(3, 8, 2), 4, 5, 2)
VALUES = np.where(np.arange(100) % 3, np.arange(100), 0).astype(np.float32)
WORDS = encode(VALUES, beat_words=8)
HEADER = StreamHeader(NETWORK, 1, 4, 5, 1, 0, 2, Encoding.FLOAT32, 8, 100, 66, WORDS.size)


def changed(**changes):
    return dataclasses.replace(HEADER, **changes)


def test_what_was_sealed_comes_out():
    header, found = unseal(seal(HEADER, WORDS), NETWORK)
    assert header == HEADER == read_header(seal(HEADER, WORDS)) and np.array_equal(found, WORDS)
    assert np.array_equal(values_of(header, found), VALUES)
    words = encode(VALUES, 5.0, bf16=True)
    kept = changed(encoding=Encoding.BF16, beat_words=1, kept=int((VALUES >= 5).sum()), words=words.size)
    assert np.array_equal(values_of(*unseal(seal(kept, words), NETWORK)), np.where(VALUES >= 5, VALUES, 0))
    dense = changed(kind=DENSE_KIND, encoding=Encoding.DENSE, kept=100, words=100)
    assert np.array_equal(values_of(*unseal(seal(dense, VALUES.view(np.uint32)), NETWORK)), VALUES)


def test_networks_that_differ_in_any_size_have_other_numbers():
    sizes = [3, 8, 2, 4, 5, 2]
    others = [[size + (n == changed) for n, size in enumerate(sizes)] for changed in range(7)]
    assert len({network_id(NetworkShape(*these[:3]), *these[3:]) for these in others}) == 7


@pytest.mark.parametrize("position", range(0, HEADER_BYTES + 4 * WORDS.size, 3))
def test_every_damaged_byte_is_refused(position):
    data = bytearray(seal(HEADER, WORDS))
    data[position] ^= 0x11
    with pytest.raises(StreamError):
        unseal(bytes(data), NETWORK)


@pytest.mark.parametrize("size", [0, 3, HEADER_BYTES - 1, HEADER_BYTES, HEADER_BYTES + 4, HEADER_BYTES + 4 * 69 + 3])
def test_truncated_streams_are_refused(size):
    with pytest.raises(StreamError, match="bytes, got"):
        unseal(seal(HEADER, WORDS)[:size], NETWORK)


def test_something_else_and_another_version_are_refused():
    data = seal(HEADER, WORDS)
    with pytest.raises(StreamError, match="its magic is b'ELSE'"):
        unseal(b"ELSE" + data[4:], NETWORK)
    with pytest.raises(StreamError, match="version 3, this program reads version 2"):
        unseal(data[:4] + b"\3" + data[5:], NETWORK)
    with pytest.raises(StreamError, match="CRC"):
        unseal(data[:-1] + b"\1", NETWORK)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (changed(network=7), "P_r of layer 1, step 4 .channel 1, batch tile 0, span 2.: of another network: 0x0"),
        (changed(kept=65), "masks keep 66 elements, its header says 65"),
        (changed(elements=97), "block 3 of 4: its mask has bits beyond"),
        (changed(elements=193), "block 6 of 7: the stream ends inside"),
        (changed(elements=2**31), "72 words cannot hold 2147483648 elements"),
        (changed(kind=7), "kind 7 of layer 1, .* out of range"),
        (changed(encoding=3), "out of range"),
        (changed(encoding=Encoding.DENSE), "72 words are no 100 elements, 66 kept"),
        (changed(beat_words=0), "out of range"),
        (changed(encoding=Encoding.BF16), "block"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_headers_that_disagree_with_the_words_are_refused(header, message):
    with pytest.raises(StreamError, match=message):
        unseal(seal(header, WORDS), NETWORK)
