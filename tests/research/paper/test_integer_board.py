"""The machine of integers beside a V100: the tables' numbers are those of the cycle model."""

import pytest

from etalstm.cli.application import run
from etalstm.model.measured import Shares, measure
from etalstm.network.benchmarks import Benchmark
from etalstm.research.paper import integer_board
from etalstm.research.paper.roofline import v100_seconds
from etalstm_hw.config import preset

CONFIG, SMALL = preset("test-int8"), Benchmark("imdb", 48, 2, 6, 8)  # at the shares of this data set


def found(**options):
    twice = list(integer_board.iterations(CONFIG, [SMALL, SMALL], **options))
    *rows, mean = (dict(zip(integer_board.TIME, row, strict=True)) for row in integer_board.time_rows(twice))
    assert mean["of a V100"] == rows[0]["of a V100"] == rows[1]["of a V100"]
    return rows[0]


def test_a_dense_row_is_what_the_model_gives():
    row, model = found(dense=True), measure(
        SMALL.network, SMALL.batch, SMALL.steps, CONFIG, integer_board.EXECUTION, Shares(), choose_slices=False
    )  # fmt: skip
    assert row["ms"] == f"{model['milliseconds']:.1f}" and (row["δ"], row["digits"]) == ("1.00", "2.00")
    assert row["of a V100"] == f"{1e3 * v100_seconds(SMALL) / model['milliseconds']:.2f}"
    parts = sum(float(row[name]) for name in ("forward", "backward", "update"))
    assert parts == pytest.approx(model["milliseconds"], abs=0.15)
    assert set(model["passes"]) == {"forward", "backward", "update"}


def test_what_the_study_left_out_is_left_out():
    dense, sparse = found(dense=True), found()
    made = [float(row["useful"]) * float(row["ms"]) for row in (sparse, dense)]  # element-wise work binds here
    assert made[0] < 0.5 * made[1] and float(sparse["x, h sent"]) < float(dense["x, h sent"]) == 1
    assert float(sparse["δ"]) <= float(sparse["digits"]) < 2 * float(sparse["δ"])


def test_bytes_and_joules_are_those_of_all_boards():
    (one,), (of_two,) = (list(integer_board.iterations(CONFIG, [SMALL], boards=count)) for count in (1, 2))
    model = one.found
    assert one.moved("intermediates") == sum(model["bytes"][f"{way}_intermediates"] for way in ("read", "write")) > 0
    assert one.loaded == sum(model["weights_read"].values()) - model["weights_read"]["update"] > 0
    assert one.events["board"] == pytest.approx(model["milliseconds"] / 1e3)
    assert one.events["integer_mac"] == pytest.approx(model["utilization"] * CONFIG.macs * model["cycles"])
    assert of_two.events["board"] == pytest.approx(2 * of_two.found["milliseconds"] / 1e3)
    assert "finish" in of_two.found["passes"], "sums that the host has added get their exponents"
    rows = [next(integer_board.byte_rows([found])) for found in (one, of_two)]
    memories = [sum(found.found["footprint"].values()) for found in (one, of_two)]
    assert [row[1] for row in rows] == [f"{of * n / 1e9:.2f}" for n, of in zip((1, 2), memories, strict=True)]
    assert float(rows[0][3]) == round(one.loaded / 1e9, 2)


def test_the_command_refuses_what_it_does_not_know(capsys):
    assert run(["research", "integers", "--benchmark", "ptb,abacus"]) == 2
    assert "benchmark must be of trec10, ptb, imdb, waymo, wmt, babi, got 'abacus'" in capsys.readouterr().err
    assert run(["research", "integers", "--preset", "test"]) == 2
    assert "the preset must have integer_pes" in capsys.readouterr().err
