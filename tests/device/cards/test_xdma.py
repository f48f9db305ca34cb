"""The driver of a card over the simulated one: what works, and how each fault is named."""

import errno
import os
import threading
import time

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.cards.transfers import TransferError, TransferTimeoutError
from etalstm.device.cards.xdma import CardError, LinkDownError, XdmaTransport
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import IncompatibleError, LostWordsError
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import DeviceError
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm_hw import contract
from etalstm_hw.config import preset
from etalstm_hw.contract import MAGIC, BoardRegister, BoardStatus, Opcode, Register, Status, encode
from etalstm_hw.contract.image import image_of
from etalstm_sim.nodes import SimulatedNodes
from etalstm_sim.simulation import Fault
from tests.device.faulty import FaultyNodes

CONFIG = preset("test")
SHAPE = TrainingShape(NetworkShape(3, 5), batch=2, steps=2)
ALL = {f"xdma0_{name}" for name in ("user", "events_0", "h2c_0", "h2c_1", "c2h_0", "c2h_1")}
ENDLESS = image_of([encode(Opcode.MAC, tiles=1), encode(Opcode.HALT)])  # scalars never come


@pytest.fixture
def card():
    card = FaultyNodes(SimulatedNodes(CONFIG))
    yield card
    card.release()
    card.nodes.machine.close()


def opened(card, number=0, **options):
    options = {"timeout_seconds": 0.3, "chunk_bytes": 4096} | options
    return XdmaTransport(CONFIG, number, nodes=card, memory_bytes=card.nodes.machine.memory_bytes, **options)


def forward(device):
    session = device.create(SHAPE)
    session.load(initial_parameters(SHAPE.network, 1))
    x = np.random.default_rng(1).standard_normal(SHAPE.x_shape, np.float32)
    return session.forward(x).y.view(np.uint32)


def assert_trains(transport):
    """A forward pass gives golden's bits."""
    device = HardwareDevice("xdma:0", "test", Accelerator(transport, CONFIG))
    np.testing.assert_array_equal(forward(device), forward(open_device("golden")))


@pytest.mark.parametrize("most", [None, 1000])
def test_trains_with_golden_bits_however_short_the_transfers_are(card, most):
    card.most = most
    with opened(card) as transport:
        assert_trains(transport)
    assert {name for name, _, _ in card.calls} > {"xdma0_h2c_0", "xdma0_c2h_0"}
    assert card.opened == []


def test_a_single_channel_has_two_chunks_under_way():
    card = FaultyNodes(SimulatedNodes(CONFIG, channels=1))
    barrier, before = threading.Barrier(2, timeout=5), card.before  # breaks unless two calls meet

    def together(*call):
        barrier.wait()
        return before(*call)

    with opened(card, timeout_seconds=10) as transport:
        card.before = together
        transport.write_memory(0, bytes(8192))
    assert sorted(card.calls) == [("xdma0_h2c_0", 0, 4096), ("xdma0_h2c_0", 4096, 4096)]
    card.nodes.machine.close()


def test_an_event_that_never_comes_only_costs_time(card, monkeypatch):
    monkeypatch.setattr("etalstm.device.transport.Transport.poll_seconds", 0.01)
    card.eventless = True
    with opened(card) as transport:
        device = HardwareDevice("xdma:0", "test", Accelerator(transport, CONFIG))
        polls = [0]
        read = transport.read_register

        def clocked(register):  # the simulated clock needs someone to look; a card's own does not
            polls[0] += 1
            card.nodes.machine.simulation.run(2000)
            return read(register)

        monkeypatch.setattr(transport, "read_register", clocked)
        np.testing.assert_array_equal(forward(device), forward(open_device("golden")))
    assert polls[0] > 1


def test_the_event_of_an_earlier_program_is_not_taken_for_this_ones(card):
    with opened(card) as transport:
        accelerator = Accelerator(transport, CONFIG)
        accelerator.start(accelerator.load(image_of([encode(Opcode.HALT)]), 0))
        card.nodes.machine.simulation.run(1000)  # it has ended, and nobody waited for its event
        assert_trains(transport)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": ALL, "module": False}, r"there is no card: the kernel module xdma is not loaded \(modprobe"),
        ({"hidden": ALL}, "the kernel module xdma is loaded and found none; load a bitstream and rescan"),
        ({"number": 7}, r"there is no card xdma:7; there are: xdma:0$"),
        ({"hidden": {"xdma0_events_0", "xdma0_user"}}, "xdma:0 lacks xdma0_user, xdma0_events_0"),
        ({"denied": {"xdma0_user"}}, "no permission to open xdma0_user"),
        ({"denied": {"xdma0_c2h_1"}}, "no permission to open xdma0_c2h_1"),
        ({"holder": 4321}, "xdma:0 is in use by process 4321"),
        ({"holder": 0}, "xdma:0 is in use by another process"),
    ],
)
def test_a_card_that_cannot_be_had_is_named(card, change, message):
    for name, value in change.items():
        setattr(card, name, value)
    with pytest.raises(CardError, match=message):
        opened(card, change.get("number", 0))
    assert card.opened == [], "every node that was opened is closed again"


