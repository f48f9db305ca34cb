"""What is asked of the cycle model."""

import pytest

from etalstm.benchmarks import BENCHMARKS
from etalstm.model.cells import EVERY
from etalstm.paper.densities import densities_of
from etalstm.paper.requests import DYNAMIC, ETA, ETA_PAPER, whole

TREC, PTB = BENCHMARKS["trec10"], BENCHMARKS["ptb"]


def test_ms2_leaves_out_whole_cells_and_the_others_have_all_that_is_not_zero():
    known, asked = densities_of("trec10"), whole(TREC, ETA_PAPER, 1)
    assert asked.kept_cells == (known.ms2_backward,) and 0 < known.ms2_backward < 0.5
    assert asked.delta * known.ms2_backward == pytest.approx(known.ms2_delta)
    assert asked.local == known.ms2_local


@pytest.mark.parametrize("machine", [DYNAMIC, ETA])
def test_other_machines_keep_every_cell(machine):
    assert whole(TREC, machine, 1).kept_cells == EVERY


def test_without_a_study_of_skipped_cells_every_cell_is_kept():
    assert whole(PTB, ETA_PAPER, 1).kept_cells == EVERY


def test_requests_that_keep_unequal_shares_are_told_apart():
    assert whole(TREC, ETA_PAPER, 1).key != whole(TREC, ETA, 1).key
    assert "kept_cells=(0.307" in whole(TREC, ETA_PAPER, 1).key
