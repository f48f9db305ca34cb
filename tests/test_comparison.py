"""Comparisons: what they see, and that they cannot pass by accident."""

import json

import numpy as np
import pytest

from etalstm.cli import run
from etalstm.comparison import Comparison, RandomRun, compare, training_run
from etalstm.device import TrainingShape, open_device
from etalstm.network import NetworkShape
from etalstm.storage import Storage

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


def test_sees_one_wrong_bit_of_a_session():
    class Wrong:
        def __init__(self, session):
            self._session = session

        def __getattr__(self, name):
            return getattr(self._session, name)

        def velocities(self):
            entries = self._session.velocities()
            entries[0].weights.view(np.uint32)[3, 1] ^= 1
            return entries

    found = compare({"right": golden(), "wrong": Wrong(golden())}, SHAPE, RandomRun(1, "per-step", 0))
    assert found.mismatched_words == 1
    assert found.first_mismatch["tensor"] == "iteration 0: velocities of layer 0"


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
        arguments = ["compare", "--devices", "golden,golden", "--storage", "ms1-bf16", "--json"]
        arguments += ["--theta", "0.1,0.1,0.1,0.1,0.2,0.5"]
        assert run([*arguments, "--layers", "2", "--skip-cells", skipped]) == 0
        words[skipped] = json.loads(capsys.readouterr().out)["words"]
    assert words["0"] == words["0.5"] > 0
    shape = TrainingShape(NetworkShape(3, 5), 2, 4, storage=Storage("ms1", 0.1))
    runs = [dict(training_run(golden(which), which, RandomRun(1, "last", 0, share))) for which, share in
            ((SHAPE, 0.0), (shape, 0.0), (shape, 0.5))]  # fmt: skip
    dx = [tensors["iteration 0: dx"] for tensors in runs]
    assert not np.array_equal(dx[0], dx[1]) and not np.array_equal(dx[1], dx[2])


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_refuses_a_share_of_skipped_cells_that_cannot_be(share):
    with pytest.raises(ValueError, match="skip_cells must be 0 to 1"):
        RandomRun(1, "last", 0, share)
