"""Transfers: every byte where it belongs, and an end in every case."""

import threading

import numpy as np
import pytest

from etalstm.device.cards.nodes import Nodes
from etalstm.device.cards.transfers import Chunk, TransferError, Transfers, TransferTimeoutError, aligned, fit_to_move
from tests.device.faulty import FaultyNodes

SIZE = 1 << 18
CHUNK = 4096
SECONDS = 0.2


class Ram(Nodes):
    """Nodes of a plain array; a node is not closed or locked here."""

    def __init__(self):
        self.bytes = np.random.default_rng(1).integers(0, 256, SIZE, np.uint8)

    def names(self):
        return [f"xdma0_{direction}_{n}" for direction in ("h2c", "c2h") for n in range(4)]

    def driver_loaded(self):
        return True

    def open(self, name):
        return self

    def read(self, address, buffer):
        buffer[:] = self.bytes[address : address + len(buffer)].data
        return len(buffer)

    def write(self, address, data):
        self.bytes[address : address + len(data)] = np.frombuffer(data, np.uint8)
        return len(data)


@pytest.fixture
def card():
    card = FaultyNodes(Ram())
    yield card
    card.release()


def transfers(card, direction="c2h", channels=1, **options):
    names = [f"xdma0_{direction}_{n}" for n in range(channels)]
    nodes = [(name, card.open(name)) for name in names]
    verb, call = ("reading", "read") if direction == "c2h" else ("writing", "write")
    options = {"timeout_seconds": SECONDS, "chunk_bytes": CHUNK} | options
    return Transfers(nodes, verb, lambda node, *where: getattr(node, call)(*where), **options)


@pytest.mark.parametrize("most", [None, 4093, 64])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(("address", "size"), [(0, SIZE), (4, 8), (4092, 4100), (8192, 4096), (100, 50000), (64, 0)])
def test_every_byte_arrives(card, address, size, channels, most):
    card.most = most
    read = np.zeros(size, np.uint8)
    transfers(card, channels=channels).run(address, read)
    np.testing.assert_array_equal(read, card.nodes.bytes[address : address + size])
    expected = card.nodes.bytes.copy()
    written = np.random.default_rng(2).integers(0, 256, size, np.uint8)
    expected[address : address + size] = written
    transfers(card, "h2c", channels).run(address, written)
    np.testing.assert_array_equal(card.nodes.bytes, expected)


def test_chunks_begin_at_multiples_of_their_size_and_use_every_channel(card):
    barrier = threading.Barrier(4, timeout=5)  # breaks unless four calls are under way at once
    before = card.before

    def together(name, address, size):
        barrier.wait()
        return before(name, address, size)

    card.before = together
    transfers(card, channels=4).run(4, np.zeros(4 * CHUNK - 8, np.uint8))
    assert sorted(card.calls, key=lambda call: call[1])[0][1:] == (4, CHUNK - 4)
    assert {address for _, address, _ in card.calls} == {4, CHUNK, 2 * CHUNK, 3 * CHUNK}
    assert len({name for name, _, _ in card.calls}) == 4


def test_an_error_names_node_address_and_bytes_and_the_next_transfer_works(card):
    moves = transfers(card)
    card.error["xdma0_c2h_0"] = 5
    with pytest.raises(TransferError, match=r"xdma0_c2h_0: reading 4092 bytes at address 0x4 failed: \[Errno 5\]"):
        moves.run(4, np.zeros(3 * CHUNK, np.uint8))
    card.error.clear()
    read = np.zeros(100, np.uint8)
    moves.run(0, read)
    np.testing.assert_array_equal(read, card.nodes.bytes[:100])


def test_the_drivers_own_time_out_is_named(card):
    card.error["xdma0_h2c_0"] = 512
    with pytest.raises(TransferError, match="writing 64 bytes at address 0x0 failed: the driver's own time-out"):
        transfers(card, "h2c").run(0, np.zeros(64, np.uint8))


def test_a_node_that_moves_nothing_is_an_error(card):
    card.most = 0
    with pytest.raises(TransferError, match="no byte was moved"):
        transfers(card).run(0, np.zeros(64, np.uint8))


def test_a_transfer_that_stops_ends_in_an_error_and_so_does_the_next(card):
    moves = transfers(card, channels=2)
    card.stuck |= {"xdma0_c2h_0", "xdma0_c2h_1"}
    message = (
        "reading 65536 bytes at address 0x2000: nothing moved for 0.2 seconds, "
        "still missing 4096 bytes at 0x2000, 4096 bytes at 0x3000$"
    )
    with pytest.raises(TransferTimeoutError, match=message):
        moves.run(0x2000, np.zeros(16 * CHUNK, np.uint8))
    with pytest.raises(TransferTimeoutError, match="open the card again"):
        moves.run(0, np.zeros(4, np.uint8))


def test_what_an_interrupted_transfer_completes_late_is_not_taken_for_the_next_ones(card):
    moves = transfers(card)
    late = Chunk(0, np.zeros(64, np.uint8))
    moves._done.put((late, TransferError("late")))
    read = np.zeros(64, np.uint8)
    moves.run(0, read)
    np.testing.assert_array_equal(read, card.nodes.bytes[:64])


def test_an_interrupted_transfer_leaves_nothing_behind(card, monkeypatch):
    moves = transfers(card)
    get, interrupts = moves._done.get, [KeyboardInterrupt]

    class Interrupted:
        put = moves._done.put

        @staticmethod
        def get(timeout):
            if interrupts:
                raise interrupts.pop()
            return get(timeout=timeout)

    monkeypatch.setattr(moves, "_done", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        moves.run(0, np.zeros(SIZE, np.uint8))
    begun = len(card.calls)
    read = np.zeros(8, np.uint8)
    moves.run(16, read)
    np.testing.assert_array_equal(read, card.nodes.bytes[16:24])
    assert card.calls[begun:] == [("xdma0_c2h_0", 16, 8)], "no chunk of the interrupted transfer was begun later"


@pytest.mark.parametrize("address", [0, 4, 60, 4092])
def test_buffers_agree_with_the_cards_address(address):
    assert (aligned(address, 100).ctypes.data - address) % 4096 == 0
    good = aligned(address, 100)
    assert fit_to_move(address, good) is good
    for bad in (aligned(address + 4, 100), np.frombuffer(bytes(100), np.uint8)):
        moved = fit_to_move(address, bad)
        assert (moved.ctypes.data - address) % 64 == 0 and moved.flags.writeable
        np.testing.assert_array_equal(moved, bad)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds must be above 0, got 0"),
        ({"timeout_seconds": float("nan")}, "timeout_seconds must be above 0, got nan"),
        ({"chunk_bytes": 100}, "chunk_bytes must be a multiple of 4096, got 100"),
        ({"chunk_bytes": 0}, "multiple of 4096, got 0"),
    ],
)
def test_bad_options_are_refused(card, option, message):
    with pytest.raises(ValueError, match=message):
        transfers(card, **option)
