"""The comparison of the simulators, on a small machine: its numbers, and what it says without cocotb."""

import importlib.util
import json

import pytest

from etalstm.cli.main import run
from etalstm.errors import DeviceError
from etalstm_sim.compiled.library import build_library
from etalstm_sim.trials.speed import builds, protocol_cost


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


def test_both_builds_run_the_same_pass(monkeypatch, capsys):
    # The one by channels is then the one that tests/sim/compiled/test_apart.py builds: it is compiled once.
    built = lambda design, log: build_library(design, "vcd" if design.channel else None, log)  # noqa: E731
    monkeypatch.setattr(builds, "build_library", built)
    sizes = ["--input", "3", "--hidden", "5", "--batch", "2", "--steps", "2"]
    assert run(["bench", "simulators", "--preset", "test", "--against", "whole", *sizes, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cycles"] > 1000
    for name in ("whole", "apart"):
        assert found[f"{name}_cycles_per_second"] > 1000
        assert found[f"{name}_build_seconds"] > 1
    assert found["ratio"] == pytest.approx(found["apart_cycles_per_second"] / found["whole_cycles_per_second"])


def test_a_simulator_without_checkers_runs_the_same_pass(capsys):
    sizes = ["--input", "3", "--hidden", "5", "--batch", "2", "--steps", "2"]
    assert run(["bench", "simulators", "--preset", "test", "--against", "unchecked", *sizes, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cycles"] > 1000 and found["ratio"] == pytest.approx(found["checked"] / found["unchecked"])


def test_checkers_that_change_a_result_are_refused(monkeypatch):
    results = ({"cycles": 7, "seconds": 1.0, "checksum": n} for n in range(2 * protocol_cost.ROUNDS))
    monkeypatch.setattr(protocol_cost, "run_iteration", lambda *_: next(results))
    with pytest.raises(DeviceError, match="cycles and checksums differ with the checkers and without them"):
        protocol_cost.compare_checkers("test", None)


def test_builds_that_differ_are_refused(monkeypatch):
    results = iter([{"cycles": 7, "checksum": 1}, {"cycles": 8, "checksum": 1}])
    monkeypatch.setattr(builds, "_run_build", lambda *_: next(results))
    with pytest.raises(DeviceError, match="the cycles of the two builds differ: 7 in one piece, 8 apart"):
        builds.compare_builds("test", None)
