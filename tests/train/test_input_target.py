"""Runs whose threshold of delta inputs follows the share of x and h that is to be sent."""

import numpy as np
import pytest

from etalstm.data import open_data
from etalstm.device import open_device
from etalstm.errors import CheckpointError
from etalstm.train.control import INPUT_START
from etalstm.train.folder import CHECKPOINT
from etalstm.train.loop import Trainer
from etalstm.train.trained import load
from tests.runs import DIGITS, LETTERS, changed, done, log, train

RUN = changed(DIGITS, hidden=12, layers=2, batch=256, epochs=20, input_target=0.4)
SHORT = changed(RUN, iterations=12)


def iterations(out):
    return [entry for entry in log(out) if entry["kind"] == "iteration"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A short run that was never interrupted."""
    out = tmp_path_factory.mktemp("whole")
    return train(out, SHORT), out


def test_the_first_epoch_sends_everything_and_then_the_mean_share_is_the_target(tmp_path):
    train(tmp_path, RUN)
    first, later = ([e for e in iterations(tmp_path) if (e["epoch"] == 1) == first] for first in (True, False))
    assert {(e["input_threshold"], e["refresh"], e["input_target"]) for e in first} == {("0", 1, 0.4)}
    assert (float(later[0]["input_threshold"]), later[0]["refresh"]) == (INPUT_START, 0)
    assert np.mean([e["input_density"] for e in later[-30:]]) == pytest.approx(0.4, rel=0.05)
    assert min(e["input_density"] for e in first) > 0.7


@pytest.mark.parametrize("stops", [(2,), (4, 7)])
def test_a_resumed_run_has_the_bits_and_the_log_of_an_uninterrupted_one(whole, tmp_path, stops):
    for n, stop in enumerate(stops):  # an epoch has 4 iterations
        train(tmp_path, changed(SHORT, iterations=stop), resume=n > 0)
    train(tmp_path, SHORT, resume=True)
    assert (tmp_path / CHECKPOINT).read_bytes() == (whole[1] / CHECKPOINT).read_bytes()
    assert done(tmp_path) == done(whole[1])


def test_a_trained_network_sends_what_its_run_sent_last(whole):
    last, out = whole
    with load(out, checkpoint="last") as model:
        assert model.evaluate(open_data(SHORT), batch=SHORT.batch)["loss"] == last["loss"]


def test_the_best_weights_are_tested_with_their_own_threshold(tmp_path):
    settings = changed(RUN, epochs=40, learning_rate=1.5, clip=0.0, early_stopping=1)
    last = train(tmp_path, settings)
    with load(tmp_path, checkpoint="best") as best, load(tmp_path, checkpoint="last") as end:
        data = open_data(settings)
        losses = [model.evaluate(data, batch=settings.batch)["loss"] for model in (best, end)]
    assert losses[0] == last["loss"] != losses[1]


@pytest.mark.parametrize("changes", [{"refresh": 3, "dropout": 0.2}, {"offload": True, "theta": 0.05}])
def test_the_machine_sends_as_golden_does_and_keeps_its_bits(tmp_path, changes):
    texts = changed(SHORT, dataset=None, task="classify", data=LETTERS, embedding=3, batch=160)  # 2 batches an epoch
    settings = changed(texts, iterations=4, epochs=2, evaluation_batches=1, hidden=5, **changes)
    found = {}
    for name in ("golden", "sim"):
        with open_device(name, "test") as device:
            each = changed(settings, offload=settings.offload and name == "sim")
            Trainer(each, device, tmp_path / name).run()
        keys = ("input_threshold", "input_density", "loss")
        found[name] = [[entry[key] for key in keys] for entry in iterations(tmp_path / name)]
    assert found["sim"] == found["golden"] and float(found["sim"][-1][0]) > INPUT_START
    golden, machine = ((tmp_path / name / CHECKPOINT).read_bytes() for name in ("golden", "sim"))
    assert golden == machine


def test_a_run_goes_on_with_its_own_target_and_refresh_only(whole):
    for changes, message in (
        ({"input_target": 0.5}, "its input_target is 0.4, here it is 0.5"),
        ({"input_target": None}, "here it is 1"),
        ({"refresh": 4}, "its refresh is 0, here it is 4"),
    ):
        with pytest.raises(CheckpointError, match=message):
            train(whole[1], changed(SHORT, **changes), resume=True)
