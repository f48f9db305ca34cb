"""However a run ends, what it has done is kept, and is done once."""

import os
import signal

import numpy as np
import pytest

from etalstm.device import open_device
from etalstm.errors import DivergedError
from etalstm.train.checkpoint import Checkpoint
from etalstm.train.folder import BEST, CHECKPOINT, METRICS
from etalstm.train.loop import Interrupt, Trainer
from etalstm.train.model import HostModel
from tests.runs import DIGITS, PYDOC, changed, done, log, train


def test_lines_after_the_last_checkpoint_are_logged_once(tmp_path):
    train(tmp_path, changed(DIGITS, iterations=3))
    with open(tmp_path / METRICS, "a") as file:
        file.write('{"kind": "iteration", "iteration": 4, "epoch": 1, "loss": 9}\n{"kind": "itera')
    train(tmp_path, changed(DIGITS, iterations=5), resume=True)
    assert [entry["iteration"] for entry in done(tmp_path)] == [1, 2, 3, 4, 5, 5]


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
    assert [entry["iteration"] for entry in done(tmp_path)] == [1, 2, 3, 4, 5, 6, 7, 7]


def test_an_interrupted_evaluation_stops_soon_and_happens_again(tmp_path, monkeypatch):
    """A signal during the first evaluation: no epoch is logged, and the bits are those of a run without it."""
    evaluated = []

    def interrupted(model, batch, y, compare=HostModel.evaluate):
        evaluated.append(batch)
        if len(evaluated) == 1:  # a second one would end this process
            os.kill(os.getpid(), signal.SIGTERM)
        return compare(model, batch, y)

    settings = changed(DIGITS, batch=16, epochs=1)
    with monkeypatch.context() as patch:
        patch.setattr(HostModel, "evaluate", interrupted)
        last = train(tmp_path, settings)
    assert len(evaluated) == 1 and last["kind"] == "interrupted" and last["signal"] == "SIGTERM"
    assert "epoch" not in {entry["kind"] for entry in log(tmp_path)}
    train(tmp_path, settings, resume=True)
    train(tmp_path / "whole", settings)
    assert (tmp_path / CHECKPOINT).read_bytes() == (tmp_path / "whole" / CHECKPOINT).read_bytes()
    assert done(tmp_path)[:-1] == done(tmp_path / "whole")[:-1]


def test_a_crash_between_an_epochs_line_and_its_checkpoint_repeats_no_line(tmp_path):
    def fail(entry):
        if entry["kind"] == "epoch":
            raise RuntimeError("the power went")

    settings = changed(DIGITS, batch=64, epochs=1, checkpoint_every=19)
    with pytest.raises(RuntimeError):
        train(tmp_path, settings, report=fail)
    assert log(tmp_path)[-1]["kind"] == "epoch"
    train(tmp_path, settings, resume=True)
    assert [entry["kind"] for entry in log(tmp_path)].count("epoch") == 1


def test_the_best_checkpoint_is_that_of_the_lowest_validation_loss(tmp_path):
    settings = changed(DIGITS, batch=256, epochs=12, learning_rate=1.5, clip=0.0)
    train(tmp_path, settings)
    losses = [entry["loss"] for entry in log(tmp_path) if entry["kind"] == "epoch"]
    best = Checkpoint.read(tmp_path / BEST).description.position
    assert best.epoch == losses.index(min(losses)) + 1 < 12 and best.best.best == min(losses)


def test_early_stopping_ends_a_run_and_tests_the_best_weights(tmp_path):
    settings = changed(DIGITS, batch=256, epochs=60, learning_rate=1.5, clip=0.0, early_stopping=2)
    last = train(tmp_path, settings)
    losses = [entry["loss"] for entry in log(tmp_path) if entry["kind"] == "epoch"]
    best = losses.index(min(losses)) + 1
    assert len(losses) == best + 2 == last["epoch"] < 60
    train(tmp_path / "short", changed(settings, epochs=best, early_stopping=None))
    expected = log(tmp_path / "short")[-1]
    assert last["loss"] == expected["loss"]


def test_the_hosts_divergence_is_found_before_the_device_has_updated(tmp_path):
    trainer = Trainer(DIGITS, open_device("golden"), tmp_path)
    learner = trainer.learner
    take = learner.model.set_output_gradients

    def overflown(gradients):
        take(gradients)
        learner.model.gradients["output.bias"][:] = np.inf

    learner.model.set_output_gradients = overflown
    before = [entry.weights for entry in learner.session.parameters()]
    host = {name: array.copy() for name, array in learner.model.parameters.items()}
    batch = trainer.data.epoch("train", 64, 8, np.random.default_rng(0))[0]
    with pytest.raises(DivergedError):
        learner.iterate(batch, 0.1)
    after = [entry.weights for entry in learner.session.parameters()]
    assert all(map(np.array_equal, before, after))
    assert all(np.array_equal(array, learner.model.parameters[name]) for name, array in host.items())


def test_splits_that_fill_no_batch_are_found_before_training(tmp_path):
    """A batch that the 325,000 characters for training fill, and the 46,500 for validation do not."""
    with pytest.raises(ValueError, match="characters in validation, got"):
        train(tmp_path, changed(PYDOC, batch=60_000, steps=1))
    assert not (tmp_path / CHECKPOINT).exists()


def test_divergence_is_an_error_and_keeps_the_checkpoint(tmp_path):
    train(tmp_path, changed(DIGITS, iterations=2))
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(DivergedError):
        train(tmp_path, changed(DIGITS, learning_rate=1e38, clip=0.0, iterations=9), resume=True)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup has it
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.requested == signal.SIGTERM
    finally:
        signal.signal(signal.SIGHUP, before)
