"""Runs learn, log, and go on with the same bits."""

import numpy as np
import pytest

from etalstm.device import open_device
from etalstm.errors import CheckpointError, DeviceError
from etalstm.train.folder import CHECKPOINT
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings
from tests.runs import DIGITS, PYDOC, changed, done, log, train

REDUCED = Settings(
    "digits",
    hidden=8,
    layers=2,
    batch=256,
    epochs=6,
    seed=3,
    theta=(0.05, 0.05, 0.05, 0.05, 0.05, 0.3),
    storage="ms1-bf16",
    ms2=0.3,
    delta_target=0.3,
    input_threshold="0.1/0.05,0.1",
    refresh=3,
    learning_rate=0.5,
    decay=0.9,
)


@pytest.fixture(
    scope="module",
    params=[changed(DIGITS, iterations=30), PYDOC, changed(REDUCED, iterations=23)],
    ids=lambda settings: f"{settings.dataset} {settings.policy}",
)
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
    assert done(tmp_path) == done(out)


def test_the_log_has_an_object_for_every_iteration_and_epoch(whole):
    settings, out = whole
    entries = log(out)
    score = "perplexity" if settings.dataset == "pydoc" else "accuracy"
    for entry in entries:
        assert {"iteration", "epoch", "loss", score, "cycles", "seconds"} <= entry.keys()
    iterations = [entry["iteration"] for entry in entries if entry["kind"] == "iteration"]
    assert iterations == list(range(1, settings.iterations + 1))
    assert entries[-1]["kind"] == "test"
    few = settings.evaluation_batches
    assert entries[-1]["batches"] == (few or entries[-1]["of_batches"]) <= entries[-1]["of_batches"]
    epochs = {"pydoc dense": [], "digits dense": [1], "digits ms1-bf16": [1, 2, 3, 4, 5]}
    assert [entry["epoch"] for entry in entries if entry["kind"] == "epoch"] == epochs[
        f"{settings.dataset} {settings.policy}"
    ]


def test_equal_seeds_run_equally_and_others_do_not(whole, tmp_path):
    settings, out = whole
    train(tmp_path / "same", settings)
    train(tmp_path / "other", changed(settings, seed=99))
    assert (tmp_path / "same" / CHECKPOINT).read_bytes() == (out / CHECKPOINT).read_bytes()
    assert (tmp_path / "other" / CHECKPOINT).read_bytes() != (out / CHECKPOINT).read_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"hidden": 9}, "hidden_size is 8, here it is 9"), ({"batch": 32}, "batch is 64, here it is 32"),
     ({"layers": 2}, "layers is 1, here it is 2"), ({"seed": 4}, "seed is 3, here it is 4"),
     ({"optimizer": "adam"}, "optimizer is sgd, here it is adam")],
)  # fmt: skip
def test_a_checkpoint_of_another_run_is_refused(tmp_path, changes, message):
    train(tmp_path, changed(DIGITS, iterations=1))
    with pytest.raises(CheckpointError, match=message):
        train(tmp_path, changed(DIGITS, **changes), resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"dataset": "mnist"}, "unknown data set"), ({"hidden": 0}, "hidden must be above 0, got 0"),
     ({"steps": 9}, "steps must be 8"), ({"batch": 2000}, "batch must be at most"),
     ({"learning_rate": float("nan")}, "learning_rate"), ({"seed": -1}, "seed"), ({"iterations": 0}, "iterations"),
     ({"theta": -0.1}, "theta must be finite and at least 0, got -0.1"), ({"theta": float("nan")}, "theta"),
     ({"theta": (0.1, 0.2)}, "one for each of i, f, g, o, s, r, got 2"), ({"decay": 0.0}, "decay must be above 0"),
     ({"storage": "ms3"}, "storage must be one of"),
     ({"storage": "dense", "theta": 0.1}, "dense storage prunes nothing: theta must be 0, got 0.1$"),
     ({"ms2": 1.0}, "ms2 must be at least 0 and below 1"), ({"ms2": -0.1}, "ms2"), ({"ms2": float("nan")}, "ms2"),
     ({"delta_target": 0.0}, "delta_target must be above 0 and below 1"), ({"delta_target": float("nan")}, "delta_t"),
     ({"delta_target": 0.1, "storage": "dense"}, "dense cells keep δ whole: .* storage cannot be dense"),
     ({"delta_target": 0.1, "storage": "auto"}, "storage cannot be auto"),
     ({"input_threshold": "0.1,0.2"}, "one for each of 1 layers, got 2: 0.1,0.2"), ({"refresh": -1}, "refresh must be"),
     ({"input_threshold": -0.1}, "input_threshold must be finite and at least 0, got -0.1"),
     ({"input_threshold": True}, "input_threshold must be a number .*got 'True'"),
     ({"input_threshold": 0.1, "refresh": 1}, "with refresh 1 everything is sent: input_threshold must be 0, got 0.1"),
     ({"input_target": 0.0}, "input_target must be above 0 and below 1, or off, got 0.0"),
     ({"input_target": 1}, "input_target must be above 0 and below 1"), ({"input_target": float("nan")}, "input_tar"),
     ({"input_target": 0.4, "input_threshold": 0.1}, "input_threshold must be 0 with it, got 0.1"),
     ({"input_target": 0.4, "refresh": 1}, "with refresh 1 everything is sent: input_target must be off, got 0.4"),
     ({"input_target": 0.4, "refresh": -2}, "refresh must be an integer of at least 0 .*got -2"),
     ({"tied": True, "embedding": 8}, "tied weights are for the task language, got classify"),
     ({"data": "somewhere"}, "takes no directory")],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        train(tmp_path, changed(DIGITS, **changes))


