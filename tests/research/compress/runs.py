"""Makes runs, and gives what they leave."""

import json
import os
import signal
from multiprocessing import get_context

import torch

from etalstm.research.compress.changes import Target
from etalstm.research.compress.run import Run, entries_of_rounds
from etalstm.research.compress.task import TASKS
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log


def make_run(
    guides, settings, path, engine="golden", resume=False, report=lambda entry: None,
    cycles=lambda sizes: sum(sizes.units),
):  # fmt: skip
    """Make a run in a folder, and give its last entry."""
    target = Target(guides, cycles, 0)
    with RunFolder(path) as folder:
        folder.open(resume)
        return Run(settings, TASKS[settings.task](settings), folder, engine, target, resume).run(report)


def kill_run(go, settings, path, writes):
    """Make a run in a process of its own, which dies at its next checkpoint after so many; give its exit code.

    It dies as by SIGKILL, while it has the temporary file of the checkpoint and before that has its name.
    """
    process = get_context("spawn").Process(target=_run_and_die, args=(go, settings, path, writes))
    process.start()
    process.join()
    return process.exitcode


def _run_and_die(go, settings, path, writes):
    torch.set_num_threads(1)  # as the tests do: the number of threads is part of the bits
    replace, count = os.replace, 0

    def killed(source, target):
        nonlocal count
        count += "safetensors" in str(target)
        if count > writes:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = killed
    go(settings, path)


def files_of(path):
    return [(path / f"{name}.safetensors").read_bytes() for name in ("checkpoint", "best", "dense")]


def rounds_of(path):
    return entries_of_rounds(read_log(path / "metrics.jsonl"))


def without_seconds(path):
    entries = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    kept = [{name: entry[name] for name in entry if name != "seconds"} for entry in entries]
    return [entry for entry in kept if entry["kind"] != "interrupted"]


def check_interrupted(go, settings, place, iterations):
    """Check that a run that is interrupted after some iterations, and goes on, leaves what a whole run leaves."""
    whole = go(settings, place / "whole")
    stops = iter(iterations)
    stop = next(stops)

    def interrupt(entry):
        nonlocal stop
        if entry["kind"] == "iteration" and entry["iteration"] >= stop:
            stop = next(stops, 10**9)
            os.kill(os.getpid(), signal.SIGTERM)

    last, resume = {"kind": "interrupted"}, False
    while last["kind"] == "interrupted":
        last = go(settings, place / "parts", resume=resume, report=interrupt)
        resume = True
    assert last == whole and stop == 10**9, "all interruptions took place"
    assert files_of(place / "whole") == files_of(place / "parts")
    assert without_seconds(place / "parts") == without_seconds(place / "whole")
