"""A run that is killed, or cannot write any more, again and again leaves the checkpoint of one that is left alone."""

import json
import os
import re
import sys

import pytest

from etalstm.cli.main import run
from etalstm.errors import RunError
from etalstm.research import endurance
from etalstm.research.endurance import Run, Trouble
from etalstm.train.folder import RunFolder

OPTIONS = ["--dataset", "digits", "--hidden", "5", "--batch", "8", "--evaluation-batches", "1", "--epochs", "1000000"]
LONG = [*OPTIONS, "--checkpoint-every", "5", "--iterations", "100000"]


def test_a_troubled_run_leaves_the_same_bits(capsys):
    arguments = ["verify", "endurance", "--iterations", "120", "--troubles", "6", "--checkpoint-every", "7", "--json"]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same"] and found["once"] and found["iterations"] == 120
    assert found["troubles"]["killed"] and 0 < sum(found["troubles"].values()) <= 6
    assert {*found["troubles"], *found["impossible"]} == {kind.value for kind in Trouble}
    assert found["settled_bytes"] > 0


def test_a_run_whose_disk_is_full_names_the_file_and_goes_on_later(tmp_path):
    folder = RunFolder(tmp_path / "run")
    first = Run(folder, LONG)
    assert first.wait_for(12) and first.disturb(Trouble.FULL_DISK)
    second = Run(folder, LONG)
    assert second.wait_for(20)
    second.kill()


def test_a_run_whose_folder_is_read_only_names_the_file_and_goes_on_later(tmp_path):
    if Trouble.READ_ONLY not in endurance.possible(tmp_path):
        pytest.skip("permissions do not stop root")
    folder = RunFolder(tmp_path / "run")
    first = Run(folder, LONG)
    assert first.wait_for(12) and first.disturb(Trouble.READ_ONLY)
    assert os.access(folder.path, os.W_OK)
    second = Run(folder, LONG)
    assert second.wait_for(20)
    second.kill()


@pytest.fixture
def stubborn(monkeypatch, tmp_path):
    """A run that is another program."""

    def make(program):
        real = endurance.subprocess.Popen
        monkeypatch.setattr(
            endurance.subprocess, "Popen", lambda command, **given: real([sys.executable, "-c", program], **given)
        )
        (tmp_path / "run").mkdir()
        return Run(RunFolder(tmp_path / "run"), [])

    return make


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('there is something wrong')", "must name a file, the run ended with 1: there is some"),
        ("import os; os.abort()", "the run ended with -6"),
        ("import time; time.sleep(1000)", "full disk: the run was still going on after 0.1 seconds"),
    ],
)
def test_a_run_that_does_not_end_as_it_should_is_told(monkeypatch, stubborn, program, message):
    if "still going on" in message:
        monkeypatch.setattr(endurance, "END_SECONDS", 0.1)
    with pytest.raises(RunError, match=message):
        stubborn(program).disturb(Trouble.FULL_DISK)


def test_a_run_that_was_done_has_met_nothing(stubborn):
    assert not stubborn("pass").disturb(Trouble.FULL_DISK)


def test_another_checkpoint_is_told(monkeypatch, capsys):
    different = {"iterations": 5, "troubles": {"killed": 1}, "impossible": ["read-only folder"], "same": False}
    different |= {"once": True, "settled_bytes": 1, "last_bytes": 1}
    monkeypatch.setattr("etalstm.cli.verify.endurance.endure", lambda *_: different)
    assert run(["verify", "endurance"]) == 1
    said = capsys.readouterr().out
    for line in (
        "another checkpoint",
        "5 iterations; killed: 1",
        "permissions do not stop this user: read-only folder",
    ):
        assert re.search(line, said)


def test_a_run_that_fails_says_why():
    with pytest.raises(RunError, match=r"alone: the run has failed: .*there is no such device|unknown device"):
        endurance.endure(["--dataset", "digits", "--device", "none"], 5, 0, 0)


@pytest.mark.parametrize("numbers", [(0, 1, 0), (5, -1, 0), (5, 1, -1)])
def test_refuses(numbers):
    with pytest.raises(ValueError, match="must be"):
        endurance.endure([], *numbers)
