"""The ranks that mpiexec has started, and messages between rank 0 and the others.

mpi4py is an optional package. It is imported only in a process that mpiexec has started.
"""

import importlib
import os
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from etalstm.errors import DeviceError
from etalstm.ranks.roster import this_process, write_roster

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Environment variables with the number of ranks: of MPICH and its relatives, and of Open MPI."""

SHORTEST_PAUSE, LONGEST_PAUSE = 10e-6, 200e-6
"""Seconds between two looks for a message. MPI itself would look without a pause, and take a whole core."""

ABORTED = 1  # exit code of all ranks when rank 0 has left in the middle of a call


def ranks_started(environment: Mapping[str, str]) -> int:
    """Tell how many ranks mpiexec has started, by a process's environment: 1 without mpiexec."""
    sizes = (environment.get(name, "") for name in SIZE_VARIABLES)
    return next((int(size) for size in sizes if size.isdecimal()), 1)


class World:
    """All ranks, as one of them sees them.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.

    Members
    -------
    rank, size : int
    local_rank : int
        Number of this rank among those on the same host.
    gradients : mpi4py.MPI.Intracomm
        For :class:`etalstm.ranks.exchange.Exchange` alone: its thread must not meet other messages.
    """

    def __init__(self, mpi):
        everyone = mpi.COMM_WORLD
        self.rank, self.size = everyone.rank, everyone.size
        self.local_rank = everyone.Split_type(mpi.COMM_TYPE_SHARED).rank
        self.gradients = everyone.Dup()
        processes = everyone.gather(this_process())
        if self.rank == 0:
            write_roster(processes)
        self._messages = importlib.import_module("mpi4py.util.pkl5").Intracomm(everyone.Dup())  # does not copy arrays
        self._expected: list[int] = []  # ranks that owe an answer

    @property
    def others(self) -> range:
        """All ranks but rank 0."""
        return range(1, self.size)

    def ask(self, messages: Sequence[Any]) -> None:
        """Send one message to each of the other ranks; their :meth:`answers` must come before the next call."""
        self._expected = list(self.others)
        requests = [self._messages.isend(message, rank) for rank, message in zip(self.others, messages, strict=True)]
        for request in requests:
            request.wait()

    def answers(self) -> list[Any]:
        """Wait for the answer of each of the other ranks."""
        found = []
        for rank in self.others:
            found.append(self.receive(rank))
            self._expected.remove(rank)
        return found

    def receive(self, rank: int) -> Any:
        """Wait for a message of a rank."""
        pause = SHORTEST_PAUSE
        while not self._messages.iprobe(rank):
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return self._messages.recv(None, rank)

    def answer(self, message: Any) -> None:
        """Send a message to rank 0."""
        self._messages.send(message, 0)

    def end(self) -> None:
        """Let the other ranks end. If an answer is still to come, no rank can go on: then all are ended at once."""
        if self._expected:
            self._messages.Abort(ABORTED)
        for rank in self.others:
            self._messages.send(None, rank)


@cache
def find_world() -> World | None:
    """Give the ranks, or None in a process that mpiexec has not started, or has started alone.

    Raises
    ------
    DeviceError
        If mpi4py is missing, or belongs to another MPI than mpiexec does.
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
