"""Makes runs, and gives what they leave."""

import json
import os
import signal

from etalstm.compress.run import Run, Target, entries_of_rounds
from etalstm.compress.task import TASKS
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log


def make_run(guides, settings, path, engine="golden", resume=False, report=lambda entry: None):
    """Make a run in a folder, and give its last entry."""
    target = Target(guides, lambda sizes: sum(sizes.units))
    with RunFolder(path) as folder:
        folder.open(resume)
        return Run(settings, TASKS[settings.task](settings), folder, engine, target, resume).run(report)


def files_of(path):
    return [(path / f"{name}.safetensors").read_bytes() for name in ("checkpoint", "best")]


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
