"""The waits of planned programs order whatever touches the same memory, in every turn of their loops."""

import numpy as np
import pytest

from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.network.storage import Storage
from etalstm.plan.plan import Plan
from etalstm_hw import contract
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode
from tests.plan.hazards import Hazards

SHAPES = [
    ("test", (3, 5, 2), 3, 23),
    ("test", (8, 33, 1), 9, 14),
    ("test", (40, 70, 1), 1, 12),
    ("test", (20, 20, 2), 3, 40),
    ("sim", (8, 40, 2), 9, 40),
]


def check(plan, skipped):
    fewer = (plan.named(*plan.passes(skipped[:, :steps])) for steps in (1, skipped.shape[1] // 2))
    for programs in (plan.programs, plan.named(*plan.passes(skipped)), *fewer):
        for program in programs.values():
            assert Hazards(plan.config).check(program.words) >= len(program.words) // 2


@pytest.mark.parametrize("masked", [False, True], ids=["full", "masked"])
@pytest.mark.parametrize("policy", ["dense", "ms1-bf16"])
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_nothing_starts_before_what_it_needs_is_done(sizes, policy, masked):
    name, network, batch, steps = sizes
    plan = Plan(preset(name), NetworkShape(*network), batch, steps, Execution(storage=Storage(policy)), masked=masked)
    skipped = np.random.default_rng(1).random((network[2], steps)) < 0.3
    skipped[:, 5:9] = True
    check(plan, skipped)


@pytest.mark.parametrize("kind", ["product_programs", "stream_programs"])
def test_programs_of_benches_are_ordered_too(kind):
    plan = Plan(preset("test"), NetworkShape(8, 33), 9, 14, Execution(storage=Storage("ms1")))
    for program in getattr(plan, kind)().values():
        assert Hazards(plan.config).check(program.words) > 14


def test_a_wait_that_is_missing_is_found():
    """Each of a program's waits, in turn, left out: most are needed, those that are not repeat another one's."""
    plan = Plan(preset("test"), NetworkShape(3, 5), 3, 12)
    words, found, waits = plan.programs["forward"].words, 0, 0
    for number, word in enumerate(words):
        opcode, fields = contract.decode(word)
        for name in ("wait_load", "wait_mac", "wait_vector", "wait_store"):
            if opcode != Opcode.HALT and fields[name]:
                spoiled = [*words[:number], contract.encode(opcode, **fields | {name: 0}), *words[number + 1 :]]
                waits += 1
                try:
                    Hazards(plan.config).check(spoiled)
                except AssertionError:
                    found += 1
    assert found > 0.7 * waits, f"{found} of {waits}"
