"""A long training run that meets trouble again and again, beside one that is left alone."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

from etalstm.network.shape import check_size
from etalstm.research.endurance.troubles import POLL_SECONDS, Run, Trouble, possible
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log

SETTLED = 0.1  # share of the iterations after which a process has all memory that it needs


def endure(
    options: list[str],
    iterations: int,
    troubles: int,
    seed: int,
    progress: Callable[[int], None] = lambda iteration: None,
) -> dict:
    """Train twice: once left alone, and once with trouble at drawn moments, and resumed each time.

    A run that is not killed must end with an error that names a file.

    Parameters
    ----------
    options : list of str
        Of ``eta-lstm train``, without the number of iterations and the folder.
    iterations, troubles : int
    seed : int
        Of the moments, and of which trouble happens when: each kind equally often, as far as that goes.
    progress : function
        Told how many iterations of both runs are done.

    Returns
    -------
    dict
        ``iterations``; ``troubles``: by kind, how many hit a running process; ``impossible``: kinds that nobody can
        have here, as permissions do not stop root; ``same``: both runs have the same checkpoint; ``once``: the troubled
        run has logged each iteration once; memory of the process that was left alone, in bytes, after :data:`SETTLED`
        of the iterations and near the end: ``settled_bytes``, ``last_bytes``.

    Raises
    ------
    ValueError
        If a number is out of range.
    RunError
        If a run fails that should not, or one that should does not, or without the name of a file.
    """
    check_size("iterations", iterations)
    if troubles < 0 or seed < 0:
        raise ValueError(f"troubles and seed must be at least 0, got {troubles} and {seed}")
    options = [*options, "--iterations", str(iterations)]
    with tempfile.TemporaryDirectory() as directory:
        alone, troubled = (RunFolder(Path(directory) / name) for name in ("alone", "troubled"))
        memory = _left_alone(Run(alone, options), iterations)
        progress(iterations)
        kinds, draw = possible(Path(directory)), np.random.default_rng(seed)
        drawn = [kinds[number % len(kinds)] for number in draw.permutation(troubles)]
        happened = _troubled(troubled, options, draw, iterations, drawn, progress)
        logged = [entry["iteration"] for entry in read_log(troubled.metrics) if entry["kind"] == "iteration"]
        return {
            "iterations": iterations,
            "troubles": {kind.value: happened[kind] for kind in kinds},
            "impossible": [kind.value for kind in Trouble if kind not in kinds],
            "same": alone.checkpoint.read_bytes() == troubled.checkpoint.read_bytes(),
            "once": logged == list(range(1, iterations + 1)),
            **memory,
        }


def _left_alone(run: Run, iterations: int) -> dict[str, int]:
    memory = dict.fromkeys(("settled_bytes", "last_bytes"), 0)
    for name, share in (("settled_bytes", SETTLED), ("last_bytes", 1 - SETTLED)):
        if run.wait_for(int(share * iterations)):
            memory[name] = run.memory_bytes()
    run.end()
    return memory


def _troubled(folder: RunFolder, options: list[str], draw, iterations: int, drawn: list[Trouble], progress) -> Counter:
    """Have a trouble happen to a run soon after each of some iterations, and let it end; count those that happened."""
    happened: Counter[Trouble] = Counter()
    for iteration, trouble in zip(sorted(draw.integers(0, iterations, len(drawn))), drawn, strict=True):
        run = Run(folder, options)
        if run.wait_for(iteration):
            time.sleep(draw.exponential(POLL_SECONDS))
            happened[trouble] += run.meet(trouble)
        else:
            run.kill()
        progress(iterations + int(iteration))
    Run(folder, options).end()
    return happened
