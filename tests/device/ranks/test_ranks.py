"""Several ranks have the bits of one device: the checks of program.py, run under mpiexec."""

import subprocess
import sys
from pathlib import Path

import pytest

from etalstm.train.launch import find_mpiexec

ROOT = Path(__file__).parents[3]
SECONDS = 300


def on_ranks(count, *arguments):
    command = [find_mpiexec(), "-n", str(count), sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.parametrize(
    ("ranks", "checks"),
    [
        (4, ["passes", "pipeline:2", "measures:2", "failure:2", "refusals"]),
        (4, ["sums"]),
        (4, ["integers", "integers_pipeline:2"]),
        (3, ["pipeline:3"]),
        (2, ["passes:sim", "pipeline:2:sim", "integers", "integers:sim", "measures", "failure", "diverged", "strayed"]),
    ],
    ids=lambda each: str(each) if isinstance(each, int) else each[0],
)
def test_ranks(ranks, checks):
    done = on_ranks(ranks, "-m", "tests.device.ranks.program", *checks)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [check for check in checks if f"{check} done" not in done.stdout] == []
