"""Several ranks have the bits of one device: each check of program.py, run under mpiexec."""

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
    ("check", "ranks", "arguments"),
    [
        ("passes", 4, ()),
        ("passes", 2, ("sim",)),
        ("pipeline", 3, ("3",)),
        ("pipeline", 4, ("2",)),
        ("pipeline", 2, ("2", "sim")),
        ("measures", 2, ()),
        ("measures", 4, ("2",)),
        ("sums", 4, ()),
        ("failure", 2, ()),
        ("failure", 4, ("2",)),
        ("diverged", 2, ()),
        ("refusals", 4, ()),
        ("strayed", 2, ()),
    ],
)
def test_ranks(check, ranks, arguments):
    done = on_ranks(ranks, "-m", "tests.device.ranks.program", check, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{check} done" in done.stdout
