"""The timeline has every instruction once, on a track of its own engine."""

from collections import Counter as Tally

import numpy as np
import pytest

from etalstm.model.iteration import count_program
from etalstm.model.operands import Densities
from etalstm.model.timeline import follow_program
from etalstm.network.shape import NetworkShape
from etalstm.plan.plan import Plan
from etalstm.plan.program.walk import walk
from etalstm_hw.config import preset
from etalstm_hw.contract import ENGINE_OF, Counter, Engine, Opcode

CONFIG = preset("test")


@pytest.fixture(scope="module")
def plan():
    return Plan(CONFIG, NetworkShape(5, 19), 4, 6)


@pytest.fixture(scope="module")
def timelines(plan):
    operands = Densities(CONFIG, plan)
    return {name: follow_program(CONFIG, program.words, operands) for name, program in plan.programs.items()}


@pytest.mark.parametrize("name", ["forward", "backward", "update"])
def test_every_instruction_is_there_once_in_each_channel(plan, timelines, name):
    walked = Tally(step.opcode for step in walk(plan.programs[name].words) if step.opcode in ENGINE_OF)
    found = timelines[name]
    for channel in range(CONFIG.channels_per_port):
        counted = Tally(Opcode(code) for code in found["opcode"][found["channel"] == channel])
        expected = {code: n for code, n in walked.items() if channel == 0 or ENGINE_OF[code] != Engine.CAST}
        assert counted == expected


@pytest.mark.parametrize("name", ["forward", "backward", "update"])
def test_an_engine_has_one_instruction_at_a_time_and_all_within_the_program(plan, timelines, name):
    found = timelines[name]
    cycles = count_program(CONFIG, plan.programs[name].words, Densities(CONFIG, plan))[Counter.CYCLES]
    assert (found["end"] > found["start"]).all() and 0.9 * cycles < found["end"].max() <= cycles
    for track in np.unique(found[["channel", "engine"]]):
        mine = found[found[["channel", "engine"]] == track]
        assert (mine["start"][1:] >= mine["end"][:-1]).all()


def test_a_limit_keeps_what_ended_before_it(plan, timelines):
    program, whole = plan.programs["forward"], timelines["forward"]
    some = follow_program(CONFIG, program.words, Densities(CONFIG, plan), cycles=500)
    assert 0 < len(some) < len(whole) and some["end"].max() <= 500
    assert (some == whole[: len(some)]).all()
