"""Stages of a cell divide the lane memories; a cell that the planner cannot arrange is refused."""

from dataclasses import replace

import pytest

from etalstm.cells.cell import Cell
from etalstm.cells.lstm import LSTM
from etalstm.errors import PlanError
from etalstm.hw.config import PRESETS
from etalstm.plan.allocation import check_plannable, share_of_lanes
from tests.cells.two_stages import TWO_STAGES

CONFIG = PRESETS["test"]


def test_one_stage_has_the_lane_memories_to_itself():
    assert share_of_lanes(CONFIG, LSTM) == CONFIG


def test_two_stages_have_half_of_the_lane_memories_each_and_the_queue_in_turn():
    share = share_of_lanes(CONFIG, TWO_STAGES)
    assert (share.weight_depth, share.scratch_depth, share.bias_depth) == (
        CONFIG.weight_depth // 2,
        CONFIG.scratch_depth // 2,
        CONFIG.bias_depth // 2,
    )
    assert share.queue_depth == CONFIG.queue_depth


def test_refuses_a_stage_that_broadcasts_nothing_but_x():
    hidden, last = TWO_STAGES.stages
    apart = replace(last, operands=("v", "h"))
    cell = Cell("apart", (replace(hidden, operands=("x",)), apart), state="c")
    with pytest.raises(PlanError, match=r"apart has \('x',\)"):
        check_plannable(cell)


def test_takes_x_in_a_later_stage():
    hidden, last = TWO_STAGES.stages
    check_plannable(Cell("late", (replace(hidden, operands=("h",)), replace(last, operands=("x", "v"))), state="c"))
