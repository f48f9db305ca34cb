import numpy as np
import pytest

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.faults import (
    AbortedError,
    BadAddressError,
    BadFieldError,
    BadOpcodeError,
    DamagedProgramError,
    DamagedRegisterError,
    DeviceTimeoutError,
    IncompatibleError,
    ReadError,
    StuckError,
    TruncatedError,
    WriteError,
)
from etalstm.device.transport import Transport
from etalstm.errors import BusyError, DeviceError
from etalstm.network.architecture import ARCHITECTURES, architecture
from etalstm_hw import contract
from etalstm_hw.config import preset
from etalstm_hw.contract import Counter, Engine, Opcode, Register, Status
from etalstm_hw.contract.image import image_of

CONFIG = preset("test")
SEQUENCER = len(Engine)
PROGRAM = image_of(
    [
        contract.encode(Opcode.LOAD, address=7, outer=1, inner=2),
        contract.encode(Opcode.MAC, tiles=3),
        contract.encode(Opcode.LOAD, address=9, outer=1, inner=4),
        15,
        contract.encode(Opcode.HALT),
    ]
)


class FakeMachine(Transport):
    """Registers without hardware: a program ends with `outcome` after `polls` waits, if ever."""

    memory_bytes = 1 << 16

    def __init__(self, config=CONFIG):
        self.memory = np.zeros(self.memory_bytes, np.uint8)
        self.identity = {
            Register.MAGIC: contract.MAGIC,
            Register.VERSION: contract.VERSION,
            Register.PRESET: config.digest,
            Register.SHAPE: config.channels | config.lanes << 16,
        }
        self.outcome, self.polls, self.resets = (Status.DONE, 0, 0), 1, 0
        self.answers_abort = True
        self.reset()
        self.resets = 0

    def reset(self):
        self.registers = {Register.STATUS: Status.IDLE, **self.identity}
        self.resets += 1

    def close(self):
        pass

    def read_register(self, register):
        return int(self.registers.get(register, 0))

    def write_register(self, register, value):
        running = self.registers[Register.STATUS] == Status.RUNNING
        if register != Register.CONTROL:
            assert not running, f"{Register(register).name} must be constant while a program runs"
            self.registers[register] = value
        elif value == contract.CONTROL_START and running:
            self.registers[Register.REFUSED] = self.read_register(Register.REFUSED) + 1
        elif value == contract.CONTROL_START:
            self.registers[Register.STATUS], self.left = Status.RUNNING, self.polls
        elif running and self.answers_abort:
            self.end(Status.ABORTED, 0, 0)

    def wait(self, seconds):
        self.left -= 1
        if self.left <= 0 and self.registers[Register.STATUS] == Status.RUNNING:
            self.end(*self.outcome)
        return self.left <= 0

    def end(self, status, engine, instruction):
        self.registers |= {
            Register.STATUS: status,
            Register.ERROR_ENGINE: engine,
            Register.ERROR_INSTRUCTION: instruction,
        }

    def _read_memory(self, address, size):
        return self.memory[address : address + size].copy()

    def _write_memory(self, address, data):
        self.memory[address : address + data.size] = data


@pytest.fixture
def machine():
    return FakeMachine()


@pytest.fixture
def accelerator(machine):
    accelerator = Accelerator(machine, CONFIG)
    accelerator.set_windows(0x4000, 0x2000, 0x1000)
    return accelerator


def test_runs_a_program(machine, accelerator):
    accelerator.set_parameter(3, 0.5)
    program = accelerator.load(PROGRAM, 0x1000)
    accelerator.run(program)
    assert machine.memory[0x1000 : 0x1000 + len(PROGRAM)].tobytes() == PROGRAM
    assert machine.registers[Register.PROGRAM_LOW] == 0x1000
    assert machine.registers[Register.PROGRAM_LENGTH] == 5
    assert machine.registers[Register.WINDOW_LOW] == 0x4000
    assert machine.registers[Register.WINDOW_STRIDE] == 2
    assert machine.registers[Register.WINDOW_SIZE] == 1
    assert machine.registers[Register.PARAMETER + 12] == 0x3F000000
    assert machine.registers[Register.WATCHDOG] == accelerator.watchdog_cycles


