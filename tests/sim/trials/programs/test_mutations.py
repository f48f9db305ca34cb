"""Programs that are right but for one field of one instruction: they end, and write nothing outside their windows."""

from dataclasses import dataclass

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.device.machine.faults import ProgramError, StuckError
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm_hw import contract
from etalstm_hw.contract import FIELDS, Opcode, Register
from etalstm_hw.contract.image import image_of, words_of

SHAPE = TrainingShape(NetworkShape(3, 5, 2), batch=3, steps=2)
MEMORY_BYTES = 1 << 20
TRIALS = 120
TIMEOUT_SECONDS = 120
# These decide which instructions count as completed, so that others may wait for ever: STUCK is the right answer. The
# waits themselves are in the header, which is left as it is.
COUNTING_FIELDS = {"more"}


@dataclass(frozen=True)
class Mutation:
    """A field of an instruction of a program, and the value it gets."""

    program: int
    instruction: int
    opcode: Opcode
    field: str
    old: int
    new: int

    def apply(self, words):
        """Give the program with the field changed."""
        fields = contract.decode(words[self.instruction])[1] | {self.field: self.new}
        return [*words[: self.instruction], contract.encode(self.opcode, **fields), *words[self.instruction + 1 :]]


@pytest.fixture(scope="module", params=[0.0, 0.5], ids=["", "stalled"])
def machine(request):
    """A device after a training iteration, and the programs that it ran: words and address of each."""
    with open_device("sim", "test", memory_bytes=MEMORY_BYTES, stall=request.param, seed=3) as device:
        programs = []
        load = device.accelerator.load

        def record(image, address):
            programs.append((words_of(image), address))
            return load(image, address)

        device.accelerator.load = record
        session = device.create(SHAPE)
        session.load(initial_parameters(SHAPE.network, 1))
        x = np.random.default_rng(2).standard_normal(SHAPE.x_shape, np.float32)
        session.backward(session.forward(x).y)
        session.update(0.1, 0.9, 1.0)
        device.accelerator.load = load
        device.accelerator.watchdog_cycles = 5000
        yield device, programs


def run(device, words, address):
    device.accelerator.run(device.accelerator.load(image_of(words), address), TIMEOUT_SECONDS)


def in_windows(transport):
    """Which bytes of the memory belong to a channel's window."""
    registers = (Register.WINDOW_LOW, Register.WINDOW_STRIDE, Register.WINDOW_SIZE)
    low, stride, size = (transport.read_register(register) for register in registers)
    inside = np.zeros(MEMORY_BYTES, bool)
    channels = transport.read_register(Register.SHAPE) & 0xFFFF
    for channel in range(channels):
        begin = low + channel * stride * contract.PAGE_BYTES
        inside[begin : begin + size * contract.PAGE_BYTES] = True
    return inside


def other_value(generator, old, width):
    """Give another value of a field: a neighbour, one bit changed, an end of the range, or any."""
    most = (1 << width) - 1
    while True:
        bit = 1 << int(generator.integers(width))
        anything = int.from_bytes(generator.bytes(8), "little") & most
        new = generator.choice([old + 1, old - 1, old ^ bit, 0, most, anything])
        if new != old and 0 <= new <= most:
            return int(new)


def mutations(generator, programs):
    """Give mutations, of every opcode and of every field of an opcode equally often."""
    places = {}
    for number, (words, _) in enumerate(programs):
        for position, word in enumerate(words):
            opcode, fields = contract.decode(word)
            if set(FIELDS[opcode]) - COUNTING_FIELDS:
                places.setdefault(opcode, []).append((number, position, fields))
    opcodes = sorted(places)
    for trial in range(TRIALS):
        opcode = opcodes[trial % len(opcodes)]
        number, position, fields = places[opcode][generator.integers(len(places[opcode]))]
        field = generator.choice(sorted(set(FIELDS[opcode]) - COUNTING_FIELDS))
        old = fields[field]
        yield Mutation(number, position, opcode, field, old, other_value(generator, old, FIELDS[opcode][field]))


def test_the_programs_have_every_kind_of_work(machine):
    _, programs = machine
    opcodes = {contract.decode(word)[0] for words, _ in programs for word in words}
    wanted = {Opcode.LOAD, Opcode.MAC, Opcode.VECTOR, Opcode.STORE, Opcode.TRANSPOSE, Opcode.CAST, Opcode.HALT}
    assert opcodes >= wanted, f"{wanted - opcodes} missing"


def test_they_end_and_write_nothing_outside_their_windows(machine):
    device, programs = machine
    transport, memory = device.accelerator.transport, device.accelerator.transport.simulation.memory
    outside = ~in_windows(transport)
    before = memory.copy()
    failures, ends = [], {}
    for mutation in mutations(np.random.default_rng(5), programs):
        words, address = programs[mutation.program]
        memory[:] = before
        try:
            run(device, mutation.apply(words), address)
            end = "DONE"
        except StuckError:
            failures.append(f"{mutation} got stuck")
            continue
        except ProgramError as error:
            end = type(error).__name__
        ends[end] = ends.get(end, 0) + 1
        size = len(image_of(words))
        outside[address : address + size], kept = False, outside[address : address + size].copy()
        if not np.array_equal(memory[outside], before[outside]):
            failures.append(f"{mutation} wrote outside the windows")
        outside[address : address + size] = kept
    assert not failures, "\n".join(failures)
    assert ends["DONE"] > TRIALS // 10 and len(ends) >= 3, ends
    memory[:] = before
    for words, address in programs:
        run(device, words, address)
