"""Comparisons: what they see, and that they cannot pass by accident."""

import importlib
import json

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.device import TrainingShape, open_device
from etalstm.device.comparison import Comparison, RandomRun, compare, training_run
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage

SHAPE = TrainingShape(NetworkShape(3, 5), 2, 4)


def golden(shape=SHAPE):
    return open_device("golden").create(shape)


def test_finds_no_difference_between_equal_devices():
    found = compare({"a": golden(), "b": golden()}, SHAPE, RandomRun(2, "last", 0))
    assert found.mismatched_words == 0 and found.words > 1000 and found.tensors == 26


def test_tells_zeros_of_different_sign_apart_and_names_the_first():
    comparison = Comparison()
    comparison.add("x", {"a": np.zeros((2, 2), np.float32), "b": np.array([[0, 0], [0, -0.0]], np.float32)})
    assert comparison.mismatched_words == 1
    assert comparison.first_mismatch == {"tensor": "x", "index": [1, 1], "a": "0x00000000", "b": "0x80000000"}


class Wrong:
    """A session with one wrong bit in its velocities, from one of its updates on; its clock counts calls of forward."""

    def __init__(self, session, update=1):
        self._session, self._update, self._updates, self.clock = session, update, 0, 40

    def __getattr__(self, name):
        return getattr(self._session, name)

    def forward(self, *arguments):
        self.clock += 100
        return self._session.forward(*arguments)

    def update(self, *arguments):
        self._updates += 1
        self._session.update(*arguments)

    def velocities(self):
        entries = self._session.velocities()
        if self._updates >= self._update:
            entries[0].weights.view(np.uint32)[3, 1] ^= 1
        return entries


def test_sees_one_wrong_bit_of_a_session():
    found = compare({"right": golden(), "wrong": Wrong(golden())}, SHAPE, RandomRun(1, "per-step", 0))
    assert found.mismatched_words == 1
    assert found.first_mismatch["tensor"] == "iteration 0: velocities of layer 0"


@pytest.mark.parametrize(("update", "cycles"), [(1, (40, 140)), (2, (140, 240)), (3, (240, 340))])
def test_tells_when_the_iteration_of_the_first_mismatch_was(update, cycles):
    wrong = Wrong(golden(), update)
    found = compare({"right": golden(), "wrong": wrong}, SHAPE, RandomRun(4, "last", 0), lambda: wrong.clock)
    assert found.mismatched_words and found.cycles == cycles


def test_a_mismatch_says_how_to_get_a_waveform(capsys, monkeypatch):
    different = Comparison(3, 9, 1, {"tensor": "y"}, (100, 250))
    monkeypatch.setattr(importlib.import_module("etalstm.cli.verify.compare"), "run_comparison", lambda *_: different)
    assert run(["verify", "compare"]) == 1
    assert "--trace FILE.fst --trace-first 100 --trace-last 250" in capsys.readouterr().out
    assert run(["verify", "compare", "--devices", "golden,golden"]) == 1
    assert "--trace" not in capsys.readouterr().out


def test_a_waveform_of_a_comparison_has_the_cycles_asked_for(monkeypatch, tmp_path):
    # The simulator is then the one that tests/sim/compiled/test_apart.py builds: it is compiled once.
    monkeypatch.setattr("etalstm_sim.compiled.library.APART_CHANNELS", 2)
    path = tmp_path / "machine.vcd"
    options = ["--trace", str(path), "--trace-first", "1000", "--trace-last", "1100"]
    assert run(["verify", "compare", "--devices", "sim,golden", "--preset", "test", "--hidden", "4", *options]) == 0
    lines = path.read_text().splitlines()
    times = [int(line[1:]) for line in lines if line.startswith("#")]
    assert times[0] == 2000 and times[-1] == 2201
    assert any(line.startswith("sSTORE\\x20address=") and "\\x20;\\x20" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify", "compare", "--devices", "golden,golden", "--trace", "x.vcd"], "--trace needs a simulated device"),
        (["verify", "compare", "--trace-first", "3"], "--trace-first is only used with --trace"),
        (["verify", "compare", "--trace", "x.png"], "waveform must be one of fst, vcd, got 'png'"),
        (["bench", "iteration", "--trace-last", "3"], "--trace-last is only used with --trace"),
        (["bench", "iteration", "--weights", "x", "--trace", "x.vcd"], "--trace is not used with --weights"),
        (["hw", "selftest", "--device", "xdma:0", "--trace", "x.vcd"], "--trace needs a simulated machine"),
    ],
    ids=str,
)
def test_a_waveform_that_cannot_be_is_refused(capsys, arguments, message):
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


def test_a_last_step_loss_only_reaches_the_last_steps():
    dx = {
        loss: dict(training_run(golden(), SHAPE, RandomRun(1, loss, 0)))["iteration 0: dx"]
        for loss in ("last", "per-step")
    }
    assert not np.array_equal(dx["last"], dx["per-step"])


def test_refuses_an_unknown_loss():
    with pytest.raises(ValueError, match="loss must be one of last, per-step, got 'mean'"):
        RandomRun(1, "mean", 0)


def test_storage_and_skipped_cells_are_compared(capsys):
    words = {}
    for skipped in ("0", "0.5"):
        arguments = ["verify", "compare", "--devices", "golden,golden", "--storage", "ms1-bf16", "--json"]
        arguments += ["--theta", "0.1,0.1,0.1,0.1,0.2,0.5"]
        assert run([*arguments, "--layers", "2", "--skip-cells", skipped]) == 0
        words[skipped] = json.loads(capsys.readouterr().out)["words"]
    assert words["0"] == words["0.5"] > 0
    shape = TrainingShape(NetworkShape(3, 5), 2, 4, Execution(storage=Storage("ms1", 0.1)))
    runs = [dict(training_run(golden(which), which, RandomRun(1, "last", 0, share))) for which, share in
            ((SHAPE, 0.0), (shape, 0.0), (shape, 0.5))]  # fmt: skip
    dx = [tensors["iteration 0: dx"] for tensors in runs]
    assert not np.array_equal(dx[0], dx[1]) and not np.array_equal(dx[1], dx[2])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_refuses_a_share_of_skipped_cells_that_cannot_be(share):
    with pytest.raises(ValueError, match="skip_cells must be 0 to 1"):
        RandomRun(1, "last", 0, share)
