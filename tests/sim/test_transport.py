from itertools import count

import numpy as np
import pytest

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import DeviceTimeoutError, ReadError, WriteError
from etalstm.errors import BusyError, DeviceError
from etalstm_sim.simulation import Fault
from etalstm_sim.transport import SimTransport

SOURCE, TARGET = 0x10000, 0x40000
BURSTS = 16  # one per instruction, whose 32 bytes are a beat
PROGRAM = np.random.default_rng(3).integers(0, 256, (BURSTS * 16, 32), np.uint8)


@pytest.fixture(params=[0.0, 0.5])
def accelerator(request, echo_config, echo_library):
    with SimTransport(echo_config, library=echo_library, stall=request.param, seed=11) as transport:
        accelerator = Accelerator(transport, echo_config)
        accelerator.set_windows(TARGET, 4096)
        yield accelerator


def load(accelerator, bursts=BURSTS):
    accelerator.transport.write_memory(SOURCE, PROGRAM)
    return accelerator.load(PROGRAM[:bursts].tobytes(), SOURCE)


def assert_copied(accelerator):
    copied = accelerator.transport.read_memory(TARGET, PROGRAM.size)
    np.testing.assert_array_equal(copied.reshape(PROGRAM.shape), PROGRAM)


def test_runs_a_program(accelerator):
    accelerator.run(load(accelerator))
    assert_copied(accelerator)
    assert accelerator.counters()["cycles"] > BURSTS * 32


@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_a_slow_host_changes_no_cycle(monkeypatch, echo_config, echo_library, stall):
    """Were the machine asked while a program runs, the next one would begin at another state of the stalls."""

    def cycles():
        with SimTransport(echo_config, library=echo_library, stall=stall, seed=11) as transport:
            accelerator = Accelerator(transport, echo_config)
            accelerator.set_windows(TARGET, 4096)
            program = load(accelerator)
            for _ in range(3):
                accelerator.run(program)
            return transport.simulation.cycle, accelerator.counters()

    expected, hours = cycles(), count()
    monkeypatch.setattr("time.monotonic", lambda: 3600.0 * next(hours))
    monkeypatch.setattr("etalstm_sim.transport._FIRST_CYCLES", 10)
    assert cycles() == expected


@pytest.mark.parametrize(("side", "error"), [(SOURCE, ReadError), (TARGET, WriteError)])
def test_an_error_leaves_the_machine_usable(accelerator, side, error):
    accelerator.transport.simulation.inject(side + 512, side + 513, Fault.SUBORDINATE_ERROR)
    with pytest.raises(error):
        accelerator.run(load(accelerator))
    accelerator.transport.simulation.clear_faults()
    accelerator.run(load(accelerator))
    assert_copied(accelerator)


def test_a_memory_that_never_answers_ends_in_a_timeout(monkeypatch, accelerator):
    monkeypatch.setattr("etalstm.device.machine.accelerator._DRAIN_SECONDS", 0.1)
    accelerator.transport.simulation.inject(SOURCE, SOURCE + 1, Fault.NEVER)
    with pytest.raises(DeviceTimeoutError):
        accelerator.run(load(accelerator), timeout_seconds=0.1)
    accelerator.transport.simulation.clear_faults()
    accelerator.run(load(accelerator))
    assert_copied(accelerator)


def test_a_second_program_is_refused(accelerator):
    program = load(accelerator)
    accelerator.start(program)
    with pytest.raises(BusyError):
        accelerator.start(program)


def test_the_memory_is_bounded_by_the_address(echo_config, echo_library):
    with SimTransport(echo_config, library=echo_library) as transport:
        assert transport.memory_bytes == 1 << 24


def test_a_closed_transport_refuses(echo_config, echo_library):
    transport = SimTransport(echo_config, library=echo_library)
    transport.close()
    with pytest.raises(DeviceError, match="closed"):
        transport.read_register(0)
