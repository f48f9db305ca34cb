"""cocotb bench of a card's shell: the driver reaches the machine through it, and nothing can hang it."""

import os

import cocotb
import numpy as np
import pytest
from cocotb.task import bridge
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiResp

from etalstm.device import TrainingShape
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import BadOpcodeError
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.shape import NetworkShape
from etalstm_boards.ports import PORT_BYTES
from etalstm_boards.shell import hbm_name
from etalstm_hw import contract
from etalstm_hw.contract import MAGIC, BoardRegister, BoardStatus, Memory, Opcode, Register, Status, encode
from etalstm_hw.contract.image import image_of
from tests.boards.card import CardTransport
from tests.boards.machines import MACHINE, MACHINES
from tests.training import assert_same_training

CONFIG, PORTS = MACHINES[os.environ[MACHINE]]
SHAPE = TrainingShape(NetworkShape(3, 5), batch=2, steps=2)
SEED = 6
STRIDE = 8 << 30 >> 2  # a window for each of the four channels: all of the memory
PROGRAM = STRIDE - (1 << 20)
SOURCE, TARGET, VECTORS = 0x7FFF000, 0x2345000, 40  # bytes in a window; a vector is a beat
READY = BoardStatus.LOCKED | BoardStatus.CALIBRATED | BoardStatus.UP


