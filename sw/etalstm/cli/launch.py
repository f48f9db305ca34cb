"""``eta-lstm launch``."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from etalstm.cli.output import say
from etalstm.network.shape import check_size
from etalstm.train.launch import TRAIN, Launch


def launch(
    command: Annotated[list[str], Argument(help="-- and a command of eta-lstm, such as -- train --slices 8 …")],
    ranks: Annotated[int, Option("--ranks", "-n", help="Processes, each with a device of its own")],
    hostfile: Annotated[Path | None, Option(help="Hosts to use, as mpiexec reads them [default: this one]")] = None,
    max_restarts: Annotated[int, Option(help="With train: start again so often after a failure")] = 0,
) -> int:
    """Run a command on several processes with a device each, and name the one that fails.

    The batch is divided among them, with the bits of one device: the slices must suit their number.
    """
    check_size("ranks", ranks)
    if max_restarts < 0:
        raise ValueError(f"max_restarts must be at least 0, got {max_restarts}")
    if max_restarts and command[0] != TRAIN:
        raise ValueError(f"--max-restarts goes on with a run of {TRAIN}, got {command[0]}")
    if hostfile is not None and not hostfile.is_file():
        raise ValueError(f"hostfile must be a file, got {hostfile}")
    return Launch(ranks, command, hostfile).run(max_restarts, lambda text: say(f"eta-lstm: {text}"))