def test_stateful_batches_carry_the_state_and_an_epoch_starts_without(tmp_path):
    small = changed(PYDOC, hidden=2, layers=1, embedding=2, batch=1000, steps=100, epochs=1, iterations=None)
    trainer = Trainer(small, open_device("golden"), tmp_path)
    states, session = [], trainer.learner.session
    forward = session.forward

    def noted(x, lengths=None, h0=None, c0=None, *rest, **options):
        states.append(h0 is not None and bool(h0.any()))
        return forward(x, lengths, h0, c0, *rest, **options)

    session.forward = noted
    trainer.run()
    per_epoch = trainer.total_iterations
    assert states[:per_epoch] == [False] + [True] * (per_epoch - 1)
    assert not states[per_epoch], "evaluation starts from zero"
    assert not np.any(trainer.learner.h)


def test_digits_are_learnt_with_the_defaults(tmp_path):
    """Above 0.9 on the test split within 250 iterations, the figure behind the defaults."""
    last = train(tmp_path, Settings("digits", iterations=250))
    assert last["accuracy"] >= 0.9


def test_a_language_is_learnt(tmp_path):
    entries = []
    train(tmp_path, changed(PYDOC, iterations=80, batch=32), report=entries.append)
    assert entries[79]["perplexity"] < 0.4 * entries[0]["perplexity"]


def test_reduced_runs_log_what_they_kept_and_sum_it_up(tmp_path):
    last = train(tmp_path, REDUCED)
    entries = [entry for entry in log(tmp_path) if entry["kind"] == "iteration"]
    assert {"densities", "delta_density", "cells_skipped", "footprint", "multiplications"} <= entries[0].keys()
    assert set(entries[0]["densities"]) == set("ifgosr")
    chosen = {(tuple(entry["theta"]), entry["storage"], entry["ms2"]) for entry in entries}
    assert chosen == {(REDUCED.theta, "ms1-bf16", 0.3)}
    assert entries[0]["densities"]["r"] < 1, "the reset_states gate is always above every threshold but its own"
    assert not entries[0]["cells_skipped"] and entries[-1]["cells_skipped"] and entries[0]["cells"] == 16
    assert entries[-1]["footprint"] < entries[0]["footprint"] < 0.75
    saved = last["saved"]
    assert 0 < saved["cells_skipped"] < 1 and saved["backward_multiplications"] < saved["multiplications"] < 1
    assert saved["footprint"] == pytest.approx(np.mean([entry["footprint"] for entry in entries]))


def test_a_run_goes_on_with_another_theta_storage_and_tau_and_says_so(tmp_path):
    train(tmp_path, changed(DIGITS, iterations=2))
    train(tmp_path, changed(DIGITS, iterations=4, theta=0.1, ms2=0.05), resume=True)
    assert [(e["theta"], e["storage"], e["ms2"]) for e in log(tmp_path) if e["kind"] == "iteration"] == [
        (0.0, "dense", None)] * 2 + [(0.1, "ms1", 0.05)] * 2  # fmt: skip


def test_the_learning_rate_decays_from_epoch_to_epoch(tmp_path):
    whole = changed(DIGITS, batch=512, epochs=2)
    for name, settings in (("constant", whole), ("halved", changed(whole, decay=0.5))):
        train(tmp_path / name, settings)
    train(tmp_path / "by hand", changed(whole, epochs=1))
    train(tmp_path / "by hand", changed(whole, learning_rate=whole.learning_rate / 2), resume=True)
    found = {name: (tmp_path / name / CHECKPOINT).read_bytes() for name in ("constant", "halved", "by hand")}
    assert found["halved"] == found["by hand"] != found["constant"]


