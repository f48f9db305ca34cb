"""Stages of a cell divide the lane memories; a cell that the planner cannot arrange is refused."""

from dataclasses import replace

import numpy as np
import pytest

from etalstm.errors import PlanError
from etalstm.golden.cell import evaluate
from etalstm.network.cells.cell import Cell, Product, Stage, arrays
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM
from etalstm.network.cells.operation import equations
from etalstm.plan.memory.allocation import CLOSED, share_of_lanes
from etalstm.plan.memory.network_map import check_plannable
from etalstm_hw.config import PRESETS
from tests.network.cells.two_stages import TWO_STAGES

CONFIG = PRESETS["test"]


def test_one_stage_has_the_lane_memories_to_itself():
    assert share_of_lanes(CONFIG, LSTM) == CONFIG


def test_two_stages_have_half_of_the_lane_memories_each_and_the_partial_sums_in_turn():
    share = share_of_lanes(CONFIG, TWO_STAGES)
    assert (share.weight_depth, share.scratch_depth, share.bias_depth) == (
        CONFIG.weight_depth // 2,
        CONFIG.scratch_depth // 2,
        CONFIG.bias_depth // 2,
    )
    assert share.queue_depth == CONFIG.queue_depth


def test_refuses_a_stage_that_broadcasts_nothing_but_x():
    hidden, last = TWO_STAGES.stages
    apart = replace(last, products=(Product(last.gates, ("v", "h")),))
    cell = Cell("apart", (replace(hidden, products=(Product(hidden.gates, ("x",)),)), apart), state="c")
    with pytest.raises(PlanError, match=r"apart has .*'x',\)"):
        check_plannable(cell)


def test_refuses_more_kinds_than_the_machine_has_thresholds():
    stage = LSTM.stages[0]
    many = Cell("many", (replace(stage, kept=stage.kept | {"again": "P_i"}),), state="c")
    with pytest.raises(PlanError, match=r"has 6 thresholds .* many keeps .*'again'"):
        check_plannable(many)


def test_refuses_more_gates_than_a_block_can_have():
    five = Stage(
        products=(Product(("p", "q", "r", "s", "t"), ("x", "h")),),
        outputs=("h",),
        forward=equations("""
            p = sigmoid(z_p)
            q = sigmoid(z_q)
            r = sigmoid(z_r)
            s = sigmoid(z_s)
            t = sigmoid(z_t)
            c = c_before * p
            h = c * q
        """),
        local=(),
        kept={"p": "p"},
        rebuild=(),
        backward=equations("""
            delta_p = dh * p
            delta_q = dh * p
            delta_r = dh * p
            delta_s = dh * p
            delta_t = dh * p
            dc_before = dc_next * p
        """),
        forward_arrays=arrays("p q r s t", "c_before", "c", "h"),
        local_arrays=(),
        backward_arrays=arrays(
            "p q r s t", "delta_p delta_q delta_r delta_s delta_t", "dy", "dh", "dc_next", "dc_before"
        ),
    )
    with pytest.raises(PlanError, match="a stage can have 4 gates: five has"):
        check_plannable(Cell("five", (five,), state="c"))


@pytest.mark.parametrize("cell", [LSTM, TWO_STAGES, HLSTM], ids=lambda cell: cell.name)
def test_lanes_that_hold_no_unit_give_zero_and_keep_nothing(cell):
    for stage in cell.stages:
        sums = dict.fromkeys(stage.sums, np.full(1, CLOSED, np.float32))
        values = evaluate(stage.forward + stage.local, sums | {cell.state_before: np.zeros(1, np.float32)})
        for name in (*stage.outputs, *stage.kept.values()):
            assert values[name] == 0, f"{name} is {values[name]}"
    assert values[cell.state] == 0


def test_takes_x_in_a_later_stage():
    hidden, last = TWO_STAGES.stages
    first, then = Product(hidden.gates, ("h",)), Product(last.gates, ("x", "v"))
    check_plannable(Cell("late", (replace(hidden, products=(first,)), replace(last, products=(then,))), state="c"))
