"""Padding in the compiled trainer: the reference's bits, and no product."""

import numpy as np
import pytest

from etalstm.golden import reference
from etalstm.golden.fast import compiled
from etalstm.golden.passes import active_steps
from tests.golden.test_passes import arrays_of

STEPS, BATCH, INPUTS, UNITS = 6, 9, 5, 4
LENGTHS = np.array([6, 6, 5, 4, 4, 3, 2, 1, 1])


def arguments(lengths, seed=3):
    generator = np.random.default_rng(seed)

    def draw(*size):
        return generator.normal(size=size).astype(np.float32)

    active = active_steps(lengths, STEPS)
    dy = np.where(active[:, :, None], draw(STEPS, BATCH, UNITS), np.float32(0))
    forward = draw(4 * UNITS, INPUTS + UNITS), draw(4 * UNITS), draw(STEPS, BATCH, INPUTS), *draw(2, BATCH, UNITS)
    return (*forward, active), (dy, *draw(2, BATCH, UNITS))


def passes(engine, lengths, slices):
    forward, backward = arguments(lengths)
    done = engine.layer_forward(*forward)
    return arrays_of(done) | arrays_of(engine.layer_backward(forward[0], done, *backward, slices=slices))


@pytest.mark.parametrize("slices", [1, 3])
@pytest.mark.parametrize("order", ["descending", "ascending", "mixed"])
def test_any_order_of_lengths_has_the_bits_of_the_reference(order, slices):
    mixed = np.random.default_rng(0).permutation(LENGTHS)
    lengths = {"descending": LENGTHS, "ascending": LENGTHS[::-1], "mixed": mixed}[order]
    actual, expected = (passes(engine, lengths, slices) for engine in (compiled, reference))
    for name, tensor in expected.items():
        assert np.array_equal(actual[name].view(np.uint8), tensor.view(np.uint8)), name


def counted(monkeypatch, name, sums_of_call):
    """Replace a function of the compiled trainer by one that counts the sums it is asked for."""
    counts, original = [], getattr(compiled, name)

    def counting(*given):
        counts.append(sums_of_call(*given))
        return original(*given)

    monkeypatch.setattr(compiled, name, counting)
    return counts


def test_sums_over_x_and_of_dx_are_those_of_real_steps(monkeypatch):
    of_x = counted(monkeypatch, "packed_sums", lambda start, matrix, scalars: (len(scalars), scalars.shape[1]))
    of_dx = counted(monkeypatch, "mac_sums", lambda start, matrix, scalars: (len(scalars), len(matrix)))
    of_dw = counted(monkeypatch, "gradient_sums", lambda x, h, rows, delta, order: (delta.shape[1], order.size))
    passes(compiled, LENGTHS, slices=1)
    real = LENGTHS.sum()
    assert of_x == [(real, INPUTS)]
    assert of_dx == [(real, 4 * UNITS)]
    assert of_dw == [(4 * UNITS, real)]


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[::-1]], ids=["descending", "ascending"])
def test_sums_over_h_are_those_of_real_steps(monkeypatch, lengths):
    counts = counted(monkeypatch, "accumulate", lambda total, matrix, scalars, begin, end: end - begin)
    for name in ("_steps_forward", "_steps_backward"):
        monkeypatch.setattr(compiled, name, getattr(compiled, name).py_func)
    passes(compiled, lengths, slices=1)
    assert sum(counts) == 2 * LENGTHS.sum()
