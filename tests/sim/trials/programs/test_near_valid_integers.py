"""Programs of which one field has another value, on a machine whose products are integers."""

from contextlib import closing

import pytest

from etalstm_hw.contract import OF_INTEGERS, Opcode, Status
from etalstm_sim.checks import engines, model, pairs
from etalstm_sim.checks.pairs import Pairs
from etalstm_sim.checks.refusals import OPCODES
from etalstm_sim.trials.programs.changes import NETWORKS_OF_INTEGERS
from etalstm_sim.trials.programs.near_valid import MACHINE, NearValid
from tests.sim.trials.programs.wrong_models import holds, longer_windows

# Cases of integers: the first of all, those that change a SEND or a PRODUCT, and those that change what a VECTOR does.
ANY, OF_PRODUCTS, OF_OPERATIONS = 60, 140, 30
OPERATION = ("op", "a_source", "b_source", "bits")


@pytest.fixture(scope="module")
def found():
    """Cases of a machine whose products are integers."""
    with closing(NearValid("test-int8", 0, MACHINE)) as bench:
        changed = [
            (number, opcode_of(at.programs[change.program], change), change.field)
            for number in range(ANY, 40 * ANY)
            for at, change in [bench._cases.change(number)]
        ]
        products = [number for number, opcode, _ in changed if opcode in OF_INTEGERS][:OF_PRODUCTS]
        operations = [n for n, opcode, field in changed if opcode == Opcode.VECTOR and field in OPERATION]
        return [bench.run(number) for number in [*range(ANY), *products, *operations[:OF_OPERATIONS]]]


def opcode_of(words, change):
    return words[change.number] & OPCODES


def test_text_model_and_machine_agree(found):
    assert [each for each in found if not each.fits] == []
    assert {each.run.status for each in found} >= {Status.DONE, Status.BAD_FIELD, Status.BAD_ADDRESS}
    assert {each.network for each in found} == set(NETWORKS_OF_INTEGERS)
    promised = sum(each.ending.promised is not None for each in found)
    assert promised > 0.85 * len(found)


MUTANTS = {
    "any array": (engines, "is_array", lambda given: lambda *args: True),
    "any place": (pairs, "is_misplaced", lambda given: lambda *args: False),
    "any operation": (engines, "is_operation", lambda given: lambda *args: True),
    "any product": (Pairs, "_check", lambda given: lambda *args: engines.Check()),
    "no pairs": (model._Walk, "_pair", lambda given: lambda *args: None),
    "longer windows": (engines.Engines, "__init__", longer_windows),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_model_is_noticed(found, monkeypatch, name):
    owner, member, change = MUTANTS[name]
    monkeypatch.setattr(owner, member, change(getattr(owner, member)))
    assert not holds(found, "test-int8")
