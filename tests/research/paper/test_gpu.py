"""The roofline of a GPU."""

from dataclasses import replace

import pytest

from etalstm.network.benchmarks import BENCHMARKS, V100_OPERATIONS
from etalstm.network.shape import NetworkShape
from etalstm.research.paper.gpu import V100_BANDWIDTH, Roofline, Work, fit, footprint, moved, operations

PUBLISHED = [one for one in BENCHMARKS.values() if one.v100_milliseconds]
WORK = Work(NetworkShape(3, 2, 1), 5, 7)
CELLS = 5 * 7


def test_the_fit_is_near_the_published_times_that_it_has_not_seen():
    fitted = fit(PUBLISHED)
    assert len(fitted.fitted) == len(fitted.others) == 3 and not set(fitted.fitted) & set(fitted.others)
    assert max(map(abs, fitted.fitted.values())) < 0.01
    assert max(map(abs, fitted.others.values())) < 0.13
    assert 0.8 < fitted.roofline.efficiency < 1


def test_a_fit_finds_the_roofline_that_times_were_made_with():
    true = Roofline(0.75, 50e-6)
    made = [
        replace(one, v100_milliseconds=1e3 * true.seconds(Work(one.network, one.batch, one.steps, recurrent=True)))
        for one in PUBLISHED
    ]
    found = fit(made).roofline
    assert found.efficiency == pytest.approx(0.75, abs=1e-3)
    assert found.step_seconds == pytest.approx(50e-6, rel=0.01)


def test_products_are_those_of_the_network():
    assert operations(WORK) == 2 * 3 * (4 * 2) * (3 + 2) * CELLS
    assert operations(replace(WORK, recurrent=True)) == 2 * 3 * (4 * 2) * 2 * CELLS


def test_ms1_changes_only_bytes_of_intermediates():
    whole, pruned = WORK, replace(WORK, kept=0.25)
    assert moved(whole)["intermediates"] == 2 * 5 * 4 * 2 * CELLS  # written and read: five tensors of words of 4 bytes
    assert moved(pruned) == moved(whole) | {"intermediates": moved(whole)["intermediates"] / 4}
    assert footprint(pruned)["intermediates"] == footprint(whole)["intermediates"] / 4
    assert operations(pruned) == operations(whole)


def test_ms2_leaves_out_two_products_of_the_cells_that_it_skips():
    assert operations(replace(WORK, backward=0.5)) == pytest.approx(operations(WORK) * (1 + 2 * 0.5) / 3)
    none = moved(replace(WORK, backward=0))
    assert none["intermediates"] == none["deltas"] == 0


def test_time_is_that_of_the_slower_one_of_products_and_memory_and_of_the_steps():
    free, slow = Roofline(1.0, 0.0), Roofline(1.0, 1e-3)
    assert slow.seconds(WORK) - free.seconds(WORK) == pytest.approx(7e-3)
    assert free.seconds(WORK) == pytest.approx(sum(moved(WORK).values()) / V100_BANDWIDTH)  # too small for the PEs
    large = Work(NetworkShape(4096, 4096, 1), 512, 8)
    assert 1 < free.seconds(large) * V100_OPERATIONS / operations(large) < 1.1
