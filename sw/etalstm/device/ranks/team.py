"""All ranks, as rank 0 commands them."""

from collections.abc import Sequence
from functools import cache
from itertools import count
from typing import Any

from etalstm.device.ranks.worker import Call, Failure, Worker, attempt
from etalstm.errors import DeviceError
from etalstm.host.mpi.world import World, find_world


class Team:
    """Lets every rank do a call at the same time, rank 0 too, and gives what came of it.

    Parameters
    ----------
    world : World
        Of rank 0.

    Members
    -------
    size : int
        Ranks.
    own : Worker
        What rank 0 does itself.
    losses : Messages
        To and from the last stages of pipelines.
    """

    def __init__(self, world: World):
        self._world, self.own, self.size, self.losses = world, Worker(world), world.size, world.losses
        self._numbers = count()
        self._unused: list[int] = []

    def new_number(self) -> int:
        """Give a number for a device or a session."""
        return next(self._numbers)

    def forget(self, session: int) -> None:
        """Let all ranks drop a session at the next call."""
        self._unused.append(session)

    def each(self, calls: Sequence[Call]) -> list[Any]:
        """Let every rank do its own call; give the results, rank 0's first.

        Raises
        ------
        Exception
            That of the first rank that failed, once all ranks have answered; the message names the rank.
        """
        if self._unused:
            dropped, self._unused = self._unused, []
            self.all(Call("drop", (dropped,)))
        self._world.ask(calls[1:])
        return _checked([attempt(self.own.do, calls[0]), *self._world.answers()])

    def others(self, call: Call) -> list[Any]:
        """Let every rank but rank 0 do a call; raises as :meth:`each`."""
        self._world.ask([call] * (self.size - 1))
        return _checked(self._world.answers(), first=1)

    def all(self, call: Call) -> list[Any]:
        """Let every rank do the same call."""
        return self.each([call] * self.size)

    def meet(self, preset: str) -> None:
        """Check that all ranks have one program and one configuration.

        Raises
        ------
        DeviceError
            Naming the first rank that differs.
        """
        mine, *others = self.all(Call("introduce", (preset,)))
        for rank, other in enumerate(others, start=1):
            for name, value in vars(mine).items():
                if getattr(other, name) != value:
                    raise DeviceError(
                        f"rank {rank} has {name} {getattr(other, name)}, rank 0 has {value}: "
                        "all ranks need the same program and preset"
                    )


def _checked(results: list[Any], first: int = 0) -> list[Any]:
    """Give results of the ranks from `first` on, or raise the first of their failures."""
    for rank, result in enumerate(results, start=first):
        if isinstance(result, Failure):
            raise result.error(rank)
    return results


@cache
def find_team() -> Team | None:
    """Give all ranks, to rank 0; None in a process that mpiexec has not started, or has started alone."""
    world = find_world()
    return Team(world) if world else None
