"""cocotb bench of the whole machine: it trains with golden's bits, and goes on after every error."""

import math
import os
from dataclasses import replace

import cocotb
import numpy as np
import pytest
from cocotb.task import bridge

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import BadAddressError, BadFieldError, BadOpcodeError, ReadError, WriteError
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.errors import BusyError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm_hw.config import preset
from etalstm_hw.contract import ADDRESS_BITS, PARAMETER_ONE, PARAMETER_ZERO, Memory, Opcode, Source, VectorOp, encode
from etalstm_hw.contract.image import image_of
from etalstm_sim.benches.cocotb_transport import CocotbTransport
from tests.training import assert_same_training

PRESET = os.environ["PRESET"]
SHAPE = TrainingShape(NetworkShape(3, 5), batch=2, steps=2)
DEEPER = TrainingShape(NetworkShape(3, 5, layers=2), batch=2, steps=3, masked=True)
STREAMED = TrainingShape(NetworkShape(3, 24), execution=Execution(storage=Storage("ms1", 0.2)), batch=1, steps=2)
KEPT = TrainingShape(NetworkShape(3, 5), execution=Execution(storage=Storage("ms1", 0.3)), batch=2, steps=2)
SEED = 4
PROGRAM, WINDOW, WINDOW_BYTES = 1 << 20, 1 << 21, 4096
HALT = encode(Opcode.HALT)
LOAD = encode(Opcode.LOAD, memory=Memory.SCRATCH, outer=1, inner=4)
STORE = encode(Opcode.STORE, memory=Memory.SCRATCH, outer=1, inner=4, wait_load=1)
ENDLESS = encode(Opcode.MAC, tiles=1)  # its scalars never come


async def on_device(dut, stall, work):
    """Do blocking work on a device while the simulation runs."""
    cocotb.log.info("seed %d", SEED)
    config = preset(PRESET)
    transport = await CocotbTransport.open(dut, config, stall=stall, seed=SEED)

    def drive():
        accelerator = Accelerator(transport, config)
        accelerator.watchdog_cycles = 5000  # sooner than the test's timeout
        work(HardwareDevice("cocotb", PRESET, accelerator))

    await bridge(drive)()


def train(device, shape=SHAPE, iterations=1):
    assert_same_training(device, shape, iterations, SEED)


def load(device, *words):
    """Put a program into memory, its windows behind it."""
    device.accelerator.set_windows(WINDOW, WINDOW_BYTES)
    return device.accelerator.load(image_of(words), PROGRAM)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.0, 0.9])
async def trains_with_the_bits_of_golden(dut, stall):
    """Outputs, gradients, and the weights after an update; the second iteration starts from states of its own."""

    await on_device(dut, stall, train if stall else lambda device: train(device, DEEPER, iterations=2))


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.5])
async def replays_a_pass_whose_log_was_full(dut, stall):
    """A log far too small stops both passes; with more room they give golden's bits, as if there had always been."""

    def work(device):
        session = assert_same_training(device, replace(KEPT, log_share=0.05), 1, SEED)
        assert session.memory()["replays"] > 1, session.memory()

    await on_device(dut, stall, work)


@cocotb.test(timeout_time=4, timeout_unit="ms")
@cocotb.parametrize(stall=[0.5])
async def reads_no_weights_that_no_delta_needs(dut, stall):
    """Weights that do not stay in the lanes: golden's bits, of fewer bytes than planned."""

    def work(device):
        session = assert_same_training(device, STREAMED, 1, SEED)
        counters, config = session.counters(), preset(PRESET)
        planned = session.plan.traffic()["weights"]["read"]
        spared = counters["spared_bytes"]["weights"]
        assert spared == planned - counters["read_bytes"]["weights"]
        (width,) = {span.count for span in session.plan.map.layers[0].tiling.column_spans}
        row_bytes = width * config.lanes * 4 * config.channels
        assert counters["rows_skipped"] * row_bytes == spared > 0
        assert counters["rows_skipped"] < counters["rows_seen"]

    await on_device(dut, stall, work)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(stall=[0.5])
