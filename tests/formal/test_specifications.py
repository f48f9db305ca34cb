"""The specifications keep up with the hardware. This needs no solver, so it belongs to the ordinary tests."""

import importlib
from pathlib import Path

import pytest

from tests.formal.prove import ROOT

HERE = Path(__file__).parent
MODULES = [importlib.import_module(f"tests.formal.{path.stem}") for path in sorted(HERE.glob("test_*.py"))]
PROOFS = [proof for module in MODULES if module.__name__ != __name__ for proof in module.PROOFS]
_SURVIVORS = 0.1  # of all mutants


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_elaborates(proof):
    assert "cell $check" in proof.rtlil()


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_every_mutant_changes_a_text_that_is_there_once(proof):
    for mutant in proof.mutants:
        mutant((ROOT / f"{mutant.module.replace('.', '/')}.py").read_text())


def test_names_are_unique():
    names = [proof.name for proof in PROOFS]
    assert len(set(names)) == len(names), names


def test_few_mutants_survive():
    mutants = [mutant for proof in PROOFS for mutant in proof.mutants]
    survivors = [mutant for mutant in mutants if mutant.survives]
    assert len(survivors) <= _SURVIVORS * len(mutants), f"{len(survivors)} of {len(mutants)}: {survivors}"
