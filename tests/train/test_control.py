"""Thresholds find the share of δ, or of x and h, that is to be left, whatever their size, and follow it."""

import json

import numpy as np
import pytest

from etalstm.device import open_device
from etalstm.train.control import DELTA_START, INPUT_START, LEAST, MOST, ShareControl
from etalstm.train.folder import CHECKPOINT, METRICS
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings

DIGITS = Settings("digits", hidden=12, layers=2, batch=128, epochs=5, theta=0.05, delta_target=0.2)


def prune(pruning, scale, iterations, generator):
    """Prune gradients of some size, heavy-tailed as those of a training are; give what share was left."""
    left = []
    for _ in range(iterations):
        delta = scale * np.exp(2 * generator.standard_normal(4000) + 0.3 * generator.standard_normal())
        left.append(float(np.mean(delta >= pruning.threshold)))
        pruning.take(left[-1])
    return left


@pytest.mark.parametrize("scale", [1e-7, 1e-3, 10.0])
@pytest.mark.parametrize("target", [0.05, 0.12, 0.5])
def test_the_mean_share_is_the_target_whatever_the_size_and_again_when_it_changes(scale, target):
    generator, pruning = np.random.default_rng(1), ShareControl(target, DELTA_START)
    for size in (scale, 20 * scale, scale / 20):
        prune(pruning, size, 60, generator)
        assert np.mean(prune(pruning, size, 300, generator)) == pytest.approx(target, rel=0.03)


def test_gradients_that_are_sparse_by_themselves_are_not_pruned():
    pruning = ShareControl(0.5, DELTA_START)
    for _ in range(300):
        pruning.take(0.1)
    assert pruning.threshold == LEAST
    for _ in range(300):
        pruning.take(0.9)
    assert pruning.threshold > DELTA_START, "and it comes back"


def test_a_share_that_cannot_be_reached_leaves_a_threshold_that_devices_take():
    sending = ShareControl(0.1, INPUT_START)
    for _ in range(300):
        sending.take(0.5)
    assert sending.threshold == MOST


def train(folder, settings, device, resume=False):
    Trainer(settings, device, folder, resume).run()
    return [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]


def test_a_run_leaves_the_target_and_says_so(tmp_path):
    entries = [e for e in train(tmp_path, DIGITS, open_device("golden")) if e["kind"] == "iteration"]
    assert {entry["delta_target"] for entry in entries} == {0.2} and len(entries) > 30
    assert entries[0]["delta_threshold"] == DELTA_START and entries[0]["delta_density"] > 0.3
    assert np.mean([entry["delta_density"] for entry in entries[-15:]]) == pytest.approx(0.2, rel=0.15)


def test_the_machine_prunes_as_golden_does_and_keeps_its_bits(tmp_path):
    short = Settings(**vars(DIGITS) | {"iterations": 10, "epochs": 1, "evaluation_batches": 1, "ms2": 0.3})
    found = {}
    for name in ("golden", "sim"):
        with open_device(name, "sim") as device:
            entries = train(tmp_path / name, short, device)
        keys = ("delta_threshold", "delta_density", "loss")
        found[name] = [[entry[key] for key in keys] for entry in entries if entry["kind"] == "iteration"]
    assert found["sim"] == found["golden"] and found["sim"][-1][0] > DELTA_START
    golden, machine = ((tmp_path / name / CHECKPOINT).read_bytes() for name in ("golden", "sim"))
    assert golden == machine


def test_a_target_may_be_given_later_and_taken_away(tmp_path):
    plain = Settings(**vars(DIGITS) | {"iterations": 2, "delta_target": None})
    train(tmp_path, plain, open_device("golden"))
    train(tmp_path, Settings(**vars(DIGITS) | {"iterations": 9}), open_device("golden"), resume=True)
    entries = train(tmp_path, Settings(**vars(plain) | {"iterations": 11}), open_device("golden"), resume=True)
    thresholds = [entry["delta_threshold"] for entry in entries if entry["kind"] == "iteration"]
    assert thresholds[:2] == [0, 0] and thresholds[2] == DELTA_START < thresholds[8] and thresholds[9:] == [0, 0]
