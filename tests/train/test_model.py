"""The host's ends of the model: gradients are finite differences, and filling has no effect."""

import numpy as np
import pytest

from etalstm.data import Batch
from etalstm.network.slices import slice_ranges
from etalstm.train.checkpoint import Identity
from etalstm.train.loss import Loss, softmax_cross_entropy
from etalstm.train.model import HostModel, OutputPass

STEP, BOUND = 1e-2, 2e-3  # float32 losses of about 1: central differences are good to some 1e-4


def model_of(task, tied=False, tokens=0):
    sizes = {"input_size": 7 if tied else 2, "hidden_size": 7, "layers": 1, "outputs": 6}
    return HostModel(Identity(task=task, tokens=6 if tied else tokens, tied=tied, **sizes), seed=1)


def last_step_batch(generator):
    x = generator.normal(size=(4, 3, 5)).astype(np.float32)
    return Batch(x, np.array([4, 2, 1]), np.array([0, 2, 1]), np.array([1, 1, 0.5], np.float32))


def numbers_batch(generator):
    batch, targets = last_step_batch(generator), generator.normal(size=(3, 6)).astype(np.float32)
    return Batch(batch.x, batch.lengths, targets, batch.weights)


def per_step_batch(generator):
    tokens = generator.integers(0, 6, (4, 3))
    weights = np.ones((4, 3), np.float32)
    weights[3, 1] = 0
    return Batch(tokens, np.full(3, 4), generator.integers(0, 6, (4, 3)), weights)


def backward(model, batch, y, slices=1):
    """Run the output layer forward and backward; give the loss and the gradient of y."""
    of_batch, dy = OutputPass(model, batch, slices, 1), np.empty_like(y)
    for number, sequences in enumerate(slice_ranges(y.shape[1], slices)):
        dy[:, sequences] = of_batch.run(number, y[:, sequences])
    return of_batch.end(), dy


def assert_gradient(array, gradient, loss):
    for index in list(np.ndindex(array.shape))[::3]:
        kept = array[index]
        array[index] = kept + np.float32(STEP)
        above = loss()
        array[index] = kept - np.float32(STEP)
        below = loss()
        array[index] = kept
        want = (above - below) / (2 * STEP)
        assert abs(gradient[index] - want) < BOUND, f"{index}: got {gradient[index]}, expected {want}"


@pytest.mark.parametrize(
    ("task", "make", "tied", "slices"),
    [
        ("classify", last_step_batch, False, 1),
        ("classify", last_step_batch, False, 3),
        ("language", per_step_batch, False, 1),
        ("tag", per_step_batch, False, 2),
        ("regress", numbers_batch, False, 1),
        ("regress", numbers_batch, False, 2),
        ("language", per_step_batch, True, 3),
    ],
)
def test_gradients_of_the_output_layer_and_of_y_are_finite_differences(task, make, tied, slices):
    generator = np.random.default_rng(2)
    batch, model = make(generator), model_of(task, tied)
    y = generator.normal(size=(4, 3, 7)).astype(np.float32)
    loss, dy = backward(model, batch, y, slices)
    assert loss.mean == pytest.approx(model.evaluate(batch, y).mean)
    assert_gradient(y, dy, lambda: model.evaluate(batch, y).mean)
    for name in model.gradients:
        assert_gradient(model.parameters[name], model.gradients[name], lambda: model.evaluate(batch, y).mean)


def test_tied_weights_have_the_gradients_of_both_places():
    generator = np.random.default_rng(2)
    batch, model = per_step_batch(generator), model_of("language", tied=True)
    assert list(model.parameters) == ["output.bias", "embedding"]
    backward(model, batch, generator.normal(size=(4, 3, 7)).astype(np.float32))
    of_outputs = model.gradients["embedding"].copy()
    dx = generator.normal(size=(4, 3, 7)).astype(np.float32)
    model.embed_backward(batch, dx)
    expected = of_outputs[2] + dx[batch.x == 2].sum(axis=0)
    assert np.allclose(model.gradients["embedding"][2], expected, atol=1e-5)


def test_gradient_of_the_embedding_adds_up_over_equal_tokens():
    batch = per_step_batch(np.random.default_rng(3))
    model = model_of("language", tokens=6)
    assert np.array_equal(model.inputs(batch.x)[1, 2], model.parameters["embedding"][batch.x[1, 2]])
    dx = np.random.default_rng(4).normal(size=(4, 3, 2)).astype(np.float32)
    model.embed_backward(batch, dx)
    for token in range(6):
        expected = dx[batch.x == token].sum(axis=0)
        assert np.allclose(model.gradients["embedding"][token], expected, atol=1e-6), f"token {token}"


def test_weight_zero_takes_no_part():
    generator = np.random.default_rng(5)
    logits, targets = generator.normal(size=(4, 3)).astype(np.float32), np.array([0, 1, 2, 0])
    loss, gradient = softmax_cross_entropy(logits.copy(), targets, np.array([1, 1, 0, 1], np.float32))
    kept = [0, 1, 3]
    expected, smaller = softmax_cross_entropy(logits[kept], targets[kept], np.ones(3, np.float32))
    assert loss == expected and not gradient[2].any() and np.array_equal(gradient[kept], smaller)


def test_large_logits_stay_finite():
    loss, gradient = softmax_cross_entropy(np.array([[1e4, -1e4]], np.float32), np.array([1]), np.ones(1, np.float32))
    assert loss.mean == pytest.approx(2e4) and np.isfinite(gradient).all()
    assert Loss(1e6, 0, 1).perplexity == np.finfo(np.float64).max, "a log has no infinity"