async def finds_streams_where_the_host_has_moved_them(dut, stall):
    """What was read out of a log and written to another place is decompressed there: the gradients are golden's."""
    generator = np.random.default_rng(SEED)
    x, dy = (generator.standard_normal(size, np.float32) for size in (KEPT.x_shape, KEPT.y_shape))

    def work(device):
        sessions = [open_device("golden").create(KEPT), device.create(replace(KEPT, log_share=1.0))]
        for session in sessions:
            session.load(initial_parameters(KEPT.network, SEED))
            session.forward(x)
        move_streams(sessions[1])
        expected, got = ([g.weights.view(np.uint32) for g in gradients_of(session, dy)] for session in sessions)
        np.testing.assert_array_equal(got, expected)

    await on_device(dut, stall, work)


def gradients_of(session, dy):
    session.backward(dy)
    return session.gradients()


def move_streams(session):
    """Read all streams, spoil the log, write them behind where they were."""
    (segment,) = session.plan.map.stored.segments
    streams, region = session.spill.intermediates, segment.region
    sealed = streams.read(segment)
    taken = math.ceil(session.memory()["log_used"] / session.memory()["log"] * region.vectors)
    assert taken <= region.vectors - taken, "there is no other half"
    session.windows.write_words(region, np.full(region.elements.shape, 0xDEADBEEF, np.uint32))
    log = replace(segment.log, array=region.section(taken, region.vectors - taken))
    streams.write(replace(segment, log=log), sealed)


def loop(turns, *body):
    return [encode(Opcode.LOOP, turns=turns, length=len(body)), *body]


def advance(*pairs):
    """Add amounts to registers; negative ones wrap."""
    fields = {}
    for n, (register, amount) in enumerate(pairs):
        fields |= {f"register{n}": register, f"amount{n}": amount % (1 << ADDRESS_BITS)}
    return encode(Opcode.ADVANCE, **fields)


def copy(source, target, from_register, to_register):
    """Copy a vector through the one place in the lanes that all copies use."""
    vector = {"memory": Memory.SCRATCH, "outer": 1, "inner": 1}
    return [
        encode(Opcode.LOAD, address=source, register=from_register, wait_store=1, **vector),
        encode(Opcode.STORE, address=target, register=to_register, wait_load=1, **vector),
    ]


FREE = 128  # vectors of a window that are copied; the others are written
TRANSPOSE = loop(6, *loop(5, *copy(0, FREE, 1, 2), advance((1, 1), (2, 6))), advance((2, 1 - 6 * 5)))
BACKWARDS = loop(30, *copy(29, FREE, 3, 4), advance((3, -1), (4, 1)))
LONG_BODY = loop(5, *(word for n in range(25) for word in copy(n, FREE + n, 5, 5)), advance((5, 25)))
LONGER_BODY = loop(2, *(word for n in range(60) for word in copy(n, FREE + n, 6, 6)), advance((6, 60)))
COUNTING = {"op": VectorOp.ADD, "b_source": Source.PARAMETER, "b": PARAMETER_ONE, "outer": 1, "inner": 1}
COUNTED = [
    encode(Opcode.LOAD, memory=Memory.SCRATCH, outer=1, inner=1),  # whatever is at 0, times 0
    encode(Opcode.VECTOR, **COUNTING | {"op": VectorOp.MULTIPLY, "b": PARAMETER_ZERO}, wait_load=1),
    *loop(7, *loop(5, *loop(3, *loop(2, encode(Opcode.VECTOR, **COUNTING, wait_vector=1))))),
    encode(Opcode.STORE, memory=Memory.SCRATCH, outer=1, inner=1, address=FREE, wait_vector=1),
]


