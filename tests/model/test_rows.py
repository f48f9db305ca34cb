"""LOAD_ROWS that become many LOADs, and how many of their rows are needed."""

import pytest

from etalstm.model.iteration import count_program
from etalstm.model.machine.rows import OFFERED
from etalstm.model.operands import Densities
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw.config import preset
from etalstm_hw.contract import Counter


def test_more_loads_than_instructions_can_be_under_way_do_no_harm():
    config = preset("slice")
    plan = Plan(config, NetworkShape(512, 512, 1), 8, 2, Execution(storage=Storage("ms1-bf16")))
    words = plan.programs["backward"].words
    counters = count_program(config, words, Densities(config, plan, delta=0.02))
    seen, skipped = counters[Counter.ROWS_SEEN], counters[Counter.ROWS_SKIPPED]
    assert seen - skipped > 4 * OFFERED
    assert 0.7 < skipped / seen < 0.9  # of 8 sequences none needs a row


@pytest.mark.parametrize("density", [0.3, 0.05])
def test_rows_of_changes_are_needed_as_often_as_one_of_a_batch_tile_sends(density):
    """Of independent elements; the steps after the first look at all rows, for each batch tile."""
    config, network = preset("test"), NetworkShape(40, 40)
    plan = Plan(config, network, 4, 5, Execution(delta_inputs=DeltaInputs(0.1, 0)))
    words = plan.programs["forward"].words
    counters = count_program(config, words, Densities(config, plan, inputs=density))
    seen, skipped = counters[Counter.ROWS_SEEN], counters[Counter.ROWS_SKIPPED]
    (layer,), batch = plan.map.layers, plan.map.batch
    assert seen == 4 * batch.count * len(layer.tiling.unit_spans) * layer.tiling.depth
    assert abs(skipped / seen - (1 - density) ** batch.size) < 0.05, (skipped, seen)


def test_a_mac_may_take_as_long_as_hundreds_of_other_instructions():
    config = preset("slice")
    execution = Execution(Storage("ms1-bf16"), delta_inputs=DeltaInputs(0.1, 0), weight_format="bf16")
    plan = Plan(config, NetworkShape(1024, 1024), 32, 3, execution)
    words, operands = plan.programs["forward"].words, Densities(config, plan, inputs=0.381)
    each, repeated = (count_program(config, words, operands, repeats=repeats) for repeats in (False, True))
    assert (each == repeated).all()
    assert 0 < each[Counter.SCALARS_SKIPPED] < each[Counter.SCALARS_SEEN]
