"""What is asked of the cycle model."""

from dataclasses import replace

import pytest

from etalstm.model.measured import EVERY
from etalstm.network.benchmarks import BENCHMARKS
from etalstm.network.execution import BF16, FLOAT32, Execution
from etalstm.research.paper.densities import densities_of
from etalstm.research.paper.requests import DYNAMIC, ETA, ETA_PAPER, whole

TREC, PTB = BENCHMARKS["trec10"], BENCHMARKS["ptb"]


@pytest.mark.parametrize(("machine", "use"), [(ETA_PAPER, "ms2"), (ETA, "eta")])
def test_skipped_cells_are_left_out_and_the_others_have_all_that_is_not_zero(machine, use):
    known, asked = getattr(densities_of("trec10"), use), whole(TREC, machine, 1).shares
    assert asked.kept_cells == (known.backward,) and 0 < known.backward < 0.5
    assert asked.delta * known.backward == pytest.approx(known.delta)
    assert (asked.local, asked.inputs) == (known.local, known.inputs)


def test_weights_are_bfloat16_where_all_means_are_used():
    formats = [whole(TREC, machine, 1).execution.weight_format for machine in (DYNAMIC, ETA_PAPER, ETA)]
    assert formats == [FLOAT32, FLOAT32, BF16]


def test_dyn_arch_keeps_every_cell():
    assert whole(TREC, DYNAMIC, 1).shares.kept_cells == EVERY


def test_without_a_study_of_skipped_cells_every_cell_is_kept():
    assert whole(PTB, ETA_PAPER, 1).shares.kept_cells == EVERY


def test_requests_with_other_shares_are_told_apart():
    asked = whole(TREC, ETA_PAPER, 1)
    assert asked.key != replace(asked, shares=replace(asked.shares, kept_cells=EVERY)).key
    assert asked.key != replace(asked, execution=Execution()).key
