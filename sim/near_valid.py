"""Runs programs of a training iteration of which one field has another value."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from etalstm.device import TrainingShape
from etalstm.device.accelerator import Accelerator, LoadedProgram
from etalstm.device.hardware import HardwareDevice
from etalstm.hw import config as configurations
from etalstm.hw import contract
from etalstm.hw.contract import Opcode, Status
from etalstm.hw.image import image_of
from etalstm.network import NetworkShape, initial_parameters
from etalstm.plan.walk import walk
from etalstm.sim.cases import check_cases
from etalstm.sim.refusals import OPCODES, Change, Expected, Sizes, expected
from etalstm.sim.simulation import Stop
from etalstm.sim.transport import SimTransport
from etalstm.storage import Storage

SHAPE = TrainingShape(NetworkShape(4, 4, 2), 2, 2, masked=True, storage=Storage("ms1", 0.05))
MEMORY_BYTES = 1 << 18
LATENCY_CYCLES = 4
WATCHDOG_CYCLES = 2_000
MOST_CYCLES = 40_000  # then a program that still works is aborted: one field can make it as long as it likes


@dataclass(frozen=True)
class Found:
    """What became of a program.

    Members
    -------
    number : int
        Of the case.
    change : Change
    expected : Expected
    status : Status
        ABORTED if it still worked after :data:`MOST_CYCLES`.
    same : bool
        All results have the bits of the valid program.
    contained : bool
        Nothing was written outside of the windows.
    """

    number: int
    change: Change
    expected: Expected
    status: Status
    same: bool
    contained: bool

    @property
    def fits(self) -> bool:
        """It ended as the text says."""
        if not self.contained:
            return False
        if self.status == Status.ABORTED:
            return Status.DONE in self.expected.statuses and not self.expected.same
        ended = self.status in self.expected.statuses
        return ended and (self.same or not self.expected.same or self.status != Status.DONE)


class NearValid:
    """A simulated machine in the middle of a training run, and the programs of an iteration.

    Parameters
    ----------
    preset : str
    seed : int
        Of all cases; a case is this seed and its number.
    """

    def __init__(self, preset: str, seed: int):
        config = configurations.preset(preset)
        self._seed = seed
        self._transport = SimTransport(config, memory_bytes=MEMORY_BYTES, latency=LATENCY_CYCLES)
        self._accelerator = Accelerator(self._transport, config)
        self._accelerator.watchdog_cycles = WATCHDOG_CYCLES
        self._session = HardwareDevice("sim", preset, self._accelerator).create(SHAPE)
        self._train()
        placement = self._session.placement
        windows = [placement.window(channel) for channel in range(placement.channels)]
        self._inside = np.zeros(MEMORY_BYTES, bool)
        for window in windows:
            self._inside[window.start : window.stop] = True
        self._sizes = Sizes(config, placement.window_bytes // config.beat_bytes, self._session.plan.groups)
        self._at = {name: self._session._programs[name][1].address for name in self._programs}
        self._before = self._memory.copy()
        self._results = {name: self._result(name) for name in self._programs}

    def close(self) -> None:
        """Close the machine."""
        self._transport.close()

    def run(self, number: int) -> Found:
        """Run one case."""
        change = self._drawn(np.random.default_rng([self._seed, number]))
        words = self._programs[change.program]
        changed = change.of(words)
        said = expected(words, change, self._addresses(changed, change.number), self._sizes)
        before, status = self._start(change.program, changed)
        after = self._memory
        same = bool(np.array_equal(after[self._inside], self._results[change.program]))
        contained = bool(np.array_equal(after[~self._inside], before[~self._inside]))
        return Found(number, change, said, status, same, contained)

    @property
    def _memory(self) -> np.ndarray:
        return self._transport.simulation.memory

    @cached_property
    def _programs(self) -> dict[str, list[int]]:
        return {name: program.words for name, program in self._session.plan.programs.items()}

    def _train(self) -> None:
        """Run an iteration: then all arrays and streams are there that its programs read."""
        draw, session = np.random.default_rng(self._seed), self._session
        session.load(initial_parameters(SHAPE.network, 0))
        session.forward(draw.standard_normal(SHAPE.x_shape, np.float32), [SHAPE.steps, SHAPE.steps - 1])
        session.backward(draw.standard_normal(SHAPE.y_shape, np.float32))
        session.update(0.1, 0.9)

    def _result(self, name: str) -> np.ndarray:
        """Give what the windows hold after a valid program."""
        _, status = self._start(name, self._programs[name])
        if status != Status.DONE:
            raise AssertionError(f"the program {name} ended with {status.name}")
        return self._memory[self._inside]

    def _start(self, name: str, words: list[int]) -> tuple[np.ndarray, Status]:
        """Run a program from the memory as it was; give the memory before it, and how it ended."""
        accelerator, placement = self._accelerator, self._session.placement
        image = image_of(words)
        self._memory[:] = self._before
        address = self._at[name]
        self._memory[address : address + len(image)] = np.frombuffer(image, np.uint8)
        before = self._memory.copy()
        accelerator.set_windows(placement.base, placement.stride, placement.window_bytes)
        accelerator.set_groups(self._sizes.groups)
        accelerator.start(LoadedProgram(address, len(words)))
        if self._transport.simulation.run(MOST_CYCLES) is not Stop.INTERRUPT:
            accelerator.abort()
        status = Status(self._transport.read_register(contract.Register.STATUS))
        if status == Status.STUCK:
            self._transport.reset()
        return before, status

    def _drawn(self, draw: np.random.Generator) -> Change:
        """Draw a program, an instruction, a field, and a value: 0, all ones, a neighbour, or one with a bit turned."""
        program = list(self._programs)[draw.integers(len(self._programs))]
        words = self._programs[program]
        number = int(draw.integers(len(words)))
        fields = contract.layout(Opcode(words[number] & OPCODES))
        field = list(fields)[draw.integers(len(fields))]
        offset, width = fields[field]
        ones = (1 << width) - 1
        before = words[number] >> offset & ones
        if field == "turns":
            return Change(program, number, field, before, max(0, before - 1 + 2 * int(draw.integers(2))))
        values = [0, ones, before + 1 & ones, before - 1 & ones, *(before ^ 1 << n for n in range(width))]
        others = [value for value in values if value != before]
        return Change(program, number, field, before, others[draw.integers(len(others))])

    @staticmethod
    def _addresses(words: list[int], number: int) -> Iterator[int]:
        """Give the addresses of an instruction, in all its executions."""
        return (step.address for step in walk(words) if step.number == number)


def near_valid(count: int, seed: int = 0, first: int = 0, preset: str = "test") -> Iterator[Found]:
    """Run cases of following numbers.

    Parameters
    ----------
    count, first : int
        How many, and the number of the first.
    seed : int
    preset : str

    Raises
    ------
    ValueError
        If `count` is not above 0, a number is negative, or there is no such preset.
    ToolchainError
        If the simulator cannot be built.
    """
    cases = check_cases(count, seed, first)
    bench = NearValid(preset, seed)
    try:
        yield from map(bench.run, cases)
    finally:
        bench.close()
