"""The compiled pass of a declared cell gives the bits of the reference."""

import numpy as np
import pytest

from etalstm.golden import reference
from etalstm.golden.fast import declared
from etalstm.golden.passes import active_steps
from etalstm.golden.product import FloatProduct
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM
from etalstm.network.storage import LayerStorage
from tests.network.cells.two_stages import TWO_STAGES

STEPS, BATCH, INPUTS, UNITS, SLICES = 4, 5, 3, 7, 3


def assert_same_bits(name, actual, expected):
    wrong = np.argwhere(np.asarray(actual).view(np.uint32) != np.asarray(expected).view(np.uint32))
    assert not wrong.size, f"{name}{wrong[0]}: got {actual[tuple(wrong[0])]}, expected {expected[tuple(wrong[0])]}"


@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
@pytest.mark.parametrize("cell", [LSTM, TWO_STAGES, HLSTM], ids=lambda cell: cell.name)
def test_the_compiled_pass_of_a_declared_cell_has_the_bits_of_the_reference(cell, policy):
    generator = np.random.default_rng(7)

    def draw(*size):
        values = generator.standard_normal(size, np.float32)
        return np.where(generator.random(size) < 0.2, np.float32(0), values)

    active = active_steps([4, 1, 3, 4, 2], STEPS)
    matrices = [(draw(*size), draw(size[0])) for size in cell.matrices(INPUTS, UNITS)]
    x, (h0, c0) = draw(STEPS, BATCH, INPUTS) * active[:, :, None], draw(2, BATCH, UNITS)
    dy, (dh, dc) = draw(STEPS, BATCH, UNITS) * active[:, :, None], draw(2, BATCH, UNITS)
    thresholds = (0.05 if policy != "dense" else 0.0,) * len(cell.kinds)
    skipped, delta_threshold = np.array([0, 1, 0, 0], bool), 0.05 if policy != "dense" else 0.0
    given = x, h0, c0, active, LayerStorage(policy, thresholds), skipped
    multiplied = [FloatProduct(*matrix) for matrix in matrices]
    expected, broadcasts = reference.cell_forward(cell, multiplied, *given)
    actual = declared.layer_forward(cell, matrices, *given)
    for name in ("h", "c", "kept"):
        assert_same_bits(name, getattr(actual, name), getattr(expected, name))

    final = dy, dh, dc, delta_threshold, SLICES
    *of_inputs, products = reference.cell_backward(cell, multiplied, expected, broadcasts, *final)
    back = declared.layer_backward(cell, [weights for weights, _ in matrices], actual, *final)
    for name, array, wanted in zip(("dx", "dh0", "dc0"), (back.dx, back.dh0, back.dc0), of_inputs, strict=True):
        assert_same_bits(name, array, wanted)
    for n, (product, (dw, db, delta)) in enumerate(zip(back.products, products, strict=True)):
        assert_same_bits(f"dW {n}", product.weights, dw)
        assert_same_bits(f"db {n}", product.bias, db)
        assert_same_bits(f"delta {n}", product.delta, delta)
