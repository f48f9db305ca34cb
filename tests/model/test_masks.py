"""Masks that are drawn at random."""

import numpy as np
import pytest

from etalstm.model.masks import draw_bits
from etalstm.model.operands import CERTAIN


@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_share_of_bits_is_the_density(density):
    random, bits, draws = np.array([0x9E3779B97F4A7C15], np.uint64), 32, 4000
    masks = [int(draw_bits(random, bits, round(density * CERTAIN))) for _ in range(draws)]
    assert all(0 <= mask < 1 << bits for mask in masks)
    share = sum(mask.bit_count() for mask in masks) / (bits * draws)
    deviation = (density * (1 - density) / (bits * draws)) ** 0.5
    assert abs(share - density) <= 4 * deviation, f"{share} of the bits are set, expected {density}"