@cocotb.test(timeout_time=2, timeout_unit="ms")
@cocotb.parametrize(stall=[0.5])
async def executes_loops(dut, stall):
    """Loops inside each other, bodies of one instruction and of more than are kept, addresses that go back and wrap."""
    generator = np.random.default_rng(SEED)
    source = generator.standard_normal((FREE, 4), np.float32).view(np.uint32)
    ones = np.full((1, 4), 7 * 5 * 3 * 2, np.float32).view(np.uint32)
    transposed = source[:30].reshape(6, 5, 4).swapaxes(0, 1).reshape(30, 4)

    def work(device):
        transport = device.accelerator.transport
        for words, expected in (
            (TRANSPOSE, transposed),
            (BACKWARDS, source[:30][::-1]),
            (LONG_BODY, source[:125]),
            (LONGER_BODY, source[:120]),
            (COUNTED, ones),
        ):
            program = load(device, *words, HALT)
            windows = [WINDOW + n * WINDOW_BYTES for n in range(preset(PRESET).channels)]
            for window in windows:
                transport.write_memory(window, source)
            device.accelerator.run(program)
            for window in windows:
                written = transport.read_memory(window + 16 * FREE, 16 * len(expected)).view(np.uint32)
                np.testing.assert_array_equal(written.reshape(-1, 4), expected)

    await on_device(dut, stall, work)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def names_what_is_wrong_with_a_program(dut):
    """An unknown opcode, an address outside the window: the error has the instruction; the machine trains on."""
    last = WINDOW_BYTES // 16 - 1
    outside = encode(Opcode.STORE, memory=Memory.SCRATCH, address=last, outer=1, inner=4)
    block = {"inner": 1, "tiles_per_channel": 1, "lanes": 4, "last_lanes": 4}
    no_block = encode(Opcode.LOAD_ROWS, **block, outer=17)
    # Sums that begin for two tiles, and MACs of one: the offsets are not those that the MAC reaches.
    two_tiles = encode(Opcode.CAST, blocks=1, gates=1, batch=1, lanes=1, last_lanes=1, tiles_per_channel=1, tiles=2)
    one_tile = encode(Opcode.MAC, tiles=1)
    no_map = encode(Opcode.LOAD_ROWS, **block, outer=16, map=last)

    def work(device):
        for words, error, message in (
            ((LOAD, 15, HALT), BadOpcodeError, "BAD_OPCODE: .* SEQUENCER, instruction 1: opcode 15"),
            ((LOAD, outside, HALT), BadAddressError, "STORE, instruction 1: STORE"),
            ((two_tiles, one_tile, HALT), BadFieldError, "BAD_FIELD: .* MAC, instruction 1: MAC"),
            ((LOAD, no_block, HALT), BadFieldError, "BAD_FIELD: .* SEQUENCER, instruction 1: LOAD_ROWS"),
            ((LOAD, no_map, HALT), BadAddressError, "BAD_ADDRESS: .* SEQUENCER, instruction 1: LOAD_ROWS"),
        ):
            with pytest.raises(error, match=message):
                device.accelerator.run(load(device, *words))
            train(device)

    await on_device(dut, 0.0, work)


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(opcode=[Opcode.LOAD, Opcode.STORE])
async def refuses_windows_that_wrap_around(dut, opcode):
    """The last channel's window ends beyond the addresses: nothing is accessed, at its wrapped address either."""

    def work(device):
        program = load(device, encode(opcode, memory=Memory.SCRATCH, outer=1, inner=4), HALT)
        transport = device.accelerator.transport
        memory_bytes, transport.memory_bytes = transport.memory_bytes, 1 << 64  # or the driver would refuse it itself
        device.accelerator.set_windows((1 << preset(PRESET).address_bits) - WINDOW_BYTES, WINDOW_BYTES)
        transport.memory_bytes = memory_bytes
        with pytest.raises(BadAddressError, match="instruction 0"):
            device.accelerator.run(program)
        train(device)

    await on_device(dut, 0.0, work)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def names_an_access_that_memory_refuses(dut):
    """Reads and writes of data, and of the program; the machine trains on."""

    def work(device):
        memory = device.accelerator.transport.memory
        from_elsewhere = encode(Opcode.LOAD, memory=Memory.SCRATCH, address=64, outer=1, inner=4)
        for place, words, error, message in (
            (WINDOW, (LOAD, STORE, HALT), ReadError, "LOAD, instruction 0: LOAD"),
            (WINDOW, (from_elsewhere, STORE, HALT), WriteError, "STORE, instruction 1: STORE"),
            (PROGRAM, (LOAD, STORE, HALT), ReadError, "SEQUENCER"),
        ):
            memory.inject(place, place + 16)
            with pytest.raises(error, match=message):
                device.accelerator.run(load(device, *words))
            memory.clear_faults()
            train(device)

    await on_device(dut, 0.0, work)


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def refuses_a_second_program(dut):
    """The one that runs is not disturbed, can be stopped, and the machine trains on."""

    def work(device):
        device.accelerator.watchdog_cycles = 0
        program = load(device, ENDLESS, HALT)
        device.accelerator.start(program)
        with pytest.raises(BusyError):
            device.accelerator.run(program)
        device.accelerator.abort()
        train(device)

    await on_device(dut, 0.0, work)
