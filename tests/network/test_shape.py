"""Sizes and parameters are checked where they enter."""

import numpy as np
import pytest

from etalstm.network.shape import (
    LayerParameters,
    NetworkShape,
    canonical_rows,
    check_parameters,
    flush_subnormals,
    initial_parameters,
    pytorch_rows,
)


@pytest.mark.parametrize("name", ["input_size", "hidden_size", "layers"])
@pytest.mark.parametrize("value", [0, -3, 1.5, "4", True])
def test_refuses_a_size_that_is_no_positive_integer(name, value):
    sizes = {"input_size": 2, "hidden_size": 3, "layers": 1, name: value}
    with pytest.raises(ValueError, match=name):
        NetworkShape(**sizes)


@pytest.mark.parametrize(
    ("weights", "bias", "message"),
    [
        (np.zeros((6, 3), np.float32), np.zeros(6, np.float32), "shape"),
        (np.zeros((8, 2), np.float32), np.zeros(8, np.float32), "shape"),
        (np.zeros((8, 3)), np.zeros(8, np.float32), "float32, got float64"),
        (np.zeros((8, 3), np.float32), np.zeros(7, np.float32), r"bias must have shape \(8,\), got \(7,\)"),
        (np.full((8, 3), np.nan, np.float32), np.zeros(8, np.float32), r"finite, got nan at index \(0, 0\)"),
        ([[0.0] * 3] * 8, np.zeros(8, np.float32), "NumPy array"),
    ],
)
def test_refuses_parameters_that_cannot_be_a_layer(weights, bias, message):
    with pytest.raises(ValueError, match=message):
        LayerParameters(weights, bias)


def test_refuses_parameters_of_another_network():
    parameters = initial_parameters(NetworkShape(3, 4, 2), 0)
    with pytest.raises(ValueError, match="must have 1 layers, got 2"):
        check_parameters(NetworkShape(3, 4, 1), parameters)
    with pytest.raises(ValueError, match=r"layer 0 .* \(16, 6\), got \(16, 7\)"):
        check_parameters(NetworkShape(2, 4, 2), parameters)


def test_flushes_subnormals_to_a_zero_of_their_sign():
    values = np.array([1e-39, -1e-39, 2.0**-126, -(2.0**-126), -0.0, 1.0], np.float32)
    expected = np.array([0.0, -0.0, 2.0**-126, -(2.0**-126), -0.0, 1.0], np.float32)
    assert flush_subnormals(values).view(np.uint32).tolist() == expected.view(np.uint32).tolist()


def test_canonical_rows_alternate_the_gates_of_a_unit():
    rows = np.arange(12)  # PyTorch's gate*H + unit with H = 3
    assert canonical_rows(rows).tolist() == [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]
    assert pytorch_rows(canonical_rows(rows)).tolist() == rows.tolist()
    matrix = np.arange(24).reshape(12, 2)
    assert canonical_rows(matrix)[1].tolist() == matrix[3].tolist()


def test_equal_seeds_draw_equal_parameters_within_the_bound():
    shape = NetworkShape(3, 16, 2)
    first, again, other = (initial_parameters(shape, seed) for seed in (5, 5, 6))
    for layer in range(2):
        assert np.array_equal(first[layer].weights, again[layer].weights)
        assert not np.array_equal(first[layer].weights, other[layer].weights)
        assert 0.2 < np.abs(first[layer].weights).max() <= 0.25
