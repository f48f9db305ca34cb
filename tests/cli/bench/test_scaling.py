"""What more and more boards gain, by the cycle model."""

import json

import pytest

from etalstm.cli.application import run
from etalstm.cli.bench import scaling
from etalstm.cli.bench.scaling import numbers_of_boards
from etalstm.model.across import remembering
from etalstm.network.benchmarks import Benchmark


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(scaling, "named", lambda _: [Benchmark("small", hidden=4, layers=2, steps=3, batch=8)])


def test_more_boards_gain_more(small, capsys):
    assert run(["bench", "scaling", "--preset", "test", "--boards", "4", "--json"]) == 0
    two, four = map(json.loads, capsys.readouterr().out.splitlines())
    assert (two["boards"], four["boards"], two["stages"]) == (2, 4, 2)
    assert 0 < two["batch_each"] < 2 and 0 < four["batch_each"] < 4
    assert run(["bench", "scaling", "--preset", "test", "--boards", "2"]) == 0
    assert "2 boards: shared batch" in capsys.readouterr().out


def test_the_gains_are_drawn(small, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "scaling.svg"
    assert run(["bench", "scaling", "--preset", "test", "--boards", "2", "--out", str(path)]) == 0
    assert "small" in path.read_text()


def test_nothing_is_measured_twice():
    asked = []

    def measure(sizes, layers_apart):
        asked.append(sizes)
        return [{"size": size} for size in sizes]

    known = remembering(measure)
    assert known([1, 2]) == [{"size": 1}, {"size": 2}]
    assert known([2, 3, 1]) == [{"size": 2}, {"size": 3}, {"size": 1}]
    assert known([3]) and asked == [[1, 2], [3]]
    assert known([3], layers_apart=True) and asked[2:] == [[3]]


def test_no_board_is_without_a_sequence():
    assert numbers_of_boards(64, 128) == [2, 4, 8, 16, 32, 64]
    assert numbers_of_boards(64, 8) == [2, 4, 8]


@pytest.mark.parametrize(("boards", "expected"), [("0", "boards must be above 0"), ("1", "boards must be at least 2")])
def test_refuses_too_few_boards(boards, expected, capsys):
    assert run(["bench", "scaling", "--boards", boards]) == 2
    assert expected in capsys.readouterr().err
