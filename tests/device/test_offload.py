"""A device goes back through a forward pass that the host ran, or says what is wrong with what it was sent."""

import dataclasses
import socket

import numpy as np
import pytest

from etalstm.device import OffloadDevice, TrainingShape, open_device
from etalstm.device.comparison import RandomRun, compare
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.device.offload import StreamTimeoutError, receive
from etalstm.errors import DeviceError, PlanError, StreamError
from etalstm.formats.sealed_stream import HEADER_BYTES, Encoding, StreamHeader, read_header, seal
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm_hw.config import preset
from tests.plan.machine import InterpretedAccelerator

NETWORK = NetworkShape(5, 19, 2)
SHAPE = TrainingShape(NETWORK, 3, 4, Execution(storage=Storage("ms1", 0.1)))
MIXED = ("dense", "ms1-bf16")
HEADER = StreamHeader(1, 0, 0, 0, 0, 0, 0, Encoding.FLOAT32, beat_words=4, elements=128, kept=5, words=12)


def interpreted():
    return HardwareDevice("interpreter", "test", InterpretedAccelerator(preset("test")))


def shape_of(policy, **options):
    return TrainingShape(
        NETWORK, 6, 5, Execution(storage=Storage(policy, 0.0 if policy == "dense" else 0.1)), masked=True, **options
    )


def compare_offloaded(device, shape, loss="per-step"):
    sessions = {"golden": open_device("golden").create(shape), "machine": OffloadDevice(device).create(shape)}
    found = compare(sessions, shape, RandomRun(2, loss, 5, skip_cells=0.4))
    assert not found.mismatched_words, found
    return sessions["machine"].memory()


@pytest.mark.parametrize(("policy", "stall"), [("dense", 0.5), ("ms1", 0.0), ("ms1-bf16", 0.5), (MIXED, 0.0)], ids=str)
def test_the_device_goes_back_with_the_bits_of_golden(policy, stall):
    with open_device("sim", "test", stall=stall, seed=4) as device:
        compare_offloaded(device, shape_of(policy))


def test_a_log_that_is_too_small_for_the_host_grows():
    device = interpreted()
    before = device.create(shape_of("ms1", log_share=0.1)).memory()["log"]
    assert compare_offloaded(device, shape_of("ms1", log_share=0.1))["log"] > before


def test_segments_take_turns_with_what_the_host_sends():
    shape = TrainingShape(NETWORK, 8, 8, Execution(storage=Storage("ms1", 0.1)), log_share=1.0)
    whole = interpreted().create(shape).plan.memory_bytes
    memory = compare_offloaded(interpreted(), dataclasses.replace(shape, memory_budget=whole - 8000))
    assert memory["segments"] > 2


