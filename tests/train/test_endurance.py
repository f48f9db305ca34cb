"""A run that is killed again and again leaves the checkpoint of one that is left alone."""

import json

import pytest

from etalstm.cli import run
from etalstm.errors import RunError
from etalstm.train import endurance


def test_a_killed_run_leaves_the_same_bits(capsys):
    arguments = ["bench", "endurance", "--iterations", "120", "--kills", "3", "--checkpoint-every", "7", "--json"]
    assert run(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["same"] and found["once"] and found["iterations"] == 120
    assert 0 < found["kills"] <= 3
    assert found["settled_bytes"] > 0


def test_another_checkpoint_is_told(monkeypatch, capsys):
    different = {"iterations": 5, "kills": 1, "same": False, "once": True, "settled_bytes": 1, "last_bytes": 1}
    monkeypatch.setattr("etalstm.commands.endurance.endure", lambda *_: different)
    assert run(["bench", "endurance"]) == 1
    assert "another checkpoint" in capsys.readouterr().out


def test_a_run_that_fails_says_why():
    with pytest.raises(RunError, match=r"alone: the run has failed: .*there is no such device|unknown device"):
        endurance.endure(["--dataset", "digits", "--device", "none"], 5, 0, 0)


@pytest.mark.parametrize("numbers", [(0, 1, 0), (5, -1, 0), (5, 1, -1)])
def test_refuses(numbers):
    with pytest.raises(ValueError, match="must be"):
        endurance.endure([], *numbers)