def copying(*last):
    """A program: every channel copies vectors of its window to another place of it."""
    beat = CONFIG.beat_bytes
    what = {"memory": Memory.SCRATCH, "outer": 1, "inner": VECTORS, "inner_stride": 1}
    return [
        encode(Opcode.LOAD, address=SOURCE // beat, **what),
        encode(Opcode.STORE, address=TARGET // beat, wait_load=1, **what),
        *last,
        encode(Opcode.HALT),
    ]


def prepare(accelerator, words):
    """Put a program into memory and the windows over all of it."""
    accelerator.set_windows(0, STRIDE)
    return accelerator.load(image_of(words), PROGRAM)


def assert_copies(transport, accelerator, seed):
    """Every channel copies what the host wrote; the bytes are where they belong, in the memory itself."""
    generator = np.random.default_rng(seed)
    data = generator.integers(0, 256, (CONFIG.channels, VECTORS * CONFIG.beat_bytes), np.uint8)
    for channel, words in enumerate(data):
        transport.write_memory(channel * STRIDE + SOURCE, words)
    accelerator.run(prepare(accelerator, copying()))
    for channel, words in enumerate(data):
        place = channel * STRIDE + TARGET
        np.testing.assert_array_equal(transport.memory.bytes[place : place + words.size], words, f"channel {channel}")
        np.testing.assert_array_equal(transport.read_memory(place, words.size), words, f"channel {channel}")


def is_what(found, expected, port):
    """Whether a port has read what its user reads; a shared port reads what the other user reads, too."""
    return found >= expected if port in PORTS.shared else found == expected


def come_up(transport):
    """Wait until the machine has been reset: it is up and has run no program since."""
    for _ in range(1000):
        if transport.read_register(BoardRegister.STATUS) == READY and not transport.read_register(Register.STATUS):
            return
    raise AssertionError("the machine does not come up again")


async def on_card(dut, work, **options):
    """Do blocking work with a card's driver while the simulation runs."""
    cocotb.log.info("seed %d", SEED)
    transport = await CardTransport.open(dut, PORTS, seed=SEED, **options)
    await bridge(lambda: work(transport, Accelerator(transport, CONFIG)))()
    return transport


@cocotb.test(timeout_time=5, timeout_unit="ms")
@cocotb.parametrize(stall=[0.5])
async def trains_with_the_bits_of_golden(dut, stall):
    """Through the host's DMA, the register bus, the clock crossings and the memory's ports."""

    def work(transport, accelerator):
        assert_same_training(HardwareDevice("card", "small", accelerator), SHAPE, 1, SEED)

    transport = await on_card(dut, work, stall=stall)
    assert transport.interrupts[0] > 0 and transport.interrupts[1] == 0, transport.interrupts
    for port in PORTS.channels:  # a channel's weights and results are behind its port
        read = {address // PORT_BYTES for address in transport.memory.reads[hbm_name(port)]}
        assert is_what(read, {port}, port), f"port {port} read behind ports {read}"


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def every_port_reads_its_own_windows_of_all_the_memory(dut, stall):
    """Windows of 2 GiB: no address bit is lost, and no two ports are exchanged."""
    transport = await on_card(dut, lambda card, accelerator: assert_copies(card, accelerator, SEED), stall=stall)
    for number, port in enumerate(PORTS.channels):
        seen = {address // STRIDE for address in transport.memory.reads[hbm_name(port)]}
        expected = {number * CONFIG.channels_per_port + n for n in range(CONFIG.channels_per_port)}
        assert is_what(seen, expected, port), f"port {port} read windows {seen}, expected {expected}"
    fetched = {address // 4096 for address in transport.memory.reads[hbm_name(PORTS.sequencer)]}
    assert is_what(fetched, {PROGRAM // 4096}, PORTS.sequencer)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def the_host_reads_what_it_writes(dut, stall):
    """Any length, any place in a page, several pages, at both ends of the memory."""

    def work(transport, _):
        generator = np.random.default_rng(SEED)
        for address, size in ((0, 4), (60, 8), (4, 4096), (4096 - 36, 9000), ((8 << 30) - 4100, 4100), (1 << 32, 512)):
            data = generator.integers(0, 256, size, np.uint8)
            transport.memory.bytes[max(0, address - 64) : address + size + 64] = 0xA5
            transport.write_memory(address, data)
            np.testing.assert_array_equal(transport.memory.bytes[address : address + size], data, f"{address:#x}")
            around = [*transport.memory.bytes[max(0, address - 64) : address]]
            around += [*transport.memory.bytes[address + size : address + size + 64]]
            assert set(around) <= {0xA5}, f"bytes beside {address:#x} were written"
            np.testing.assert_array_equal(transport.read_memory(address, size), data, f"{address:#x}")

    await on_card(dut, work, stall=stall)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def interrupts_tell_of_every_end_and_of_failures(dut):
    """One request for each program, also for short ones; the second interrupt only for those that fail."""

    def work(transport, accelerator):
        for number in range(3):
            seen = list(transport.interrupts)
            accelerator.start(prepare(accelerator, [encode(Opcode.HALT)]))
            assert transport.interrupts[0] > seen[0] or transport.wait(5.0), (
                f"program {number} ended without an interrupt"
            )
        assert transport.interrupts == [3, 0]
        with pytest.raises(BadOpcodeError):
            accelerator.run(prepare(accelerator, copying(15)))
        assert transport.wait_for(0, 4) and transport.wait_for(1, 1), transport.interrupts

    await on_card(dut, work)
    assert dut.error.value == 1 and dut.running.value == 0 and dut.ready.value == 1


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def registers_answer_before_the_machine_is_up(dut):
    """Until the memory is calibrated: its own registers tell why, the machine's read 0, writes do nothing."""
    transport = await CardTransport.open(dut, PORTS, calibrated=False)
    assert await transport.read(BoardRegister.STATUS) == BoardStatus.LOCKED
    assert await transport.read(Register.MAGIC) == 0
    await transport.write(Register.WATCHDOG, 7)
    assert dut.ready.value == 0
    dut.temperature.value = 45 | 51 << 8
    dut.bit_errors.value = contract.BIT_ERRORS_KNOWN | 3
    await transport.calibrate()
    assert await transport.read(BoardRegister.STATUS) == READY
    assert await transport.read(BoardRegister.TEMPERATURE) == 45 | 51 << 8
    assert await transport.read(BoardRegister.BIT_ERRORS) == contract.BIT_ERRORS_KNOWN | 3
    assert await transport.read(Register.MAGIC) == MAGIC
    assert await transport.read(Register.WATCHDOG) == 0
    assert await transport.read(contract.REGISTER_SPACE_BYTES) == 0
    assert dut.ready.value == 1


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.5])
async def a_reset_under_load_leaves_memory_and_machine_usable(dut, stall):
    """The host resets the machine in the middle of copies, at different moments; the next program runs as ever."""

    def work(transport, accelerator):
        for moment in range(4):
            accelerator.start(prepare(accelerator, copying()))
            for _ in range(moment):
                transport.read_register(Register.STATUS)
            transport.write_register(BoardRegister.CONTROL, contract.BOARD_RESET)
            come_up(transport)
            assert_copies(transport, accelerator, moment)

    await on_card(dut, work, stall=stall)


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.5])
async def a_reset_of_the_machine_leaves_transfers_of_the_host_alone(dut, stall):
    """The host writes and reads in a channel's window while the machine copies and is reset: nothing is lost."""
    transport = await CardTransport.open(dut, PORTS, stall=stall, seed=SEED)
    accelerator = await bridge(Accelerator)(transport, CONFIG)
    generator = np.random.default_rng(SEED)
    for cycles in (20, 60, 140):
        stored, written = (generator.integers(0, 256, 8192, np.uint8) for _ in range(2))
        transport.memory.bytes[: stored.size] = stored
        await bridge(lambda: accelerator.start(prepare(accelerator, copying())))()
        writing = cocotb.start_soon(transport.dma.write(1 << 20, written.tobytes()))
        reading = cocotb.start_soon(transport.dma.read(0, stored.size))
        await ClockCycles(dut.pcie_clk, cycles)
        await transport.write(BoardRegister.CONTROL, contract.BOARD_RESET)
        assert (await writing).resp == AxiResp.OKAY
        assert (await reading).data == stored.tobytes()
        np.testing.assert_array_equal(transport.memory.bytes[1 << 20 : (1 << 20) + written.size], written)
        await bridge(lambda: come_up(transport))()
        await bridge(lambda seed=cycles: assert_copies(transport, accelerator, seed))()


@cocotb.test(timeout_time=2, timeout_unit="ms")
async def a_link_that_goes_down_leaves_memory_and_machine_usable(dut):
    """PCIe is reset in the middle of DMA and of a program, as when the host starts anew."""
    transport = await CardTransport.open(dut, PORTS, stall=0.5, seed=SEED)
    accelerator = await bridge(Accelerator)(transport, CONFIG)
    for cycles in (40, 90, 200):
        await bridge(lambda: accelerator.start(prepare(accelerator, copying())))()
        cocotb.start_soon(transport.dma.write(0x1000, bytes(8192)))  # never answered
        await ClockCycles(dut.pcie_clk, cycles)
        dut.pcie_rst.value = 1
        await ClockCycles(dut.pcie_clk, 400)
        dut.pcie_rst.value = 0
        await ClockCycles(dut.pcie_clk, 20)
        await transport.calibrate()
        assert await transport.read(Register.STATUS) == Status.IDLE
        await bridge(lambda seed=cycles: assert_copies(transport, accelerator, seed))()


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def memory_that_is_too_hot_stops_the_machine_for_good(dut):
    """A program runs; afterwards registers answer, the error shows, and only the card's button helps."""
    transport = await CardTransport.open(dut, PORTS, seed=SEED)
    accelerator = await bridge(Accelerator)(transport, CONFIG)
    await bridge(lambda: accelerator.start(prepare(accelerator, copying())))()
    dut.trip.value = 1
    await ClockCycles(dut.board_clk, 20)
    dut.trip.value = 0
    await ClockCycles(dut.board_clk, 200)
    assert (
        await transport.read(BoardRegister.STATUS) == BoardStatus.LOCKED | BoardStatus.CALIBRATED | BoardStatus.TRIPPED
    )
    assert await transport.read(Register.STATUS) == 0
    assert dut.error.value == 1 and transport.interrupts[1] == 1
    dut.board_rst.value = 1
    await ClockCycles(dut.board_clk, 4)
    dut.board_rst.value = 0
    await transport.calibrate()
    await bridge(lambda: assert_copies(transport, accelerator, SEED))()
    assert dut.error.value == 0