def test_registers_that_cannot_be_mapped_are_named(card, monkeypatch):
    def refuse(_):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(card.nodes, "load", refuse)
    with pytest.raises(CardError, match="the registers of xdma:0 cannot be mapped: Invalid argument"):
        opened(card)
    assert card.opened == []


def test_two_cannot_have_one_card(card):
    with opened(card) as transport:
        with pytest.raises(CardError, match=f"xdma:0 is in use by process {os.getpid()}"):
            opened(card)
        assert transport.read_register(Register.MAGIC) == MAGIC
    opened(card).close()


@pytest.mark.parametrize(
    ("register", "value", "message"),
    [
        (Register.MAGIC, 0, "MAGIC is 0x00000000, expected 0x4554414c .*; it is no η-LSTM accelerator"),
        (Register.VERSION, 77, "VERSION is 0x0000004d, expected .*; it is contract version 77, 2 channels of 4 lanes"),
        (Register.PRESET, preset("sim").digest, "PRESET is 0x.*2 channels of 4 lanes, preset sim$"),
        (Register.PRESET, 1, "a preset that is not known here$"),
        (Register.SHAPE, 40 | 32 << 16, "it is contract version .*, 40 channels of 32 lanes"),
    ],
)
def test_another_bitstream_is_refused(card, register, value, message):
    card.registers[register] = value
    with opened(card) as transport, pytest.raises(IncompatibleError, match=message):
        Accelerator(transport, CONFIG)


def test_a_link_that_is_down_is_noticed_at_once_and_later(card):
    with opened(card) as transport:
        transport.write_register(Register.WATCHDOG, 0xFFFFFFFF)
        assert transport.read_register(Register.WATCHDOG) == 0xFFFFFFFF, "a register may be all ones"
        card.link_down = True
        with pytest.raises(LinkDownError, match="xdma:0 reads as all ones: the PCIe link is down"):
            transport.read_register(Register.STATUS)
    with pytest.raises(LinkDownError):
        opened(card)


def test_a_transfer_error_leaves_the_card_usable(card):
    with opened(card) as transport:
        card.error |= {"xdma0_h2c_0": 5, "xdma0_h2c_1": 5}
        with pytest.raises(TransferError, match=r"xdma0_h2c_\d: writing 64 bytes at address 0x40 failed"):
            transport.write_memory(64, bytes(64))
        card.error.clear()
        assert_trains(transport)


def test_a_card_that_stops_answering_in_a_transfer_is_named_and_can_be_left(card):
    transport = opened(card)
    card.stuck |= {"xdma0_c2h_0", "xdma0_c2h_1"}
    started = time.monotonic()
    with pytest.raises(TransferTimeoutError, match=r"reading 65536 bytes at address 0x1000: nothing moved for 0.3 sec"):
        transport.read_memory(0x1000, 65536)
    transport.close()
    assert time.monotonic() - started < 5
    card.stuck.clear()
    with opened(card) as again:
        assert_trains(again)


@pytest.mark.parametrize("fault", [None, Fault.NEVER], ids=["", "memory does not answer"])
def test_a_reset_stops_whatever_runs(card, fault):
    with opened(card) as transport:
        accelerator = Accelerator(transport, CONFIG)
        accelerator.watchdog_cycles = 0
        if fault:
            card.nodes.machine.simulation.inject(0, 4096, fault)
        accelerator.start(accelerator.load(ENDLESS, 0))
        card.nodes.machine.simulation.run(1000)
        transport.reset()
        card.nodes.machine.simulation.clear_faults()
        assert_trains(transport)


def test_a_reset_is_waited_for_while_the_board_still_lets_the_memory_finish(card, monkeypatch):
    """A board says that its machine is up until the memory has come to rest."""
    with opened(card) as transport:
        reads, reset = [], card.nodes.machine.reset
        load = card.nodes.load
        monkeypatch.setattr(card.nodes.machine, "reset", lambda: None)

        def late(register):
            reads.append(register)
            if len(reads) == 10:
                reset()
            return load(register)

        monkeypatch.setattr(card.nodes, "load", late)
        transport.reset()
        assert len(reads) >= 10
        monkeypatch.setattr("etalstm.device.cards.xdma._READY_SECONDS", 0.05)
        with pytest.raises(CardError, match="its board says 0xb: the machine was not reset"):
            transport.reset()


