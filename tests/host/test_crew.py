"""Threads that share a range of work."""

import pytest

from etalstm.host.crew import SERIAL_PRODUCTS, Crew


def test_pieces_of_the_crew_cover_the_range_once():
    crew = Crew()
    crew.size = 3
    seen = []
    crew.share(10, SERIAL_PRODUCTS + 1, lambda begin, end: seen.extend(range(begin, end)))
    assert sorted(seen) == list(range(10))
    pieces = []
    crew.share(10, SERIAL_PRODUCTS, lambda begin, end: pieces.append((begin, end)))
    assert pieces == [(0, 10)]


def test_an_error_in_a_piece_reaches_the_caller():
    crew = Crew()
    crew.size = 2
    with pytest.raises(ZeroDivisionError):
        crew.share(4, SERIAL_PRODUCTS + 1, lambda begin, end: 1 // begin)


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
    crew.share(4, SERIAL_PRODUCTS + 1, lambda begin, end: pieces.append((begin, end)), work)
    assert sorted(pieces) == expected
