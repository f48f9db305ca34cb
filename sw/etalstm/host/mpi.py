"""Processes that mpiexec has started together: their ranks, and messages between rank 0 and the others.

mpi4py is an optional package. It is imported only in a process that mpiexec has started.
"""

import importlib
import json
import os
import platform
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from etalstm.errors import DeviceError

VARIABLE = "ETA_LSTM_ROSTER"  # environment variable with the path of a file


class Process(NamedTuple):
    """Host and process id of a rank."""

    host: str
    pid: int


def this_process() -> Process:
    """Give host and process id of this rank."""
    return Process(platform.node(), os.getpid())


def write_roster(ranks: list[Process]) -> None:
    """Write where each rank runs, if :mod:`etalstm.train.launch` has started mpiexec and named a file for it."""
    if VARIABLE in os.environ:
        Path(os.environ[VARIABLE]).write_text(json.dumps(ranks), encoding="utf-8")


def read_roster(path: Path) -> list[Process]:
    """Read where each rank runs; [] if the ranks have not started yet."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [Process(*entry) for entry in json.loads(text or "[]")]


SHORTEST_PAUSE, LONGEST_PAUSE = 10e-6, 200e-6
"""Seconds between two polls for a message. MPI itself polls without a pause, and takes a whole core."""


class Messages:
    """Sends and receives by an ``mpi4py.MPI.Intracomm`` that is not used otherwise."""

    def __init__(self, communicator):
        self._messages = importlib.import_module("mpi4py.util.pkl5").Intracomm(communicator)
        self._thread: ThreadPoolExecutor | None = None
        self._posted: list[Future] = []

    def send(self, messages: dict[int, Any]) -> None:
        """Send messages, by rank, all at once; return when all are sent."""
        requests = [self._messages.isend(message, rank) for rank, message in messages.items()]
        for request in requests:
            request.wait()

    def post(self, message: Any, rank: int) -> None:
        """Send a message in the background; its content must not change until :meth:`finish`.

        A large message moves only while both sides are in a call of MPI. So a thread of its own stays in the call.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "messages")
        self._posted.append(self._thread.submit(self._deliver, message, rank))

    def _deliver(self, message: Any, rank: int) -> None:
        request, pauses = self._messages.isend(message, rank), _pauses()
        while not request.test()[0]:
            time.sleep(next(pauses))

    def finish(self) -> None:
        """Wait until all posted messages are sent."""
        posted, self._posted = self._posted, []
        for future in posted:
            future.result()

    def receive(self, rank: int) -> Any:
        """Wait for a message of a rank."""
        pauses = _pauses()
        while (found := self._arrived([rank])) is None:
            time.sleep(next(pauses))
        return found[1]

    def receive_any(self, ranks: Sequence[int], is_over: Callable[[], bool] = lambda: False) -> tuple[int, Any] | None:
        """Wait for a message of any of `ranks`; give rank and message, or None once `is_over` is true."""
        pauses = _pauses()
        while not is_over():
            if (found := self._arrived(ranks)) is not None:
                return found
            time.sleep(next(pauses))
        return None

    def _arrived(self, ranks: Sequence[int]) -> tuple[int, Any] | None:
        for rank in ranks:
            if self._messages.iprobe(rank):
                return rank, self._messages.recv(None, rank)
        return None

    def abort(self, code: int) -> None:
        """End all ranks at once."""
        self._messages.Abort(code)


def _pauses():
    pause = SHORTEST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Environment variables with the number of ranks: of MPICH and its relatives, and of Open MPI."""

ABORTED = 1  # exit code of all ranks when rank 0 has left in the middle of a call


def ranks_started(environment: Mapping[str, str]) -> int:
    """Tell how many ranks mpiexec has started, by a process's environment: 1 without mpiexec."""
    sizes = (environment.get(name, "") for name in SIZE_VARIABLES)
    return next((int(size) for size in sizes if size.isdecimal()), 1)


class World:
    """This rank and its communication with the others.

    `local_rank` is the number of this rank among those on the same host. Communicator `gradients` is for
    :class:`etalstm.device.ranks.exchange.Exchange` alone: its thread must not receive other messages. Messages `layers`
    go between the stages of a pipeline, `losses` between the last stages and rank 0's thread that computes the loss.
    """

    def __init__(self, mpi):
        everyone = mpi.COMM_WORLD
        self.rank, self.size = everyone.rank, everyone.size
        self.local_rank = everyone.Split_type(mpi.COMM_TYPE_SHARED).rank
        self.gradients = everyone.Dup()
        processes = everyone.gather(this_process())
        if self.rank == 0:
            write_roster(processes)
        self._messages = Messages(everyone.Dup())
        self.layers, self.losses = Messages(everyone.Dup()), Messages(everyone.Dup())
        self._stages = everyone.Dup()
        self._by_depth: dict[int, Any] = {}  # communicators of this rank's stage, by the depth of the pipelines
        self._expected: list[int] = []  # ranks that owe an answer

    @property
    def others(self) -> range:
        """All ranks but rank 0."""
        return range(1, self.size)

    def ask(self, messages: Sequence[Any]) -> None:
        """Send one message to each of the other ranks; their :meth:`answers` must come before the next call."""
        self._expected = list(self.others)
        self._messages.send(dict(zip(self.others, messages, strict=True)))

    def answers(self) -> list[Any]:
        """Wait for the answer of each of the other ranks."""
        found = []
        for rank in self.others:
            found.append(self.receive(rank))
            self._expected.remove(rank)
        return found

    def receive(self, rank: int) -> Any:
        """Wait for a message of a rank."""
        return self._messages.receive(rank)

    def answer(self, message: Any) -> None:
        """Send a message to rank 0."""
        self._messages.send({0: message})

    def stage_communicator(self, depth: int):
        """Give the communicator of the ranks that have this rank's stage in pipelines of `depth` stages.

        All ranks must call this together.
        """
        if depth not in self._by_depth:
            pipeline, stage = divmod(self.rank, depth)
            self._by_depth[depth] = self._stages.Split(stage, pipeline)
        return self._by_depth[depth]

    def end(self) -> None:
        """Let the other ranks end. If an answer is still expected, no rank can go on, so all are aborted."""
        if self._expected:
            self._messages.abort(ABORTED)
        self._messages.send(dict.fromkeys(self.others))


@cache
def find_world() -> World | None:
    """Give the ranks, or None in a process that mpiexec has not started, or has started alone.

    Raises :class:`DeviceError` if mpi4py is missing, or belongs to another MPI than mpiexec does.
    """
    started = ranks_started(os.environ)
    if started == 1:
        return None
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # RuntimeError: there is no library of MPI
        raise DeviceError(
            f"mpiexec has started {started} processes, which need MPI for Python ({error}): "
            "pip install 'etalstm[boards]'"
        ) from error
    if mpi.COMM_WORLD.size != started:
        raise DeviceError(
            f"mpiexec has started {started} processes, but MPI for Python sees {mpi.COMM_WORLD.size}: "
            "they must belong to the same MPI"
        )
    return World(mpi)


FOR_RANK_0 = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def as_rank(command: Callable[[], int], serve: Callable[[World], None]) -> int:
    """Run a command on rank 0; on any other rank serve rank 0 until that ends. Give the exit code.

    Signals are for rank 0, which leaves a checkpoint and lets the other ranks end. Raises as :func:`find_world`.
    """
    world = find_world()
    if world is None:
        return command()
    if world.rank:
        for number in FOR_RANK_0:
            signal.signal(number, signal.SIG_IGN)
        serve(world)
        return 0
    try:
        return command()
    finally:
        world.end()
