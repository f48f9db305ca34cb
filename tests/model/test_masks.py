"""Masks that are drawn at random."""

import numpy as np
import pytest

from etalstm.model.machine import masks as model
from etalstm.model.operands import CERTAIN
from tests.model.python import from_python

seed, draw_bits, draw_some = from_python(model.seed, model.draw_bits, model.draw_some)
BITS = 32


@pytest.mark.parametrize("density", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_the_share_of_bits_is_the_density(density):
    random, draws = np.zeros(1, np.uint64), 4000
    seed(random, 1, 0)
    masks = [int(draw_bits(random, BITS, round(density * CERTAIN))) for _ in range(draws)]
    assert all(0 <= mask < 1 << BITS for mask in masks)
    share = sum(mask.bit_count() for mask in masks) / (BITS * draws)
    deviation = (density * (1 - density) / (BITS * draws)) ** 0.5
    assert abs(share - density) <= 4 * deviation, f"{share} of the bits are set, expected {density}"


@pytest.mark.parametrize("kept", [0, 1, 50, 319, 320])
def test_a_block_keeps_as_many_as_it_shall_wherever_its_bits_are(kept):
    random, filled, left, to_go = np.zeros(1, np.uint64), 0x0F0F_F0F1, 20 * 17, min(kept, 20 * 17)
    seed(random, 5, 3)
    counts = []
    for _ in range(20):
        mask = int(draw_some(filled, BITS, left, to_go, random))
        assert mask & ~filled == 0
        counts.append(mask.bit_count())
        left, to_go = left - filled.bit_count(), to_go - counts[-1]
    assert sum(counts) == kept


def test_equal_instructions_draw_equal_bits_and_others_do_not():
    random, drawn = np.zeros(1, np.uint64), []
    for text, number in ((7, 0), (7, 0), (7, 1), (8, 0)):
        seed(random, text, number)
        drawn.append(int(draw_bits(random, BITS, CERTAIN // 2)))
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3
