"""The specifications keep up with the hardware. This needs no solver, so it belongs to the ordinary tests."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.formal.page import PAGE, page, proofs

PROOFS = [proof for _, proof in proofs()]
_SURVIVORS = 0.1  # of all mutants


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_elaborates(proof):
    assert "cell $check" in proof.rtlil()


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_every_mutant_changes_a_text_that_is_there_once(proof):
    for mutant in proof.mutants:
        mutant(Path(find_spec(mutant.module).origin).read_text())


def test_names_are_unique():
    names = [proof.name for proof in PROOFS]
    assert len(set(names)) == len(names), names


def test_few_mutants_survive():
    mutants = [mutant for proof in PROOFS for mutant in proof.mutants]
    survivors = [mutant for mutant in mutants if mutant.survives]
    assert len(survivors) <= _SURVIVORS * len(mutants), f"{len(survivors)} of {len(mutants)}: {survivors}"


def test_the_page_says_what_is_proved():
    assert PAGE.read_text() == page(), "run python -m tests.formal.page"
