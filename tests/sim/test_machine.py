"""What a user can do wrong on the real machine ends in a named error, and the machine goes on."""

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.faults import (
    BadAddressError,
    BadFieldError,
    BadOpcodeError,
    BadStreamError,
    DamagedProgramError,
    DeviceTimeoutError,
    ReadError,
    StuckError,
    TruncatedError,
    WriteError,
)
from etalstm.errors import BusyError
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm_hw import contract
from etalstm_hw.contract import Memory, Opcode, Source, VectorOp
from etalstm_hw.contract.image import INSTRUCTION_BYTES, image_of
from etalstm_sim.simulation import Fault

SHAPE = TrainingShape(NetworkShape(3, 5), batch=2, steps=2)
WINDOW, PROGRAM = 1 << 20, 1 << 16  # bytes from the first window to the program, and of a window
HALT = contract.encode(Opcode.HALT)
LOAD = contract.encode(Opcode.LOAD, memory=1, outer=1, inner=4)
STORE = contract.encode(Opcode.STORE, memory=1, outer=1, inner=4)
CAST = dict.fromkeys(("blocks", "gates", "batch", "lanes", "last_lanes", "tiles", "tiles_per_channel", "start"), 1)
NO_STREAM = contract.encode(Opcode.CAST, compressed=1, address=200, **CAST)  # that memory is all zeros
ENDLESS = contract.encode(Opcode.MAC, tiles=1)  # its scalars never come


LONG_LOOP = contract.encode(Opcode.LOOP, turns=2, length=9)
OUTSIDE = contract.encode(Opcode.STORE, memory=1, address=255, outer=1, inner=4)


def loop(turns, *body):
    return (contract.encode(Opcode.LOOP, turns=turns, length=len(body)), *body)


@pytest.fixture(params=[0.0, 0.5], ids=["", "stalled"])
def device(request):
    with open_device("sim", "test", stall=request.param, seed=3) as device:
        device.accelerator.watchdog_cycles = 5000
        device.accelerator.set_windows(WINDOW, 4096)
        yield device


def run(device, *words, seconds=10):
    image = image_of(words)
    device.accelerator.run(device.accelerator.load(image, PROGRAM), timeout_seconds=seconds)


def assert_usable(device):
    """A training pass gives golden's bits."""
    x = np.random.default_rng(1).standard_normal(SHAPE.x_shape, np.float32)
    outputs = []
    for each in (device, open_device("golden")):
        session = each.create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 1))
        outputs.append(session.forward(x).y.view(np.uint32))
    np.testing.assert_array_equal(*outputs)


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ((LOAD, 15, HALT), BadOpcodeError, "BAD_OPCODE: .* SEQUENCER, instruction 1: opcode 15"),
        ((contract.encode(Opcode.LOAD, inner=1), HALT), BadFieldError, "SEQUENCER, instruction 0: LOAD"),
        ((LOAD, contract.encode(Opcode.LOAD, address=1 << 20, outer=1, inner=1, wait_load=1), HALT), BadAddressError,
         "LOAD, instruction 1: LOAD .*address=1048576"),
        ((OUTSIDE, HALT), BadAddressError, "STORE, instruction 0: STORE"),
        ((LOAD, NO_STREAM, HALT), BadStreamError, "CAST, instruction 1: CAST .*address=200"),
        ((contract.encode(Opcode.CAST, address=256, **CAST), HALT), BadAddressError, "CAST, instruction 0: CAST"),
        ((LOAD, *loop(0, LOAD), HALT), BadFieldError, "BAD_FIELD: .* SEQUENCER, instruction 1: LOOP"),
        ((LOAD, LONG_LOOP, HALT), BadFieldError, "SEQUENCER, instruction 1: LOOP"),
        ((OUTSIDE, *[ENDLESS] * 60, LONG_LOOP, HALT), BadAddressError, "STORE, instruction 0 of its own; .* LOOP"),
        ((LOAD, *loop(2, LOAD, HALT)), BadFieldError, "SEQUENCER, instruction 3: HALT"),
        ((*loop(9, LOAD, contract.encode(Opcode.STORE, register=3, address=252, memory=1, outer=1, inner=4),
                contract.encode(Opcode.ADVANCE, register0=3, amount0=1)), HALT), BadAddressError,
         r"STORE, instruction 2 \(turn 1\): STORE .*address=252"),
        ((LOAD, LOAD), TruncatedError, "TRUNCATED"),
        ((*loop(2, LOAD), LOAD), TruncatedError, "TRUNCATED"),
        ((LOAD, ENDLESS, HALT), StuckError, "STUCK"),
    ],
    ids=["opcode", "field", "load", "store", "stream", "cast", "turns", "body", "behind", "halt", "turn", "truncated",
         "looped", "stuck"],
)  # fmt: skip
def test_a_bad_program_is_named(device, words, error, message):
    with pytest.raises(error, match=message):
        run(device, *words)
    assert_usable(device)


