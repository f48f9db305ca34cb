"""LOAD_ROWS that become many LOADs."""

from etalstm.hw.config import preset
from etalstm.hw.contract import Counter
from etalstm.model.iteration import count_program
from etalstm.model.operands import Densities
from etalstm.model.rows import INSTANCES
from etalstm.network import NetworkShape
from etalstm.plan.plan import Plan
from etalstm.storage import Storage


def test_more_loads_than_instructions_can_be_under_way_do_no_harm():
    config = preset("slice")
    plan = Plan(config, NetworkShape(512, 512, 1), 8, 2, storage=Storage("ms1-bf16"))
    words = plan.programs["backward"].words
    counters = count_program(config, words, Densities(config, plan, delta=0.02))
    seen, skipped = counters[Counter.ROWS_SEEN], counters[Counter.ROWS_SKIPPED]
    assert seen - skipped > 4 * INSTANCES
    assert 0.7 < skipped / seen < 0.9  # of 8 sequences none needs a row
