"""Operands of the MAC sums keep their values and order, whatever the order that they are given in."""

import numpy as np
import pytest

from etalstm.golden.fast.packing import ACROSS, TERMS, magnitudes, matrix_of, matrix_of_rows, survey
from etalstm.golden.fast.tile import WIDTH

SHAPES = [(1, 1), (3, WIDTH), (TERMS + 5, 2 * WIDTH + ACROSS + 1), (2 * TERMS, 3 * WIDTH - 1)]
ORDERS = {"C": np.ascontiguousarray, "F": np.asfortranarray, "part": lambda a: np.pad(a, 1)[1:-1, 1:-1]}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_panels_hold_the_columns_and_zeros_beyond_the_last(shape, order):
    array = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    panels = matrix_of(ORDERS[order](array)).panels
    columns = panels.transpose(1, 0, 2).reshape(shape[0], -1)
    assert np.array_equal(columns[:, : shape[1]], array)
    assert not columns[:, shape[1] :].view(np.uint32).any() and columns.shape[1] - shape[1] < WIDTH


@pytest.mark.parametrize("widths", [(1, 1), (WIDTH, WIDTH), (WIDTH - 3, 5), (2 * WIDTH + 3, 1)], ids=str)
def test_rows_of_two_matrices_lie_side_by_side_in_the_order_asked_for(widths):
    generator = np.random.default_rng(2)
    left, right = (generator.normal(size=(TERMS + 9, width)).astype(np.float32) for width in widths)
    rows = generator.permutation(TERMS + 9)[: TERMS + 2]
    actual, expected = matrix_of_rows(left, right, rows), matrix_of(np.concatenate([left, right], axis=1)[rows])
    assert np.array_equal(actual.panels.view(np.uint32), expected.panels.view(np.uint32))
    assert np.array_equal(actual.sizes, expected.sizes)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_vector_of_a_panel_lies_in_one_line_of_the_cache(shape):
    matrices = [matrix_of(np.ones(shape, np.float32)) for _ in range(4)]
    assert [matrix.panels.ctypes.data % 64 for matrix in matrices] == [0] * 4


def test_sizes_are_those_of_each_panel_and_block_of_terms():
    array = np.ones((2 * TERMS + 1, WIDTH + 1), np.float32)
    array[0, 0], array[TERMS - 1, WIDTH], array[TERMS, 3], array[2 * TERMS, WIDTH] = 0.5, -4, 0, 8
    array[TERMS : 2 * TERMS, WIDTH] = 0
    assert matrix_of(array).sizes.tolist() == [[[0.5, 1], [1, 1], [1, 1]], [[1, 4], [np.inf, 0], [8, 8]]]


def test_a_survey_counts_what_is_not_zero_in_each_row_of_its_columns_and_finds_the_least():
    array = np.array([[9, 0, -0.0, 2, 9], [9, -3, 1, 1, 0], [9, 0, 0, 0, 9]], np.float32)
    nonzero, least = np.empty(3, np.uint32), np.empty(3, np.float32)
    assert survey(array, 1, 4, nonzero, least) == (1, 3)
    assert nonzero.tolist() == [1, 3, 0]
    assert least.tolist() == [2, 1, np.inf]


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0, -0.0], (np.inf, 0.0)), ([0, -2, 0.5], (0.5, 2.0)), ([1, np.inf], (0.0, np.inf)), ([np.nan], (0.0, np.inf))],
)
def test_magnitudes_ignore_zeros_and_see_what_is_not_finite(values, expected):
    assert magnitudes(np.array([values], np.float32)) == expected