def test_a_program_that_is_damaged_in_memory_is_named(device):
    program = device.accelerator.load(image_of([LOAD, OUTSIDE, HALT]), PROGRAM)
    device.accelerator.transport.simulation.memory[PROGRAM + INSTRUCTION_BYTES] ^= 0x80
    with pytest.raises(DamagedProgramError, match=r"BAD_CHECK: .* SEQUENCER, instruction 1: STORE .*load -8"):
        device.accelerator.run(program)
    assert_usable(device)


def test_a_bad_address_is_named_while_data_arrives(device):
    bad = contract.encode(Opcode.LOAD, address=1 << 20, outer=1, inner=1)
    with pytest.raises(BadAddressError, match=r"LOAD, instruction 1: LOAD .*address=1048576"):
        run(device, LOAD, bad, HALT)


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        (WINDOW, ReadError, "LOAD, instruction 0: LOAD"),
        (PROGRAM, ReadError, "SEQUENCER"),
        (WINDOW + 4096, WriteError, "STORE, instruction 1: STORE"),
    ],
)
@pytest.mark.parametrize("fault", [Fault.SUBORDINATE_ERROR, Fault.DECODE_ERROR])
def test_a_faulty_memory_is_named(device, place, error, message, fault):
    simulation = device.accelerator.transport.simulation
    simulation.inject(place, place + 16, fault)
    store = contract.encode(Opcode.STORE, memory=1, outer=1, inner=4, wait_load=1)
    load = contract.encode(Opcode.LOAD, memory=1, address=64, outer=1, inner=4) if error is WriteError else LOAD
    with pytest.raises(error, match=message):
        run(device, load, store, HALT)
    simulation.clear_faults()
    assert_usable(device)


@pytest.mark.parametrize("place", [WINDOW, PROGRAM])
def test_a_memory_that_never_answers_is_noticed(device, place):
    simulation = device.accelerator.transport.simulation
    simulation.inject(place, place + 16, Fault.NEVER)
    with pytest.raises(StuckError):
        run(device, LOAD, HALT)
    simulation.clear_faults()
    assert_usable(device)


def test_a_second_program_is_refused(device):
    device.accelerator.watchdog_cycles = 0
    program = device.accelerator.load(image_of([ENDLESS, HALT]), PROGRAM)
    device.accelerator.start(program)
    with pytest.raises(BusyError):
        device.accelerator.run(program)
    device.accelerator.abort()
    assert_usable(device)


def test_a_program_that_takes_too_long_is_stopped(device):
    device.accelerator.watchdog_cycles = 0
    program = device.accelerator.load(image_of([ENDLESS, HALT]), PROGRAM)
    with pytest.raises(DeviceTimeoutError):
        device.accelerator.run(program, timeout_seconds=0.2)
    assert_usable(device)


def test_a_program_has_any_number_of_instructions():
    """More of one engine than a target counts: each adds 1 to what an earlier one wrote, eight sums in turn."""
    turns, sums = (1 << contract.TARGET_BITS) // 8 + 100, 8
    place = {"outer": 1, "inner": 1}
    one = {"b_source": Source.PARAMETER, "b": contract.PARAMETER_ONE}
    zero = {f"{name}_source": Source.PARAMETER for name in "ab"} | dict.fromkeys("ab", contract.PARAMETER_ZERO)
    words = [
        contract.encode(Opcode.VECTOR, op=VectorOp.ADD, outer=1, inner=sums, d_inner=1, **zero),
        *loop(turns, *(contract.encode(Opcode.VECTOR, op=VectorOp.ADD, a=n, d=n, wait_vector=sums, **place, **one)
                       for n in range(sums))),
        contract.encode(Opcode.STORE, memory=Memory.SCRATCH, outer=1, inner=sums, inner_stride=1, wait_vector=1),
        HALT,
    ]  # fmt: skip
    with open_device("sim", "test") as device:
        device.accelerator.set_windows(WINDOW, 4096)
        run(device, *words, seconds=300)
        found = device.accelerator.transport.read_memory(WINDOW, 16 * sums).view(np.float32)
    np.testing.assert_array_equal(found, np.full(4 * sums, turns, np.float32))
