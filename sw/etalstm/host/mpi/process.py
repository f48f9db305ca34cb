"""What a process does that mpiexec may have started with others: lead them, or serve."""

import signal
from collections.abc import Callable

from etalstm.host.mpi.world import World, find_world

FOR_RANK_0 = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def as_rank(command: Callable[[], int], serve: Callable[[World], None]) -> int:
    """Run a command on rank 0, or serve rank 0 on another rank; give the exit code.

    Signals are for rank 0, which leaves a checkpoint and lets the other ranks end.

    Parameters
    ----------
    command : function
        Gives the exit code.
    serve : function
        Does what rank 0 asks for, until it ends.

    Raises
    ------
    DeviceError
        As :func:`etalstm.host.mpi.world.find_world`.
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
