import numpy as np
import pytest
from numba import njit

from etalstm.golden import activation

FUNCTIONS = {
    "sigmoid": (activation.sigmoid, lambda x: np.exp(-np.logaddexp(0, -x))),
    "tanh": (activation.tanh, np.tanh),
}


def sweep(first, last, count=1_000_000):
    """Words of floats from ``first`` to ``last``, evenly spaced among the representable ones, both ends included."""
    ends = np.array([first, last], np.float32).view(np.uint32)
    return np.unique(np.linspace(*ends, count).astype(np.uint32)).view(np.float32)


def bits(x):
    return np.asarray(x, np.float32).view(np.uint32).tolist()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("first", "last"), [(2.0**-126, 2.0**-12), (2.0**-12, 1), (1, 33), (33, 3e38)])
def test_is_within_two_ulp_or_the_absolute_bound(name, sign, first, last):
    function, exact = FUNCTIONS[name]
    x = sign * sweep(first, last)
    reference = exact(x.astype(np.float64))
    error = np.abs(function(x) - reference)
    ulp = np.spacing(np.abs(reference).astype(np.float32))
    bound = np.maximum(activation.BOUND_ULP * ulp, activation.BOUND_ABSOLUTE)
    worst = np.argmax(error / bound)
    assert error[worst] <= bound[worst], f"{name}({x[worst]!r}) is off by {error[worst]}, allowed {bound[worst]}"


def test_tanh_keeps_its_relative_error_down_to_the_smallest_normal():
    x = sweep(2.0**-126, 10)
    reference = np.tanh(x.astype(np.float64))
    error = np.abs(activation.tanh(x) / reference - 1)
    assert error.max() <= activation.BOUND_RELATIVE_TANH, f"at {x[np.argmax(error)]!r}: {error.max()}"


def test_tanh_is_odd():
    x = sweep(0, np.inf)
    assert np.array_equal(activation.tanh(-x).view(np.uint32), (-activation.tanh(x)).view(np.uint32))


def test_sigmoids_of_opposite_numbers_add_up_to_one():
    x = sweep(2.0**-30, 100)
    difference = activation.sigmoid(-x).astype(np.float64) - (1 - activation.sigmoid(x).astype(np.float64))
    assert np.abs(difference).max() <= np.spacing(np.float32(0.5))


def test_is_exact_at_zero_and_in_saturation():
    x = np.array([0.0, -0.0, 1e-45, -1e-45, 100, -100, np.inf, -np.inf], np.float32)
    assert bits(activation.sigmoid(x)) == bits([0.5, 0.5, 0.5, 0.5, 1, 0, 1, 0])
    assert bits(activation.tanh(x)) == bits([0.0, -0.0, 0.0, -0.0, 1, -1, 1, -1])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_nan_gives_the_one(name):
    x = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert bits(FUNCTIONS[name][0](x)) == [0x7FC00000] * 4


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_keeps_the_shape(shape):
    x = np.full(shape, 0.5, np.float32)
    assert activation.tanh(x).shape == activation.sigmoid(x).shape == shape
    assert activation.tanh(x).dtype == np.float32


def test_takes_arrays_that_are_not_contiguous():
    x = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(activation.sigmoid(x.T), activation.sigmoid(x).T)


@njit
def compiled(x):
    results = np.empty((2, len(x)), np.float32)
    for n in range(len(x)):
        results[0, n], results[1, n] = activation.activation_of(x[n], False), activation.activation_of(x[n], True)
    return results


def test_compiled_scalars_give_the_bits_of_the_arrays():
    x = np.concatenate([sweep(0, np.inf, 10_000), -sweep(2.0**-10, 20, 10_000)])
    sigmoids, tangents = compiled(x)
    assert np.array_equal(sigmoids.view(np.uint32), activation.sigmoid(x).view(np.uint32))
    assert np.array_equal(tangents.view(np.uint32), activation.tanh(x).view(np.uint32))