@pytest.mark.parametrize(
    ("register", "name"), [(Register.WINDOW_LOW, "WINDOW_LOW"), (Register.PARAMETER + 60, "PARAMETER 15")]
)
def test_a_register_that_changes_while_a_program_runs_is_named(machine, accelerator, register, name):
    program = accelerator.load(PROGRAM, 0x1000)
    with (
        pytest.raises(DamagedRegisterError, match=f"register {name} is 0x.* started with 0x"),
        accelerator.running(program),
    ):
        machine.registers[register] ^= 1 << 31
    accelerator.run(program)


def test_a_register_that_has_changed_is_the_reason_of_another_error(machine, accelerator):
    program, machine.outcome = accelerator.load(PROGRAM, 0x1000), (Status.BAD_CHECK, SEQUENCER, 0)
    with (
        pytest.raises(DamagedRegisterError, match="register PROGRAM_LOW") as error,
        accelerator.running(program),
    ):
        machine.registers[Register.PROGRAM_LOW] ^= 1 << 12
    assert isinstance(error.value.__cause__, DamagedProgramError)


@pytest.mark.parametrize("register", [Register.MAGIC, Register.VERSION, Register.PRESET, Register.SHAPE])
def test_refuses_another_machine(machine, register):
    machine.registers[register] += 1
    with pytest.raises(IncompatibleError, match=rf"{register.name} is 0x\w+, expected 0x\w+ \(2 channels of 4 lanes"):
        Accelerator(machine, CONFIG)


@pytest.mark.parametrize(
    ("outcome", "error", "message"),
    [
        ((Status.BAD_OPCODE, SEQUENCER, 3), BadOpcodeError, r"BAD_OPCODE: .* SEQUENCER, instruction 3: opcode 15 in"),
        ((Status.BAD_FIELD, SEQUENCER, 1), BadFieldError, r"SEQUENCER, instruction 1: MAC +tiles=3"),
        (
            (Status.BAD_ADDRESS, Engine.LOAD, 1),
            BadAddressError,
            r"LOAD, instruction 2: LOAD +address=9 kind=weights memory=weights outer=1",
        ),
        ((Status.READ_ERROR, Engine.LOAD, 0), ReadError, r"LOAD, instruction 0: LOAD +address=7"),
        ((Status.WRITE_ERROR, Engine.STORE, 0), WriteError, r"STORE, instruction before its first"),
        ((Status.TRUNCATED, SEQUENCER, 5), TruncatedError, "no HALT"),
        ((Status.STUCK, Engine.MAC, 0), StuckError, r"MAC, instruction 1: MAC"),
        ((Status.ABORTED, 0, 0), AbortedError, "ABORTED: The host stopped the program"),
        ((77, 0, 0), DeviceError, "status 77, which has no meaning"),
    ],
)
def test_an_error_names_its_instruction(machine, accelerator, outcome, error, message):
    program = accelerator.load(PROGRAM, 0x1000)
    machine.outcome = outcome
    with pytest.raises(error, match=message) as caught:
        accelerator.run(program)
    if error is not DeviceError:
        assert caught.value.status == outcome[0]
    machine.outcome = (Status.DONE, 0, 0)
    accelerator.run(program)
    assert machine.registers[Register.WINDOW_LOW] == 0x4000


def test_a_stuck_machine_is_reset(machine, accelerator):
    machine.outcome = (Status.STUCK, Engine.MAC, 0)
    with pytest.raises(StuckError):
        accelerator.run(accelerator.load(PROGRAM, 0))
    assert machine.resets == 1


def test_a_running_program_is_not_disturbed(machine, accelerator):
    program = accelerator.load(PROGRAM, 0)
    accelerator.start(program)
    with pytest.raises(BusyError, match="runs already"):
        accelerator.run(program)
    assert machine.registers[Register.STATUS] == Status.RUNNING


def test_a_refused_start_is_noticed(machine, accelerator):
    program = accelerator.load(PROGRAM, 0)
    write = machine.write_register

    def overtaken(register, value):
        if register == Register.CONTROL:
            write(register, value)
        write(register, value)

    machine.write_register = overtaken
    with pytest.raises(BusyError, match="somebody else"):
        accelerator.start(program)


def test_a_program_out_of_time_is_stopped(machine, accelerator):
    machine.polls = 1 << 60
    with pytest.raises(DeviceTimeoutError, match=r"within 0\.01 seconds"):
        accelerator.run(accelerator.load(PROGRAM, 0), timeout_seconds=0.01)
    assert machine.registers[Register.STATUS] == Status.ABORTED
    assert machine.resets == 0


