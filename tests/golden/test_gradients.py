"""Gradients: float64 against finite differences, float32 against float64. Those of PyTorch are in tests/nn."""

import numpy as np
import pytest

from etalstm.golden import float64
from etalstm.golden.fast import compiled
from etalstm.golden.float64 import FLOAT32_GRADIENT_BOUND
from etalstm.golden.trainer import Rows, network_backward, network_forward
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage

OFF = DeltaInputs()
PRUNED = Storage("ms1", 0.1).layer(0)
STEP = 1e-6  # central differences in float64: an error of about STEP^2 + 2^-52 / STEP
DIFFERENCE_BOUND = 1e-7


def batch_of(shape, steps, batch, seed, dtype):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(steps, batch, shape.input_size))
    states = generator.normal(size=(4, shape.layers, batch, shape.hidden_size)) * 0.5
    dy = generator.normal(size=(steps, batch, shape.hidden_size))
    lengths = generator.integers(1, steps + 1, batch)
    lengths[0] = steps
    dy = np.where(np.arange(steps)[:, None, None] < lengths[None, :, None], dy, 0)
    # float32 values in every dtype, so that all are given the same numbers
    return lengths, *(a.astype(np.float32).astype(dtype) for a in (x, *states, dy))


def layers_of(shape, dtype):
    rows = [Rows.of(entry) for entry in initial_parameters(shape, 3)]
    return [Rows(entry.weights.astype(dtype), entry.bias.astype(dtype)) for entry in rows]


def gradients(engine, shape, steps, batch, seed, dtype, skipped=None, inputs=OFF):
    lengths, x, h0, c0, dh, dc, dy = batch_of(shape, steps, batch, seed, dtype)
    layers = layers_of(shape, dtype)
    passes = network_forward(layers, x, lengths, h0, c0, engine, Execution(delta_inputs=inputs), skipped_cells=skipped)
    results = network_backward(layers, passes, dy, dh, dc, engine)
    tensors = {"dx": results[0].dx}
    for n, result in enumerate(results):
        tensors |= {f"{name}{n}": getattr(result, name) for name in ("dh0", "dc0", "weights", "bias")}
    return tensors


def assert_close(actual, expected, bound=FLOAT32_GRADIENT_BOUND):
    for name, tensor in expected.items():
        error = np.linalg.norm(actual[name].astype(np.float64) - tensor) / max(np.linalg.norm(tensor), 1e-30)
        assert error <= bound, f"{name}: relative error {error:.3g}, bound {bound:.3g}"


@pytest.mark.parametrize("inputs", [OFF, DeltaInputs((0.7, 0.1), 0), DeltaInputs(((1.0, 0.05), 0.2), 3)], ids=str)
@pytest.mark.parametrize("shape", [NetworkShape(3, 2, 2), NetworkShape(2, 3, 2)])
def test_float64_gradients_are_finite_differences(shape, inputs):
    lengths, x, h0, c0, dh, dc, dy = batch_of(shape, 4, 2, 0, np.float64)
    layers = layers_of(shape, np.float64)
    tensors = {"dx": x}
    for n, rows in enumerate(layers):
        tensors |= {f"dh0{n}": h0[n], f"dc0{n}": c0[n], f"weights{n}": rows.weights, f"bias{n}": rows.bias}
    expected = gradients(float64, shape, 4, 2, 0, np.float64, inputs=inputs)
    sent = [done.sent for done in network_forward(layers, x, lengths, h0, c0, float64, Execution(delta_inputs=inputs))]
    assert inputs.off or all(0.3 < mask.mean() < 0.9 for mask in sent), [mask.mean() for mask in sent]

    def loss():
        passes = network_forward(layers, x, lengths, h0, c0, float64, Execution(delta_inputs=inputs))
        same = [np.array_equal(done.sent, mask) for done, mask in zip(passes, sent, strict=True)]
        assert all(same), "an element is at its threshold: what is sent changes with the step of the difference"
        ends = sum((p.h[-1] * dh[n]).sum() + (p.c[-1] * dc[n]).sum() for n, p in enumerate(passes))
        return (passes[-1].y * dy).sum() + ends

    for name, tensor in tensors.items():
        for index in np.ndindex(tensor.shape):
            kept = tensor[index]
            tensor[index] = kept + STEP
            above = loss()
            tensor[index] = kept - STEP
            below = loss()
            tensor[index] = kept
            got, want = expected[name][index], (above - below) / (2 * STEP)
            assert abs(got - want) < DIFFERENCE_BOUND, f"{name}{list(index)}: got {got}, expected {want}"


@pytest.mark.parametrize(
    ("shape", "steps", "batch"), [(NetworkShape(8, 32, 1), 8, 16), (NetworkShape(20, 48, 3), 20, 4)]
)
def test_float32_gradients_are_those_of_float64(shape, steps, batch):
    expected = gradients(float64, shape, steps, batch, 1, np.float64)
    assert_close(gradients(compiled, shape, steps, batch, 1, np.float32), expected)


def test_float32_gradients_of_skipped_cells_are_those_of_float64():
    shape, skipped = NetworkShape(8, 32, 2), np.array([[1, 1, 0, 0, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0, 1, 0]], bool)
    expected = gradients(float64, shape, 8, 16, 1, np.float64, skipped)
    assert_close(gradients(compiled, shape, 8, 16, 1, np.float32, skipped), expected)
    assert not np.any(expected["dh00"]), "the first cell of layer 0 is skipped"


@pytest.mark.parametrize("refresh", [4, 0])
def test_float32_gradients_with_delta_inputs_are_those_of_float64(refresh):
    """No decision of these numbers is so close to its threshold that rounding changes it."""
    shape, inputs = NetworkShape(8, 12, 2), DeltaInputs(((0.5, 0.02), 0.05), refresh)
    expected = gradients(float64, shape, 10, 6, 1, np.float64, inputs=inputs)
    assert_close(gradients(compiled, shape, 10, 6, 1, np.float32, inputs=inputs), expected)
    whole = gradients(float64, shape, 10, 6, 1, np.float64)
    assert np.linalg.norm(whole["weights0"] - expected["weights0"]) > 0.01 * np.linalg.norm(whole["weights0"])


def test_float64_refuses_to_prune():
    with pytest.raises(ValueError, match="does not prune"):
        float64.layer_forward(np.zeros((4, 2)), np.zeros(4), *[np.zeros((1, 1, 1))] * 3, np.ones((1, 1)), PRUNED)
    with pytest.raises(ValueError, match=r"delta_threshold must be 0, got 0\.1"):
        float64.layer_backward(np.zeros((4, 2)), None, *[np.zeros((1, 1, 1))] * 3, delta_threshold=0.1)
