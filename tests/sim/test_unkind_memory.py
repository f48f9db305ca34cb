"""However unkind the memory is, the machine gives the same bits, moves the same beats and ends with the same status."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.device import TrainingShape
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import ProgramError
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm_hw.config import preset
from etalstm_hw.contract import Memory, Opcode, encode
from etalstm_hw.contract.image import image_of
from etalstm_sim.simulation import Fault
from etalstm_sim.transport import SimTransport

SHAPE = TrainingShape(NetworkShape(3, 9, 2), execution=Execution(storage=Storage("ms1", 0.2)), batch=3, steps=3)
MEMORY_BYTES = 1 << 20
MACHINES = {
    "test": preset("test"),
    # Four channels on a port, so reads of four ids. The simulator is that of tests/model/test_share.py.
    "shared": replace(preset("test"), channels=4, channels_per_port=4, outstanding_bursts=8),
}
UNKIND = {
    "a little": {"stall": 0.1, "seed": 1, "reorder": True},
    "half": {"stall": 0.5, "seed": 2, "reorder": True},
    "half, another seed": {"stall": 0.5, "seed": 3},
    "very": {"stall": 0.9, "seed": 4, "reorder": True},
    "reorders only": {"reorder": True, "seed": 5},
    "late": {"latency": 300},
    "one burst at a time": {"outstanding": 1, "stall": 0.3, "seed": 6},
    "narrow": {"bandwidth": 0.1},
    "everything": {"stall": 0.7, "latency": 90, "outstanding": 3, "bandwidth": 0.5, "reorder": True, "seed": 7},
}

WINDOW, PROGRAM, WINDOW_BYTES = 1 << 19, 1 << 18, 4096
HALT = encode(Opcode.HALT)
LOAD = encode(Opcode.LOAD, memory=Memory.SCRATCH, outer=1, inner=4)
STORE = encode(Opcode.STORE, memory=Memory.SCRATCH, address=64, outer=1, inner=4, wait_load=1)
OUTSIDE = encode(Opcode.STORE, memory=Memory.SCRATCH, address=255, outer=1, inner=4)
PROGRAMS = {
    "good": ((LOAD, STORE, HALT), None),
    "bad address": ((LOAD, OUTSIDE, HALT), None),
    "faulty read": ((LOAD, STORE, HALT), WINDOW),
    "faulty write": ((LOAD, STORE, HALT), WINDOW + 64 * 16),
}


def open_machine(config, **memory):
    return SimTransport(config, memory_bytes=MEMORY_BYTES, **memory)


def train(config, **memory):
    """One training iteration: the whole memory, and the beats of every port."""
    with open_machine(config, **memory) as transport:
        session = HardwareDevice("sim", "", Accelerator(transport, config)).create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 1))
        x = np.random.default_rng(2).standard_normal(SHAPE.x_shape, np.float32)
        session.backward(session.forward(x).y)
        session.update(0.1, 0.9, 1.0)
        simulation = transport.simulation
        beats = [simulation.beats(port, writes) for port in range(config.ports) for writes in (False, True)]
        return simulation.memory.copy(), beats


def status(config, name, **memory):
    """How a program ends: status, engine and instruction, or nothing."""
    words, fault = PROGRAMS[name]
    with open_machine(config, **memory) as transport:
        accelerator = Accelerator(transport, config)
        accelerator.set_windows(WINDOW, WINDOW_BYTES)
        if fault is not None:
            transport.simulation.inject(fault, fault + 16, Fault.SUBORDINATE_ERROR)
        program = accelerator.load(image_of(words), PROGRAM)
        try:
            accelerator.run(program, timeout_seconds=60)
        except ProgramError as error:
            return error.status, error.engine, error.instruction
        return None


@pytest.fixture(scope="module")
def expected():
    """What a kind memory gives, of every machine once."""
    found = {}

    def give(machine):
        if machine not in found:
            config = MACHINES[machine]
            found[machine] = train(config), {name: status(config, name) for name in PROGRAMS}
        return found[machine]

    return give


@pytest.mark.parametrize("memory", UNKIND.values(), ids=UNKIND)
@pytest.mark.parametrize("machine", MACHINES)
def test_gives_the_same_bits_and_statuses(expected, machine, memory):
    config, ((contents, beats), statuses) = MACHINES[machine], expected(machine)
    assert contents.any() and statuses["good"] is None
    assert None not in [statuses[name] for name in PROGRAMS if name != "good"]
    found, found_beats = train(config, **memory)
    np.testing.assert_array_equal(found, contents)
    assert found_beats == beats
    assert {name: status(config, name, **memory) for name in PROGRAMS} == statuses
