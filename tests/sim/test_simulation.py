import numpy as np
import pytest

from etalstm.errors import DeviceError, ProtocolError
from etalstm_hw import contract
from etalstm_hw.contract import Counter, Register, Status
from etalstm_sim.simulation import Fault, Simulation, Stop

SOURCE, TARGET = 0x10000, 0x40000
BURST_BYTES = 16 * 32
BURSTS = 40


@pytest.fixture
def simulate(echo_library):
    opened = []

    def make(**options):
        opened.append(Simulation(echo_library, 1 << 20, **options))
        return opened[-1]

    yield make
    for simulation in opened:
        simulation.close()


def start(simulation, bursts=BURSTS, source=SOURCE, target=TARGET):
    for register, value in (
        (Register.PROGRAM_LOW, source),
        (Register.WINDOW_LOW, target),
        (Register.PROGRAM_LENGTH, bursts),
        (Register.CONTROL, contract.CONTROL_START),
    ):
        simulation.write(register, value)


def copy(simulation, **places):
    data = np.random.default_rng(7).integers(0, 256, BURSTS * BURST_BYTES, np.uint8)
    simulation.memory[SOURCE : SOURCE + data.size] = data
    start(simulation, **places)
    assert simulation.run(1_000_000) is Stop.INTERRUPT
    return data, simulation.read(Register.STATUS)


@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("latency", [1, 40])
def test_copies_under_stall(simulate, stall, latency):
    simulation = simulate(stall=stall, latency=latency)
    data, status = copy(simulation)
    assert status == Status.DONE
    np.testing.assert_array_equal(simulation.memory[TARGET : TARGET + data.size], data)
    assert simulation.beats(0, writes=True) == simulation.beats(1) == BURSTS * 16


def test_moves_a_beat_every_cycle(simulate):
    simulation = simulate(latency=1)
    copy(simulation)
    # per burst: address and 16 beats to read, state change, address and 16 beats to write, response
    assert simulation.read(Register.COUNTER + 8 * Counter.CYCLES) <= BURSTS * (16 + 16 + 5)


def test_latency_is_counted_in_cycles(simulate):
    def cycles(latency):
        simulation = simulate(latency=latency)
        copy(simulation)
        return simulation.read(Register.COUNTER)

    assert cycles(21) - cycles(1) == BURSTS * 2 * 20


def test_bandwidth_limits_beats(simulate):
    simulation = simulate(bandwidth=0.25)
    copy(simulation)
    cycles = simulation.read(Register.COUNTER)
    # each port is idle while the other works, and saves up for a few beats meanwhile
    assert BURSTS * 2 * (16 - 4) * 4 <= cycles <= BURSTS * (2 * 16 * 4 + 5)


def test_equal_seeds_give_equal_cycles(simulate):
    cycles = []
    for seed in (5, 5, 6):
        simulation = simulate(stall=0.5, seed=seed)
        copy(simulation)
        cycles.append(simulation.cycle)
    assert cycles[0] == cycles[1] != cycles[2]


@pytest.mark.parametrize("fault", [Fault.SUBORDINATE_ERROR, Fault.DECODE_ERROR])
@pytest.mark.parametrize("side,status", [(SOURCE, Status.READ_ERROR), (TARGET, Status.WRITE_ERROR)])
def test_faults_are_answered(simulate, side, status, fault):
    simulation = simulate()
    simulation.inject(side + 3 * BURST_BYTES, side + 3 * BURST_BYTES + 1, fault)
    data, got = copy(simulation)
    assert got == status
    assert simulation.read(Register.ERROR_INSTRUCTION) == 3
    assert not simulation.memory[TARGET + 3 * BURST_BYTES + 32 : TARGET + 4 * BURST_BYTES].any() or side == TARGET
    simulation.clear_faults()
    assert copy(simulation)[1] == Status.DONE
    np.testing.assert_array_equal(simulation.memory[TARGET : TARGET + data.size], data)


def test_addresses_beyond_the_memory_are_faulty(simulate):
    assert copy(simulate(), target=1 << 20)[1] == Status.WRITE_ERROR
    assert copy(simulate(), source=(1 << 24) - 4096)[1] == Status.READ_ERROR


def test_reset_frees_a_design_that_is_never_answered(simulate):
    simulation = simulate()
    simulation.inject(SOURCE, SOURCE + 1, Fault.NEVER)
    start(simulation)
    assert simulation.run(10_000) is Stop.LIMIT
    simulation.clear_faults()
    simulation.reset()
    assert copy(simulation)[1] == Status.DONE


def test_a_breach_of_the_protocol_is_named(simulate):
    simulation = simulate()
    message = r"in cycle \d+ at port1, channel AR, rule 'boundary': a burst across a 4 KiB boundary at address 0x10fe0"
    with pytest.raises(ProtocolError, match=message) as found:
        start(simulation, source=SOURCE + 4096 - 32)
        simulation.run(1000)
    error = found.value
    assert (error.port, error.channel, error.rule) == ("port1", "AR", "boundary")
    assert 0 < error.cycle < simulation.cycle
    with pytest.raises(ProtocolError, match=message):
        simulation.run(1)
    simulation.reset()
    assert copy(simulation)[1] == Status.DONE


def test_counts_refused_starts(simulate):
    simulation = simulate(stall=0.9)
    start(simulation)
    simulation.write(Register.CONTROL, contract.CONTROL_START)
    assert simulation.read(Register.REFUSED) == 1


def test_simulations_are_independent(simulate):
    first, second = simulate(), simulate()
    copy(first)
    assert second.read(Register.STATUS) == Status.IDLE
    assert not second.memory.any()


def test_a_closed_simulation_refuses(simulate):
    simulation = simulate()
    simulation.close()
    simulation.close()
    with pytest.raises(DeviceError, match="closed"):
        simulation.run(1)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"latency": 0}, "latency must be an integer from 1 to"),
        ({"latency": "a"}, "latency must be an integer from 1 to 1073741824, got 'a'"),
        ({"latency": 1.5}, "latency must be an integer from 1 to 1073741824, got 1.5"),
        ({"outstanding": True}, "outstanding must be an integer from 1 to 65536, got True"),
        ({"stall": "x"}, "stall must be a number from 0 to 0.99, got 'x'"),
        ({"stall": float("nan")}, "stall must be a number from 0 to 0.99, got nan"),
        ({"seed": None}, "seed must be an integer from 0 to 18446744073709551615, got None"),
        ({"bandwidth": "a"}, "bandwidth must be a number from 0.001 to 2.0, got 'a'"),
        ({"reorder": "no"}, "reorder must be True or False, got 'no'"),
        ({"checked": 1}, "checked must be True or False, got 1"),
        ({"stall": 1.0}, "stall must be a number from 0 to 0.99, got 1.0"),
        ({"bandwidth": 0.0}, "bandwidth must be"),
        ({"outstanding": 0}, "outstanding must be"),
    ],
)
def test_options_out_of_range_are_refused(simulate, options, message):
    with pytest.raises(ValueError, match=message):
        simulate(**options)
