"""The comparison of the simulators, on a small machine: its numbers, and what it says without cocotb."""

import importlib.util
import json

import pytest

from etalstm.cli import run


def test_both_simulators_run_the_same_pass(capsys):
    sizes = ["--input", "3", "--hidden", "5", "--batch", "2", "--steps", "2"]
    assert run(["bench", "simulators", "--preset", "test", *sizes, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    speeds = found["sim_cycles_per_second"], found["cocotb_cycles_per_second"]
    assert found["ratio"] == pytest.approx(speeds[0] / speeds[1])
    # The memories differ in latency, the program does not.
    assert 0.5 < found["cocotb_cycles"] / found["cycles"] < 2, found


def test_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert run(["bench", "simulators"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "Try: pip install cocotb cocotbext-axi" in error