def test_a_budget_that_never_holds_what_the_host_sends_is_told():
    """The first plan is too small, the second one has segments that are too small again, a third one does not fit."""
    shape = TrainingShape(NETWORK, 8, 24, Execution(storage=Storage("ms1", 1e-6)), log_share=0.1)
    whole = interpreted().create(dataclasses.replace(shape, log_share=1.0)).plan.memory_bytes
    with pytest.raises(PlanError, match=r"budget of .* bytes is too small"):
        compare_offloaded(interpreted(), dataclasses.replace(shape, memory_budget=whole * 99 // 100))


def streams_of_golden(session, x):
    """Have golden run forward with the session's weights; give the passes and the device's streams of it."""
    golden = open_device("golden").create(session.shape)
    golden.load(session.parameters())
    golden.forward(x)
    return golden._passes, list(session.encode([layer.intermediates for layer in golden._passes]))


@pytest.fixture(scope="module")
def offloaded():
    """A session, its input, h, and streams that fit them."""
    session = interpreted().create(SHAPE)
    session.load(initial_parameters(NETWORK, 2))
    x = np.random.default_rng(3).standard_normal(SHAPE.x_shape, np.float32)
    passes, streams = streams_of_golden(session, x)
    return session, x, np.stack([layer.h for layer in passes]), streams


@pytest.mark.parametrize("policy", ["ms1", "ms1-bf16"])
@pytest.mark.parametrize("name", ["test", "sim"])
def test_the_host_encodes_what_the_machine_writes(policy, name):
    shape = SHAPE.with_execution(storage=Storage(policy, 0.1))
    with open_device("sim", name) as device:
        session = device.create(shape)
        session.load(initial_parameters(NETWORK, 2))
        x = np.random.default_rng(3).standard_normal(shape.x_shape, np.float32)
        session.forward(x)
        written = session.spill.intermediates.read(session.plan.map.stored.segments[0])
        for number, (actual, expected) in enumerate(zip(written, streams_of_golden(session, x)[1], strict=True)):
            assert actual == expected, f"stream {number}, {read_header(expected)}"


def resealed(sealed, body=None, **changes):
    """The same stream with another header or other words, and a checksum that agrees."""
    body = np.frombuffer(sealed, np.uint32, offset=HEADER_BYTES) if body is None else body
    return seal(dataclasses.replace(read_header(sealed), **changes), body)


def wrong_count(sealed):
    return resealed(sealed, kept=read_header(sealed).kept + 1)


def wrong_mask(sealed):
    words = np.frombuffer(sealed, np.uint32, offset=HEADER_BYTES).copy()
    words[0] ^= 1
    return resealed(sealed, words)


def wrong_length(sealed):
    words = np.append(np.frombuffer(sealed, np.uint32, offset=HEADER_BYTES), np.zeros(4, np.uint32))
    return resealed(sealed, words, words=words.size)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"ELSE" + data[4:], "its magic is b'ELSE', expected b'ESTR'"),
        (lambda data: data[:4] + b"\t" + data[5:], "stream of version 9, this program reads version 2"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "corrupted: its CRC is"),
        (lambda data: resealed(data, network=7), "of another network: 0x00000007"),
        (wrong_count, "masks keep .* elements, its header says"),
        (wrong_mask, "block|masks keep"),
        (wrong_length, "the stream has .* words, expected"),
        (lambda data: resealed(data, elements=read_header(data).elements - 1), "expected was StreamHeader|bits beyond"),
        (lambda data: data[:-4], "words make .* bytes, got"),
    ],
    ids=["magic", "version", "CRC", "network", "count", "mask", "length", "elements", "cut"],
)
@pytest.mark.parametrize("place", [0, 17, -1])
def test_a_damaged_stream_is_refused(offloaded, damage, message, place):
    session, x, h, streams = offloaded
    damaged = [*streams]
    damaged[place] = damage(damaged[place])
    with pytest.raises(StreamError, match=message):
        session.load_intermediates(x, h, damaged)
    session.load_intermediates(x, h, streams)
    session.backward(np.ones(SHAPE.y_shape, np.float32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda streams: streams[:-1], "layer 1, step 3 .* is missing: no more streams came"),
        (lambda streams: [*streams, streams[0]], "193 streams came, expected were 192"),
        (lambda streams: streams[::-1], "came where .* was expected"),
    ],
    ids=["few", "many", "order"],
)
def test_streams_that_are_not_those_expected_are_refused(offloaded, change, message):
    session, x, h, streams = offloaded
    with pytest.raises(StreamError, match=message):
        session.load_intermediates(x, h, change(streams))


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize(
    ("sent", "place"),
    [
        (HEADER_BYTES - 9, "stream 0: {} its header, after 55 of 64 bytes"),
        (HEADER_BYTES, "P_i of layer 0, step 0 .* {} block 0 of 4"),
        (HEADER_BYTES + 4 * 5, "P_i of layer 0, step 0 .* {} block 1 of 4"),
    ],
    ids=["header", "first block", "second block"],
)
def test_a_host_that_stops_in_the_middle_is_named(sent, place, closes):
    words = np.array([0b1011, 1, 2, 3, 0b11, 4, 5, 0, 0, 0, 0, 0], np.uint32)
    sealed = seal(HEADER, words)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(sealed[:sent])
        if closes:
            ours.close()
        error, what = StreamTimeoutError, "nothing came for 0.05 seconds, in"
        if closes:
            error, what = StreamError, "the sender closed in"
        with pytest.raises(error, match=place.format(what)):
            list(receive(theirs, 0.05))


def test_a_session_that_waits_in_vain_can_go_on(offloaded):
    session, x, h, streams = offloaded
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(streams[0] + streams[1][:70])
        with pytest.raises(StreamTimeoutError, match=r"stream P_i of layer 0, step 0 \(channel 1,"):
            session.load_intermediates(x, h, receive(theirs, 0.05))
    session.forward(x)
    session.backward(np.ones(SHAPE.y_shape, np.float32))


def test_streams_that_arrive_whole_pass(offloaded):
    *_, streams = offloaded
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"".join(streams[:9]))
        ours.shutdown(socket.SHUT_WR)
        assert list(receive(theirs, 5)) == streams[:9]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s, x, h, p: s.load_intermediates(x[:, 1:], h, p), r"x must have shape \(4, 3, 5\)"),
        (lambda s, x, h, p: s.load_intermediates(x, h[:, 1:], p), r"h must have shape \(2, 5, 3, 19\)"),
        (lambda s, x, h, p: s.encode([np.zeros((6, 4, 3, 19), np.float32)]), "intermediates of 2 layers, got 1"),
        (lambda s, x, h, p: s.encode([np.zeros((6, 4, 3, 18), np.float32)] * 2), "of layer 0 must have shape"),
    ],
)  # fmt: skip
def test_what_does_not_suit_the_shape_is_refused(offloaded, call, message):
    with pytest.raises(ValueError, match=message):
        call(*offloaded)


def test_devices_that_take_no_intermediates_say_so():
    with pytest.raises(DeviceError, match="golden takes no intermediates from the host"):
        OffloadDevice(open_device("golden")).create(SHAPE)
    session = interpreted().create(SHAPE.with_execution(storage=Storage()))
    session.load(initial_parameters(NETWORK, 2))
    with pytest.raises(DeviceError, match="layer 0 keeps its gates"):
        session.load_intermediates(np.zeros(SHAPE.x_shape, np.float32), np.zeros((2, 5, 3, 19), np.float32), [])


def test_a_forward_pass_of_the_host_counts_no_cycles_of_the_device():
    generator = np.random.default_rng(0)
    with open_device("sim", "test") as device:
        session = OffloadDevice(device).create(SHAPE)
        session.load(initial_parameters(NETWORK, 0))
        x = generator.standard_normal(SHAPE.x_shape, np.float32)
        session.forward(x)
        assert session.counters()["cycles"] == 0
        session.backward(generator.standard_normal(SHAPE.y_shape, np.float32))
        assert session.counters()["cycles"] > 0
        session.forward(x)
        assert session.counters()["cycles"] == 0