def test_without_thresholds_storage_changes_no_bit(tmp_path):
    for storage in ("dense", "ms1"):
        train(tmp_path / storage, changed(DIGITS, iterations=5, storage=storage))
    assert (tmp_path / "dense" / CHECKPOINT).read_bytes() == (tmp_path / "ms1" / CHECKPOINT).read_bytes()


def test_a_device_that_skips_no_cells_refuses_ms2(tmp_path, monkeypatch):
    monkeypatch.setattr("etalstm.device.golden.GoldenSession.reduces", False)
    with pytest.raises(DeviceError, match=r"device golden skips no cells: ms2 must be off, got 0\.1"):
        train(tmp_path, changed(DIGITS, ms2=0.1))
    with pytest.raises(DeviceError, match=r"device golden skips no cells: ms2_steps must be off, got 2"):
        train(tmp_path, changed(DIGITS, ms2=None, ms2_steps=2))


def test_a_truncated_run_keeps_so_many_steps_from_its_first_iteration_on(tmp_path):
    options = {"ms2": None, "ms2_steps": 2, "ms2_full_epochs": 0, "ms2_without": "compensation"}
    train(tmp_path, changed(DIGITS, iterations=3, **options))
    entries = [entry for entry in log(tmp_path) if entry["kind"] == "iteration"]
    assert [entry["cells_skipped"] for entry in entries] == [6, 6, 6]
    assert {entry["ms2_steps"] for entry in entries} == {2}


def test_questions_of_unequal_lengths_are_learnt_with_everything_on(tmp_path):
    for name, count in (("train_5500", 600), ("TREC_10", 60)):
        lines = [f"{KINDS[n % 3]}:x {WORDS[n % 3]} {'is ' * (n * 7 % 13)}that ?" for n in range(count)]
        (tmp_path / f"{name}.label").write_text("\n".join(lines))
    settings = Settings(
        "trec", data=str(tmp_path), hidden=16, batch=16, embedding=16, epochs=7, theta=0.1, storage="ms1-bf16", ms2=0.1
    )
    last = train(tmp_path / "run", settings)
    assert last["accuracy"] > 0.9
    entries = log(tmp_path / "run")
    assert [entry for entry in entries if entry.get("cells_skipped")], "no cell was ever skipped"


def test_slices_are_part_of_a_run(tmp_path):
    """Other sums, so other bits; and a run goes on with its own slices only."""
    sliced = changed(DIGITS, iterations=3, slices=5)
    train(tmp_path / "one", changed(sliced, slices=1))
    train(tmp_path / "five", sliced)
    assert (tmp_path / "one" / CHECKPOINT).read_bytes() != (tmp_path / "five" / CHECKPOINT).read_bytes()
    assert {entry["slices"] for entry in log(tmp_path / "five") if entry["kind"] == "iteration"} == {5}
    with pytest.raises(CheckpointError, match="its slices is 5, here it is 4"):
        train(tmp_path / "five", changed(sliced, slices=4), resume=True)


def test_delta_inputs_are_part_of_a_run_and_leave_out_products(tmp_path):
    run = changed(DIGITS, iterations=3, input_threshold=0.3)
    train(tmp_path / "whole", changed(run, input_threshold="0"))
    train(tmp_path / "delta", run)
    whole, delta = (
        [entry for entry in log(tmp_path / name) if entry["kind"] == "iteration"] for name in ("whole", "delta")
    )
    assert {(entry["input_threshold"], entry["refresh"]) for entry in delta} == {("0.3", 0)}
    for a, b in zip(whole, delta, strict=True):
        assert b["input_density"] < 0.7 * a["input_density"] and b["multiplications"] < a["multiplications"]
    for changes, message in (
        ({"input_threshold": "0.2"}, "its input_threshold is 0.3, here it is 0.2"),
        ({"refresh": 4}, "its refresh is 0, here it is 4"),
    ):
        with pytest.raises(CheckpointError, match=message):
            train(tmp_path / "delta", changed(run, **changes), resume=True)


def test_automatic_slices_are_the_devices_and_from_then_on_the_runs(tmp_path, monkeypatch):
    monkeypatch.setattr("etalstm.device.golden.GoldenDevice.best_slices", lambda device, shape: shape.batch // 16)
    train(tmp_path, changed(DIGITS, iterations=2, slices="auto"))
    monkeypatch.undo()
    train(tmp_path, changed(DIGITS, iterations=4, slices="auto"), resume=True)
    train(tmp_path / "explicit", changed(DIGITS, iterations=4, slices=4))
    assert (tmp_path / CHECKPOINT).read_bytes() == (tmp_path / "explicit" / CHECKPOINT).read_bytes()


KINDS, WORDS = ("HUM", "LOC", "NUM"), ("who", "where", "how")
