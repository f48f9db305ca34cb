"""Trains a small network on the simulated machine again and again, each time with another fault."""

import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection, wait

import numpy as np

from etalstm.device import TrainingShape
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.session import HardwareSession
from etalstm.errors import EtaLstmError
from etalstm.host.computer import count_processors
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm_hw import config as configurations
from etalstm_sim.compiled.library import build_library, design
from etalstm_sim.transport import SimTransport
from etalstm_sim.trials.cases import check_cases
from etalstm_sim.trials.faults.faulty import FaultyTransport, Hang, Kind, Moment, Targets
from etalstm_sim.trials.placing import arithmetic_of, planned_session

SHAPE = TrainingShape(NetworkShape(4, 4, 2), 2, 2, Execution(storage=Storage("ms1", 0.05)), masked=True)
LATENCY_CYCLES = 4  # of the memory: short, so that a case takes little time
WATCHDOG_CYCLES = 2_000
SECONDS = 120
"""That a case may take; most take less than a second."""


class Outcome(StrEnum):
    """How a case ended."""

    MISSED = "missed"  #: the fault did not happen, as there was no transfer that it could hit
    MASKED = "masked"  #: the fault changed no bit of any result
    DETECTED = "detected"  #: an error of :mod:`etalstm.errors` was raised
    SILENT = "silent"  #: results differ without an error
    HANG = "hang"
    CRASH = "crash"


@dataclass(frozen=True)
class CaseResult:
    """The result of one case.

    Members
    -------
    number : int
    kind : Kind or None
    moment : Moment or None
        None if the process ended before it reported.
    struck, place : str
        What the fault hit, see :class:`FaultyTransport`; the plan's array at that address, or "program". Empty if
        nothing was hit.
    outcome : Outcome
    said : str
        The error's message.
    """

    number: int
    kind: Kind | None
    moment: Moment | None
    struck: str
    place: str
    outcome: Outcome
    said: str


class Bench:
    """A machine, and its results without a fault.

    Parameters
    ----------
    preset : str
    seed : int
        Of all cases; a case is this seed and its number.
    scrub : bool
        The memory is scrubbed after the weights are loaded, before the update and after it. The cases are the same.
    """

    def __init__(self, preset: str, seed: int, scrub: bool = False):
        self._config, self._seed, self._scrub = configurations.preset(preset), seed, scrub
        self._shape = SHAPE.with_execution(arithmetic=arithmetic_of(self._config))
        self._library, self._undisturbed = build_library(design(self._config)), None
        draw = np.random.default_rng(seed)
        self._x = draw.standard_normal(SHAPE.x_shape, np.float32)
        self._dy = draw.standard_normal((SHAPE.steps, SHAPE.batch, SHAPE.network.hidden_size), np.float32)
        self._lengths = [SHAPE.steps, SHAPE.steps - 1]
        with self.machine() as transport:
            session = self.session(transport)
            self._undisturbed, self._expected = session, self.train(session)
            self._cycles, self._transfers = transport.cycles, transport.transfers
            self._ports = transport.ports(self._config.ports)

    def run(self, number: int) -> CaseResult:
        """Run one case."""
        draw = np.random.default_rng([self._seed, number])
        kind, program = list(Kind)[draw.integers(len(Kind))], int(draw.integers(len(self._cycles)))
        moment = Moment(program, int(draw.integers(self._cycles[program])), int(draw.integers(self._transfers)))
        with self.machine() as transport:
            session = self.session(transport)
            transport.arm(kind, moment, self.targets(session), draw)
            outcome, message = self.outcome(session)
            if outcome is Outcome.MASKED and not transport.struck:
                outcome = Outcome.MISSED
            place = "" if transport.address is None else _place(session, transport.address)
            return CaseResult(number, kind, moment, transport.struck, place, outcome, message)

    def targets(self, session: HardwareSession) -> Targets:
        """Give the targets of a fault: all memory of a session, and the ports that an undisturbed run uses."""
        return Targets(session.addresses, *self._ports)

    def outcome(self, session) -> tuple[Outcome, str]:
        """Train in a session; give the outcome, and the message of an error."""
        try:
            same = self.train(session) == self._expected
        except EtaLstmError as error:
            return Outcome.DETECTED, f"{type(error).__name__}: {error}"
        except Hang as error:
            return Outcome.HANG, str(error)
        except Exception as error:  # a user would see a traceback
            return Outcome.CRASH, f"{type(error).__name__}: {error}"
        return (Outcome.MASKED if same else Outcome.SILENT), ""

    def machine(self) -> FaultyTransport:
        """Make a machine, without AXI checkers: a board has none."""
        return FaultyTransport(SimTransport(self._config, library=self._library, latency=LATENCY_CYCLES, checked=False))

    def session(self, transport: FaultyTransport) -> HardwareSession:
        """Make a session on a machine; programs and transfers are counted from then on."""
        accelerator = Accelerator(transport, self._config)
        accelerator.watchdog_cycles = WATCHDOG_CYCLES
        plan = self._undisturbed.plan if self._undisturbed else None
        session = planned_session(plan, self._shape, accelerator, transport.memory_bytes)
        transport.disarm()
        return session

    def train(self, session) -> list[bytes]:
        """Train for an iteration; give the bits of all results, and of all that the next iteration reads."""
        scrub = session.scrub if self._scrub else lambda: None
        session.load(initial_parameters(SHAPE.network, 0))
        scrub()
        outputs, back = session.forward(self._x, self._lengths), session.backward(self._dy)
        found = [outputs.y, outputs.h, outputs.c, back.dx, back.dh0, back.dc0, *_arrays(session.gradients())]
        scrub()
        session.update(0.1, 0.9)
        scrub()
        found += [*_arrays(session.parameters()), *_arrays(session.velocities())]
        return [array.tobytes() for array in found]


