"""Runs learn, log, stop cleanly, and go on with the same bits."""

import json
import os
import signal

import numpy as np
import pytest

from etalstm.device import open_device
from etalstm.errors import CheckpointError, DivergedError
from etalstm.train.loop import CHECKPOINT, METRICS, Trainer
from etalstm.train.settings import Settings

DIGITS = Settings("digits", hidden=8, batch=64, epochs=2, seed=3)
PYDOC = Settings("pydoc", hidden=12, layers=2, batch=16, steps=16, embedding=8, iterations=9, evaluation_batches=2)


def train(out, settings, resume=False, report=lambda entry: None):
    return Trainer(settings, open_device("golden"), out, resume).run(report)


def changed(settings, **changes):
    return Settings(**{**vars(settings), **changes})


def log(out):
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


def without_seconds(entries):
    return [{key: value for key, value in entry.items() if key != "seconds"} for entry in entries]


@pytest.fixture(scope="module", params=[changed(DIGITS, iterations=30), PYDOC], ids=lambda settings: settings.dataset)
def whole(request, tmp_path_factory):
    """A run that was never interrupted."""
    out = tmp_path_factory.mktemp(request.param.dataset)
    train(out, request.param)
    return request.param, out


@pytest.mark.parametrize("stops", [(1,), (4, 8), (19, 21)])
def test_a_resumed_run_has_the_bits_and_the_log_of_an_uninterrupted_one(whole, tmp_path, stops):
    settings, out = whole
    for n, stop in enumerate(stops):  # digits have 19 iterations an epoch: one stop is at its very end
        train(tmp_path, changed(settings, iterations=min(stop, settings.iterations)), resume=n > 0)
    train(tmp_path, settings, resume=True)
    assert (tmp_path / CHECKPOINT).read_bytes() == (out / CHECKPOINT).read_bytes()
    assert without_seconds(log(tmp_path)) == without_seconds(log(out))


def test_the_log_has_an_object_for_every_iteration_and_epoch(whole):
    settings, out = whole
    entries = log(out)
    score = "perplexity" if settings.dataset == "pydoc" else "accuracy"
    for entry in entries:
        assert {"iteration", "epoch", "loss", score, "cycles", "seconds"} <= entry.keys()
    iterations = [entry["iteration"] for entry in entries if entry["kind"] == "iteration"]
    assert iterations == list(range(1, settings.iterations + 1))
    assert entries[-1]["kind"] == "test"
    assert [entry["epoch"] for entry in entries if entry["kind"] == "epoch"] == ([1] if score == "accuracy" else [])


def test_equal_seeds_run_equally_and_others_do_not(whole, tmp_path):
    settings, out = whole
    train(tmp_path / "same", settings)
    train(tmp_path / "other", changed(settings, seed=99))
    assert (tmp_path / "same" / CHECKPOINT).read_bytes() == (out / CHECKPOINT).read_bytes()
    assert (tmp_path / "other" / CHECKPOINT).read_bytes() != (out / CHECKPOINT).read_bytes()


def test_lines_after_the_last_checkpoint_are_logged_once(tmp_path):
    train(tmp_path, changed(DIGITS, iterations=3))
    with open(tmp_path / METRICS, "a") as file:
        file.write('{"kind": "iteration", "iteration": 4, "loss": 9}\n{"kind": "itera')
    train(tmp_path, changed(DIGITS, iterations=5), resume=True)
    assert [entry["iteration"] for entry in log(tmp_path)] == [1, 2, 3, 4, 5, 5]


def test_ctrl_c_finishes_the_iteration_and_writes_a_checkpoint(tmp_path):
    def interrupt(entry):
        if entry["kind"] == "iteration" and entry["iteration"] == 5:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    last = train(tmp_path, DIGITS, report=interrupt)
    assert last["kind"] == "interrupted" and last["iteration"] in (5, 6)
    assert signal.getsignal(signal.SIGINT) is before
    train(tmp_path, changed(DIGITS, iterations=12), resume=True)
    train(tmp_path / "whole", changed(DIGITS, iterations=12))
    assert (tmp_path / CHECKPOINT).read_bytes() == (tmp_path / "whole" / CHECKPOINT).read_bytes()


def test_a_run_that_fails_keeps_its_last_checkpoint(tmp_path):
    def fail(entry):
        if entry["iteration"] == 6:
            raise RuntimeError("the power went")

    with pytest.raises(RuntimeError):
        train(tmp_path, changed(DIGITS, checkpoint_every=4), report=fail)
    train(tmp_path, changed(DIGITS, iterations=7), resume=True)
    assert [entry["iteration"] for entry in log(tmp_path)] == [1, 2, 3, 4, 5, 6, 7, 7]


def test_divergence_is_an_error_and_keeps_the_checkpoint(tmp_path):
    train(tmp_path, changed(DIGITS, iterations=2))
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(DivergedError):
        train(tmp_path, changed(DIGITS, learning_rate=1e38, clip=0.0, iterations=9), resume=True)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"hidden": 9}, "hidden_size is 8, here it is 9"), ({"batch": 32}, "batch is 64, here it is 32"),
     ({"layers": 2}, "layers is 1, here it is 2")],
)  # fmt: skip
def test_a_checkpoint_of_another_run_is_refused(tmp_path, changes, message):
    train(tmp_path, changed(DIGITS, iterations=1))
    with pytest.raises(CheckpointError, match=message):
        train(tmp_path, changed(DIGITS, **changes), resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"dataset": "mnist"}, "unknown data set"), ({"hidden": 0}, "hidden must be above 0, got 0"),
     ({"steps": 9}, "steps must be 8"), ({"batch": 2000}, "batch must be at most"),
     ({"learning_rate": float("nan")}, "learning_rate"), ({"seed": -1}, "seed"), ({"iterations": 0}, "iterations")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        train(tmp_path, changed(DIGITS, **changes))


def test_stateful_batches_carry_the_state_and_an_epoch_starts_without(tmp_path):
    small = changed(PYDOC, hidden=2, layers=1, embedding=2, batch=1000, steps=100, epochs=1, iterations=None)
    trainer = Trainer(small, open_device("golden"), tmp_path)
    states = []
    forward = trainer.session.forward
    trainer.session.forward = lambda x, lengths, h, c: states.append(h.any()) or forward(x, lengths, h, c)
    trainer.run()
    per_epoch = trainer.total_iterations
    assert states[:per_epoch] == [False] + [True] * (per_epoch - 1)
    assert not states[per_epoch], "evaluation starts from zero"
    assert not np.any(trainer._h)


def test_digits_are_learnt_with_the_defaults(tmp_path):
    """Above 0.9 on the test split within 250 iterations, the figure behind the defaults."""
    last = train(tmp_path, Settings("digits", iterations=250))
    assert last["accuracy"] >= 0.9


def test_a_language_is_learnt(tmp_path):
    entries = []
    train(tmp_path, changed(PYDOC, iterations=80, batch=32), report=entries.append)
    assert entries[79]["perplexity"] < 0.4 * entries[0]["perplexity"]