def test_ctrl_c_stops_the_program(machine, accelerator):
    def interrupted(_seconds):
        raise KeyboardInterrupt

    machine.wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        accelerator.run(accelerator.load(PROGRAM, 0))
    assert machine.registers[Register.STATUS] == Status.ABORTED


def test_a_machine_that_ignores_abort_is_reset(monkeypatch, machine, accelerator):
    monkeypatch.setattr("etalstm.device.machine.accelerator._DRAIN_SECONDS", 0.01)
    machine.answers_abort, machine.polls = False, 1 << 60
    accelerator.start(accelerator.load(PROGRAM, 0))
    accelerator.abort()
    assert machine.resets == 1
    assert machine.registers[Register.STATUS] == Status.IDLE


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_program_runs_as_the_architecture_that_was_set_last(machine, accelerator, name):
    program = accelerator.load(PROGRAM, 0)
    for chosen in ("static", name):
        accelerator.set_architecture(architecture(chosen))
    accelerator.run(program)
    division = architecture(name).division
    assert machine.registers[Register.SHARES] == (division.register if division else 0)
    assert machine.registers[Register.SEND_ZEROS] == (name != "swing")


def test_a_program_runs_in_the_groups_that_were_set_last(machine, accelerator):
    program = accelerator.load(PROGRAM, 0)
    accelerator.run(program)
    assert machine.registers[Register.GROUPS] == 1
    accelerator.set_groups(2)
    accelerator.run(program)
    assert machine.registers[Register.GROUPS] == 2
    for count in (0, 3):
        with pytest.raises(ValueError, match=f"groups must be one of 1, 2, got {count}"):
            accelerator.set_groups(count)
    accelerator.run(program)
    assert machine.registers[Register.GROUPS] == 2


def test_counters_are_64_bits_wide(machine, accelerator):
    for number in range(Counter.COUNT):
        machine.registers[Register.COUNTER + 8 * number] = number
        machine.registers[Register.COUNTER + 8 * number + 4] = 1
    counters = accelerator.counters()
    high = 1 << 32
    assert counters["cycles"] == high
    assert counters["channel_cycles"]["mac"] == high + 1
    assert counters["channel_cycles"]["idle"] == high + 10
    assert counters["channel_cycles"]["share"] == high + 11
    assert counters["mac_phase"] == high + 12
    assert counters["rows_skipped"] == high + 17
    assert counters["read_bytes"]["weights"] == (high + 18) * 16
    assert counters["write_bytes"]["deltas"] == (high + 25) * 16
    assert counters["program_bytes"] == (high + 26) * 16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a: a.load(b"", 0), "some times 32 bytes, got 0"),
        (lambda a: a.load(bytes(33), 0), "some times 32 bytes, got 33"),
        (lambda a: a.load(bytes(32), 32), "multiple of 4096, got 0x20"),
        (lambda a: a.load(bytes(32), 1 << 16), "not all in the memory of 65536 bytes"),
        (lambda a: a.set_windows(0, 100), "multiples of 4096"),
        (lambda a: a.set_windows(0, 0x1000, 0x2000), "apart, got base 0x0, stride 0x1000, size 0x2000"),
        (lambda a: a.set_windows(0x8000, 0x8000), "2 windows of 32768 bytes at 0x8000 end at 0x18000"),
        (lambda a: a.set_parameter(0, 2.0), "parameter must be 0 to 15 and none of"),
        (lambda a: a.set_parameter(16, 2.0), "got 16"),
        (lambda a: a.transport.read_memory(2, 4), "multiples of 4, got 0x2 and 4"),
        (lambda a: a.transport.read_memory(-4, 4), "not all in the memory"),
        (lambda a: a.transport.write_memory(0, np.zeros((4, 4))[:, 1]), "must be contiguous"),
    ],
)
def test_bad_arguments_are_refused(accelerator, call, message):
    with pytest.raises(ValueError, match=message):
        call(accelerator)


def test_memory_takes_arrays_of_any_type(machine):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    machine.write_memory(64, values)
    np.testing.assert_array_equal(machine.read_memory(64, 24).view(np.float32), values.ravel())
