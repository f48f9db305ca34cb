"""Arrays become what the machine reads, whatever their size and order in memory."""

import numpy as np
import pytest

from etalstm.host.crew import COPY_PRODUCTS, SERIAL_PRODUCTS
from etalstm.host.flush import TINY, flushed

BELOW = np.nextafter(TINY, np.float32(0))


@pytest.mark.parametrize("size", [6, SERIAL_PRODUCTS // COPY_PRODUCTS + 7], ids=["one thread", "several"])
def test_only_subnormals_change(size):
    values = np.resize(np.array([BELOW, -BELOW, TINY, -TINY, -0.0, 3], np.float32), size)
    copy, finite = flushed(values)
    assert copy.view(np.uint32).tolist() == np.where(np.abs(values) < TINY, values * 0, values).view(np.uint32).tolist()
    assert finite and not np.shares_memory(copy, values)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, -1])
def test_a_number_that_is_not_finite_is_seen_in_every_thread(value, place):
    values = np.ones(SERIAL_PRODUCTS // COPY_PRODUCTS + 7, np.float32)
    values[place] = value
    assert not flushed(values)[1]


def test_shapes_are_kept_and_order_is_c():
    for values in (np.float32(2), np.ones((0, 3), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3).T):
        copy, finite = flushed(values)
        assert np.array_equal(copy, values) and copy.shape == np.shape(values)
        assert copy.flags.c_contiguous and finite