def _arrays(layers) -> list[np.ndarray]:
    return [array for layer in layers for array in (layer.weights, layer.bias)]


def _place(session, address: int) -> str:
    """Name the array at an address of a session, or "program"."""
    for channel in range(session.placement.channels):
        window = session.placement.window(channel)
        if address in window:
            vector = (address - window.start) // session.plan.map.memory.vector_bytes
            arrays = session.plan.map.memory.arrays.values()
            return next((a.name for a in arrays if a.first <= vector < a.first + a.vectors), "nothing")
    return "program"


class _Worker:
    """A process that runs cases one after the other, and is replaced if it dies or takes too long."""

    def __init__(self, preset: str, seed: int, numbers: range, scrub: bool = False):
        self._preset, self._seed, self._scrub, self.left = preset, seed, scrub, numbers
        self._start()

    @property
    def is_late(self) -> bool:
        """The case takes longer than any should."""
        return time.monotonic() > self._deadline

    def take(self) -> CaseResult:
        """Give the result of the first case that is left. Call it when the pipe has data, or the case is late."""
        number, self.left = self.left[0], self.left[1:]
        try:
            found = self.pipe.recv() if self.pipe.poll() else self._replace(number, Outcome.HANG, f"{SECONDS} seconds")
        except EOFError:
            self._process.join()
            found = self._replace(number, Outcome.CRASH, f"the process ended with {self._process.exitcode}")
        self._deadline = time.monotonic() + SECONDS
        return found

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self.pipe.close()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would have none of the threads
        self.pipe, sending = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work, args=(sending, self._preset, self._seed, self._scrub, self.left), daemon=True
        )
        self._process.start()
        sending.close()
        self._deadline = time.monotonic() + SECONDS

    def _replace(self, number: int, outcome: Outcome, message: str) -> CaseResult:
        self.stop()
        if self.left:
            self._start()
        return CaseResult(number, None, None, "", "", outcome, message)


def _work(pipe: Connection, preset: str, seed: int, scrub: bool, numbers: range) -> None:
    bench = Bench(preset, seed, scrub)
    for number in numbers:
        pipe.send(bench.run(number))
    pipe.close()


def campaign(
    count: int, seed: int = 0, first: int = 0, preset: str = "test", scrub: bool = False
) -> Iterator[CaseResult]:
    """Run cases of consecutive numbers, in processes of their own, and give their results as they end.

    A process that dies, or takes longer than :data:`SECONDS` for a case, makes that case a crash or a hang, and another
    process goes on.

    Parameters
    ----------
    count, first : int
        How many, and the number of the first.
    seed : int
    preset : str
    scrub : bool
        See :class:`Bench`.

    Raises
    ------
    ValueError
        If `count` is not above 0, a number is negative, or there is no such preset.
    ToolchainError
        If the simulator cannot be built.
    """
    cases = check_cases(count, seed, first)
    Bench(preset, seed, scrub)  # builds the simulator once, and raises errors here
    processes = min(count_processors(), count)
    workers = [_Worker(preset, seed, cases[n::processes], scrub) for n in range(processes)]
    try:
        while workers:
            ready = wait([worker.pipe for worker in workers], timeout=1)
            for worker in workers:
                if worker.left and (worker.pipe in ready or worker.is_late):
                    yield worker.take()
            for worker in [worker for worker in workers if not worker.left]:
                worker.stop()
                workers.remove(worker)
    finally:
        for worker in workers:
            worker.stop()
