"""Dropout between layers: masks by seed and number alone, none in evaluations, the same bits on every device."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.device import TrainingShape, open_device
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.train.dropout import LayeredSession
from etalstm.train.folder import CHECKPOINT
from etalstm.train.settings import Settings
from tests.training import with_changes

SHAPE = TrainingShape(NetworkShape(5, 6, 3), 4, 7, masked=True)
LENGTHS = [7, 1, 4, 6]


def layered(share, shape=SHAPE, seed=1):
    session = LayeredSession(open_device("golden"), shape, share, seed)
    session.load(initial_parameters(shape.network, 1))
    return session


def arrays(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(size, np.float32) for size in (SHAPE.x_shape, SHAPE.y_shape)]


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"storage": Storage(("ms1", "dense", "ms1-bf16"), 0.05)},
        {"delta_inputs": DeltaInputs((0.5, (0.02, 0.1), 0.0), 4)},
    ],
    ids=["dense", "mixed", "delta inputs"],
)
def test_without_masks_the_bits_are_those_of_one_session(choices):
    shape = with_changes(SHAPE, **choices)
    sessions, found = (open_device("golden").create(shape), layered(0.5, shape)), []
    for session in sessions:
        session.load(initial_parameters(shape.network, 1))
        for seed in range(3):
            x, dy = arrays(seed)
            outputs = session.forward(x, LENGTHS)
            back = session.backward(dy)
            arrived = [outputs.y, outputs.h, outputs.c, back.dx, *(g.weights for g in session.gradients())]
            session.update(0.1, 0.9, None, 0.01)
        found.append(([array.view(np.uint32) for array in arrived], session.parameters(), back.norm, session.usage()))
    (expected, parameters, norm, usage), (actual, layers, added, kept) = found
    for number, pair in enumerate(zip(expected, actual, strict=True)):
        np.testing.assert_array_equal(*pair, err_msg=f"tensor {number}")
    assert all(np.array_equal(a.weights, b.weights) for a, b in zip(parameters, layers, strict=True))
    assert added == pytest.approx(norm, rel=1e-12) and kept == usage


def test_masks_drop_the_share_and_keep_the_mean():
    session = layered(0.25, replace(SHAPE, steps=200, batch=16))
    masks = np.stack(session._draw(3, 200))
    assert set(np.unique(masks)) == {np.float32(0), np.float32(1 / 0.75)}
    assert (masks == 0).mean() == pytest.approx(0.25, abs=0.01) and masks.mean() == pytest.approx(1, abs=0.02)
    assert np.array_equal(masks, session._draw(3, 200))
    assert not np.array_equal(masks, session._draw(4, 200))


def test_only_the_pass_that_the_masks_were_drawn_for_drops():
    session, (x, _) = layered(0.5), arrays()
    plain = session.forward(x, LENGTHS).y
    session.draw_masks(0)
    assert not np.array_equal(session.forward(x, LENGTHS).y, plain)
    assert np.array_equal(session.forward(x, LENGTHS).y, plain)


def test_gradients_are_those_of_the_network_with_its_elements_dropped():
    """Central differences of the loss Σ y·dy by some elements of x, with the same masks each time."""
    session, (x, dy) = layered(0.5), arrays()

    def loss(x):
        session.draw_masks(5)
        return float((session.forward(x).y.astype(np.float64) * dy).sum())

    loss(x)
    dx = session.backward(dy).dx
    for index in list(np.ndindex(x.shape))[::17]:
        step = np.zeros_like(x)
        step[index] = 1e-2
        found = (loss(x + step) - loss(x - step)) / 2e-2
        assert dx[index] == pytest.approx(found, abs=2e-3), index


def test_the_norm_of_all_layers_is_clipped():
    session, (x, dy) = layered(0.5), arrays()
    before = session.parameters()
    session.draw_masks(0)
    session.forward(x)
    norm = session.backward(100 * dy).norm
    session.update(1.0, 0.0, 0.25)
    moved = [a.weights - b.weights for a, b in zip(session.parameters(), before, strict=True)]
    moved += [a.bias - b.bias for a, b in zip(session.parameters(), before, strict=True)]
    assert norm > 1 and np.sqrt(sum((array.astype(np.float64) ** 2).sum() for array in moved)) == pytest.approx(0.25)


def options(out, *more):
    return ["train", "--dataset", "digits", "--hidden", "5", "--layers", "2", "--batch", "8", "--dropout", "0.3",
            "--evaluation-batches", "2", "--out", str(out), *more]  # fmt: skip


@pytest.mark.parametrize("more", [[], ["--theta", "0.05", "--ms2", "0.3", "--optimizer", "adam"]])
def test_the_machine_drops_as_golden_does(tmp_path, more):
    for device in ("golden", "sim"):
        assert run(options(tmp_path / device, "--device", device, "--preset", "test", "--iterations", "3", *more)) == 0
    golden, sim = ((tmp_path / device / CHECKPOINT).read_bytes() for device in ("golden", "sim"))
    assert golden == sim


def test_a_resumed_run_drops_alike(tmp_path):
    assert run(options(tmp_path / "parts", "--iterations", "4")) == 0
    assert run(["train", "--resume", "--iterations", "9", "--out", str(tmp_path / "parts")]) == 0
    assert run(options(tmp_path / "whole", "--iterations", "9")) == 0
    assert run(options(tmp_path / "other", "--iterations", "9", "--seed", "1")) == 0
    found = {name: (tmp_path / name / CHECKPOINT).read_bytes() for name in ("parts", "whole", "other")}
    assert found["parts"] == found["whole"] != found["other"]


def test_what_goes_not_together_is_refused():
    with pytest.raises(ValueError, match="memory_budget is of one session, with dropout each layer has one, got 9"):
        Settings("digits", layers=2, dropout=0.1, memory_budget=9)
