"""Work is shared among threads; arrays become what the machine reads, whatever their size and order in memory."""

import numpy as np
import pytest

from etalstm.host.crew import COPY_PRODUCTS, SERIAL_PRODUCTS, TINY, Crew, flushed


def test_pieces_of_the_crew_cover_the_range_once():
    crew = Crew()
    crew.size = 3
    seen = []
    crew.run(10, SERIAL_PRODUCTS + 1, lambda begin, end: seen.extend(range(begin, end)))
    assert sorted(seen) == list(range(10))
    pieces = []
    crew.run(10, SERIAL_PRODUCTS, lambda begin, end: pieces.append((begin, end)))
    assert pieces == [(0, 10)]


def test_an_error_in_a_piece_reaches_the_caller():
    crew = Crew()
    crew.size = 2
    with pytest.raises(ZeroDivisionError):
        crew.run(4, SERIAL_PRODUCTS + 1, lambda begin, end: 1 // begin)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ([4, 4, 4, 4], [(0, 2), (2, 4)]),
        ([9, 4, 3, 2], [(0, 1), (1, 4)]),
        ([8, 0, 0, 0], [(0, 1), (1, 4)]),
        ([0, 0, 0, 0], [(0, 0), (0, 4)]),
    ],
)
def test_pieces_have_equal_work(work, expected):
    crew, pieces = Crew(), []
    crew.size = 2
    crew.run(4, SERIAL_PRODUCTS + 1, lambda begin, end: pieces.append((begin, end)), work)
    assert sorted(pieces) == expected


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
