"""The roofline of the integer machine: its phases add up, and what binds is named."""

import pytest

from etalstm.cli.application import run
from etalstm.network.benchmarks import BENCHMARKS
from etalstm.research.paper.densities import Shares
from etalstm.research.paper.roofline import (
    BOUNDS,
    BYTES,
    DENSE,
    ELEMENTS,
    MULTIPLICATIONS,
    IntegerMachine,
    estimate,
    table,
)

MACHINE = IntegerMachine(12_288, 192, 250e6, 240e9, 25_000_000)


def test_dense_products_take_three_multiplications_of_each_weight_and_step():
    benchmark = BENCHMARKS["babi"]  # 5 layers of 1,024 units: products take longer than all else
    found = estimate(MACHINE, benchmark, DENSE)
    multiplications = 3 * benchmark.network.weights() * benchmark.batch * benchmark.steps
    products = multiplications / MACHINE.multiplications / MACHINE.clock_hz
    assert found.seconds * found.bound[MULTIPLICATIONS] == pytest.approx(products)
    assert sum(found.bound.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "changed, bound",
    [({"lanes": 1}, ELEMENTS), ({"bandwidth": 1e6}, BYTES), ({"multiplications": 1}, MULTIPLICATIONS)],
)
def test_what_there_is_least_of_binds(changed, bound):
    found = estimate(IntegerMachine(**vars(MACHINE) | changed), BENCHMARKS["ptb"], Shares(0.5, 0.5, 0.5, 1.0))
    assert max(found.bound, key=lambda name: found.bound[name]) == bound and set(found.bound) == set(BOUNDS)


def test_weights_that_do_not_fit_are_loaded_in_every_step():
    slow = {"multiplications": 10**9, "lanes": 10**9, "bandwidth": 1e9}
    seconds = [
        estimate(IntegerMachine(**vars(MACHINE) | slow | {"resident": resident}), BENCHMARKS["ptb"], DENSE).seconds
        for resident in (10**9, 0)
    ]
    benchmark = BENCHMARKS["ptb"]
    assert seconds[1] - seconds[0] == pytest.approx(2 * benchmark.network.weights() * (benchmark.steps - 1) / 1e9)


def test_the_command_prints_each_shape_and_the_means(capsys):
    assert run(["research", "roofline", "--vector", "8,16", "--dense"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("mean") == 2 and printed.count("trec10") == 2
    rows = table({16: MACHINE}, [BENCHMARKS["ptb"]], dense=True)
    assert rows[0][4] in printed


@pytest.mark.parametrize("option, message", [
    (("--vector", "8,x"), "vector must be integers with commas between, got '8,x'"),
    (("--lanes", "0"), "lanes must be above 0, got 0"),
    (("--bandwidth", "0"), "bandwidth must be above 0, got 0.0"),
])  # fmt: skip
def test_values_out_of_range_are_refused(capsys, option, message):
    assert run(["research", "roofline", *option]) == 2
    assert message in capsys.readouterr().err
