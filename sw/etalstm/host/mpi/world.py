"""The ranks that mpiexec has started, and messages between rank 0 and the others.

mpi4py is an optional package. It is imported only in a process that mpiexec has started.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from etalstm.errors import DeviceError
from etalstm.host.mpi.messages import Messages
from etalstm.host.mpi.roster import this_process, write_roster

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
"""Environment variables with the number of ranks: of MPICH and its relatives, and of Open MPI."""

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
        For :class:`etalstm.device.ranks.exchange.Exchange` alone: its thread must not meet other messages.
    layers, losses : Messages
        Between the stages of a pipeline; and between the last stages and rank 0's thread that computes the loss.
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
        self._of_stages: dict[int, Any] = {}  # communicators of one stage, by the depth of the pipelines
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

    def of_stage(self, depth: int):
        """Give the communicator of the ranks that have this rank's stage in pipelines of `depth` stages.

        All ranks must call this together.
        """
        if depth not in self._of_stages:
            pipeline, stage = divmod(self.rank, depth)
            self._of_stages[depth] = self._stages.Split(stage, pipeline)
        return self._of_stages[depth]

    def end(self) -> None:
        """Let the other ranks end. If an answer is still to come, no rank can go on: then all are ended at once."""
        if self._expected:
            self._messages.abort(ABORTED)
        self._messages.send(dict.fromkeys(self.others))


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
