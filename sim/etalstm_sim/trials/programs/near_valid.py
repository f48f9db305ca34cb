"""Runs programs of a training iteration with one field changed."""

from collections.abc import Iterator
from contextlib import ExitStack, closing

import numpy as np

from etalstm.device.machine.accelerator import Accelerator, LoadedProgram
from etalstm.host.computer import count_processors, worker_processes
from etalstm.network.shape import initial_parameters
from etalstm_hw import config as configurations
from etalstm_hw.contract import Register, Status
from etalstm_hw.contract.image import image_of
from etalstm_sim.simulation import Stop
from etalstm_sim.transport import SimTransport
from etalstm_sim.trials.cases import check_cases
from etalstm_sim.trials.placing import planned_session
from etalstm_sim.trials.programs.changes import Cases, Network
from etalstm_sim.trials.programs.outcome import CaseResult, Run

MODEL, MACHINE = "model", "machine"
FEW, CHUNK = 200, 50  # cases that one process runs; those that a process takes at once
MEMORY_BYTES = 1 << 18
LATENCY_CYCLES = 4
WATCHDOG_CYCLES = 2_000
MOST_CYCLES = 40_000  # then a program that still works is aborted: one field can make it arbitrarily long


class Machine:
    """A simulated machine in the middle of a training run, and the programs of an iteration.

    Parameters
    ----------
    network : Network
    seed : int
        Of inputs and gradients.
    """

    def __init__(self, network: Network, seed: int):
        config = network.sizes.config
        self.network = network
        self._transport = SimTransport(config, memory_bytes=MEMORY_BYTES, latency=LATENCY_CYCLES)
        with ExitStack() as stack:
            stack.callback(self.close)
            self._accelerator = Accelerator(self._transport, config)
            self._accelerator.watchdog_cycles = WATCHDOG_CYCLES
            self._prepare(seed)
            stack.pop_all()

    def _prepare(self, seed: int) -> None:
        """Run an iteration, then each valid program by itself, and store what the windows hold after it."""
        self._session = planned_session(self.network.plan, self.network.shape, self._accelerator, MEMORY_BYTES)
        self._train(seed)
        placement = self._session.placement
        self._inside = np.zeros(MEMORY_BYTES, bool)
        for window in map(placement.window, range(placement.channels)):
            self._inside[window.start : window.stop] = True
        self._addresses = {name: self._session._programs[name][1].address for name in self.network.programs}
        self._before = self._memory.copy()
        self._results = {name: self._result(name) for name in self.network.programs}

    def close(self) -> None:
        """Close the machine."""
        self._transport.close()

    def run(self, program: str, words: list[int]) -> Run:
        """Run a program instead of the valid one of that name."""
        before, status = self._start(program, words)
        engine, instruction = map(self._transport.read_register, (Register.ERROR_ENGINE, Register.ERROR_INSTRUCTION))
        if status == Status.STUCK:
            self._transport.reset()
        after = self._memory
        same = bool(np.array_equal(after[self._inside], self._results[program]))
        contained = bool(np.array_equal(after[~self._inside], before[~self._inside]))
        return Run(status, engine, instruction, same, contained)

    @property
    def _memory(self) -> np.ndarray:
        return self._transport.simulation.memory

    def _train(self, seed: int) -> None:
        """Run an iteration, which writes all arrays and streams that its programs read."""
        draw, session, shape = np.random.default_rng(seed), self._session, self.network.shape
        session.load(initial_parameters(shape.network, 0))
        lengths = [shape.steps, shape.steps - 1] if shape.masked else None
        session.forward(draw.standard_normal(shape.x_shape, np.float32), lengths)
        session.backward(draw.standard_normal(shape.y_shape, np.float32))
        session.update(0.1, 0.9)

    def _result(self, name: str) -> np.ndarray:
        """Give what the windows hold after a valid program."""
        _, status = self._start(name, self.network.programs[name])
        if status != Status.DONE:
            raise AssertionError(f"the program {name} ended with {status.name}")
        return self._memory[self._inside]

    def _start(self, name: str, words: list[int]) -> tuple[np.ndarray, Status]:
        """Run a program from the memory as it was; give the memory before it, and how it ended."""
        accelerator, placement = self._accelerator, self._session.placement
        image = image_of(words)
        self._memory[:] = self._before
        address = self._addresses[name]
        self._memory[address : address + len(image)] = np.frombuffer(image, np.uint8)
        before = self._memory.copy()
        accelerator.set_windows(placement.base, placement.stride, placement.window_bytes)
        accelerator.set_groups(self.network.sizes.groups)
        accelerator.start(LoadedProgram(address, len(words)))
        if self._transport.simulation.run(MOST_CYCLES) is not Stop.INTERRUPT:
            accelerator.abort()
        return before, Status(self._transport.read_register(Register.STATUS))


class NearValid:
    """Runs cases.

    Parameters
    ----------
    preset : str
    seed : int
        Of all cases; a case is this seed and its number.
    on : str
        :data:`MODEL`: compare the contract's text and the model; :data:`MACHINE`: run the cases, too.
    """

    def __init__(self, preset: str, seed: int, on: str):
        self._cases = Cases(configurations.preset(preset), seed)
        networks = self._cases.networks if on == MACHINE else {}
        with ExitStack() as stack:
            self._machines = {
                name: stack.enter_context(closing(Machine(network, seed))) for name, network in networks.items()
            }
            self._opened = stack.pop_all()

    def close(self) -> None:
        """Close the machines."""
        self._opened.close()

    def run(self, number: int) -> CaseResult:
        """Run one case."""
        case = self._cases.case(number)
        machine = self._machines.get(case.network)
        run = machine.run(case.change.program, case.words) if machine else None
        return CaseResult(number, case.network, case.change, case.expected, case.ending, run)


class _Process:
    """A process of a pool, with cases and machines of its own."""

    bench: NearValid

    @classmethod
    def start(cls, *options) -> None:
        """Make the bench of this process."""
        cls.bench = NearValid(*options)

    @classmethod
    def run(cls, number: int) -> CaseResult:
        """Run one case."""
        return cls.bench.run(number)


def near_valid(
    count: int, seed: int = 0, first: int = 0, preset: str = "test", on: str = MACHINE
) -> Iterator[CaseResult]:
    """Run cases of consecutive numbers, in several processes if there are many.

    Parameters
    ----------
    count, first : int
        How many, and the number of the first.
    seed : int
    preset : str
    on : str
        See :class:`NearValid`.

    Raises
    ------
    ValueError
        If `count` is not above 0, a number is negative, there is no such preset, or `on` is neither.
    ToolchainError
        If the simulator cannot be built.
    BrokenProcessPool
        If a process dies, or cannot make its bench.
    """
    cases = check_cases(count, seed, first)
    if on not in (MODEL, MACHINE):
        raise ValueError(f"on must be {MODEL} or {MACHINE}, got {on!r}")
    with closing(NearValid(preset, seed, on)) as bench:  # builds the simulator once, and raises errors here
        if count < FEW:
            yield from map(bench.run, cases)
            return
    with worker_processes(count_processors(), _Process.start, (preset, seed, on)) as pool:
        try:
            yield from pool.map(_Process.run, cases, chunksize=CHUNK)
        finally:
            pool.shutdown(cancel_futures=True)