def test_a_program_that_an_earlier_process_left_is_stopped(card):
    with opened(card) as transport:
        accelerator = Accelerator(transport, CONFIG)
        accelerator.watchdog_cycles = 0
        accelerator.start(accelerator.load(ENDLESS, 0))
        card.nodes.machine.simulation.run(1000)
        assert transport.read_register(Register.STATUS) == Status.RUNNING
    with opened(card) as transport:
        assert transport.read_register(Register.STATUS) == Status.IDLE
        assert_trains(transport)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (0, "xdma:0 is not ready, its board says 0x0: the clocks do not run, the memory is not calibrated, the mach"),
        (BoardStatus.LOCKED, "says 0x1: the memory is not calibrated, the machine is in reset; if that bitstream"),
        (BoardStatus.LOCKED | BoardStatus.CALIBRATED | BoardStatus.TRIPPED, "says 0x7: the memory was too hot, the"),
    ],
)
def test_a_board_that_is_not_ready_says_why(card, monkeypatch, status, message):
    monkeypatch.setattr("etalstm.device.cards.xdma._READY_SECONDS", 0.05)
    card.registers[BoardRegister.STATUS] = status
    with pytest.raises(CardError, match=message):
        opened(card)
    assert card.opened == []


def test_a_board_that_stops_its_machine_while_a_program_runs_is_named(card, monkeypatch):
    monkeypatch.setattr("etalstm.device.cards.xdma._READY_SECONDS", 0.05)
    with opened(card) as transport:
        accelerator = Accelerator(transport, CONFIG)
        accelerator.watchdog_cycles = 0
        program = accelerator.load(ENDLESS, 0)

        def wait(_):  # the memory trips
            card.registers |= {Register.STATUS: 0, BoardRegister.STATUS: BoardStatus.LOCKED | BoardStatus.TRIPPED}
            return False

        monkeypatch.setattr(transport, "wait", wait)
        with pytest.raises(CardError, match="says 0x5: the memory is not calibrated, the memory was too hot"):
            accelerator.run(program)


def test_the_boards_condition_is_told(card):
    card.registers[BoardRegister.TEMPERATURE] = 41 | 52 << 8
    with opened(card) as transport:
        assert transport.condition() == "memory at 41 and 52 °C, 0 bit errors corrected, 0 words lost"
        card.registers[BoardRegister.BIT_ERRORS] = bit_errors(corrected=300, lost=2)
        assert transport.condition() == "memory at 41 and 52 °C, 300 bit errors corrected, 2 words lost"
        card.registers[BoardRegister.BIT_ERRORS] = 5
        assert transport.condition() == "memory at 41 and 52 °C, bit errors not known"


def bit_errors(corrected, lost):
    return contract.BIT_ERRORS_KNOWN | lost << contract.BIT_ERRORS_SHIFT | corrected


def test_words_that_the_memory_has_lost_end_a_program_with_an_error(card):
    halt = image_of([encode(Opcode.HALT)])
    card.registers[BoardRegister.BIT_ERRORS] = bit_errors(corrected=0, lost=3)  # before the card is opened
    with opened(card) as transport:
        accelerator = Accelerator(transport, CONFIG)
        program = accelerator.load(halt, 0)
        accelerator.run(program)
        card.registers[BoardRegister.BIT_ERRORS] = bit_errors(corrected=9, lost=3)
        accelerator.run(program)
        card.registers[BoardRegister.BIT_ERRORS] = bit_errors(corrected=9, lost=5)
        with pytest.raises(LostWordsError, match="found 2 words with more wrong bits than it can correct"):
            accelerator.run(program)
        accelerator.run(program)
        card.registers[BoardRegister.BIT_ERRORS] = bit_errors(corrected=0, lost=1)  # counted anew
        accelerator.run(program)
        card.registers[BoardRegister.BIT_ERRORS] = 0  # nobody knows
        accelerator.run(program)


@pytest.mark.parametrize(("address", "size"), [(0, 4), (60, 4), (60, 8), (128, 60), (4, 64), (64, 64), (100, 9000)])
def test_only_whole_beats_are_written(card, address, size):
    """The memory keeps check bits of whole words, so that bytes beside what is written are written, too."""
    draw = np.random.default_rng(0)
    before = draw.integers(0, 256, 1 << 14, np.uint8)
    written = draw.integers(0, 256, size, np.uint8)
    with opened(card) as transport:
        transport.write_memory(0, before)
        card.calls.clear()
        transport.write_memory(address, written)
        calls = [(first, count) for name, first, count in card.calls if "h2c" in name]
        assert calls and all(first % 64 == 0 and count % 64 == 0 for first, count in calls)
        before[address : address + size] = written
        np.testing.assert_array_equal(transport.read_memory(0, before.size), before)


def test_a_closed_card_refuses(card):
    transport = opened(card)
    transport.close()
    transport.close()
    for call in (lambda: transport.read_register(0), lambda: transport.read_memory(0, 4), lambda: transport.wait(1)):
        with pytest.raises(DeviceError, match="xdma:0 is closed"):
            call()


@pytest.mark.parametrize("options", [{"timeout_seconds": -1}, {"chunk_bytes": 5}])
def test_bad_options_are_refused_and_nothing_stays_open(card, options):
    with pytest.raises(ValueError, match="must be"):
        opened(card, **options)
    assert card.opened == []
