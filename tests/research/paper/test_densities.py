"""The densities of the comparison are those of the committed studies."""

from pathlib import Path

import pytest

from etalstm.research.paper.densities import (
    DIGITS,
    INTEGER_PATH,
    densities_of,
    integer_shares_of,
    sources,
    stream_share,
)
from etalstm.research.studies.several import OF_INTEGERS, choose_all

STUDIES, OF_ARITHMETIC = (Path(__file__).parents[3] / "docs" / name for name in ("density", "integers"))


def test_they_are_what_is_chosen_from_the_committed_studies():
    assert choose_all(STUDIES, "docs/density") == sources(), "eta-lstm research study choose --studies docs/density"


def test_those_of_integers_are_what_is_chosen_from_the_committed_studies():
    known = sources(INTEGER_PATH)
    assert choose_all(OF_ARITHMETIC, "docs/integers", OF_INTEGERS) == known, "eta-lstm research study choose --integers"
    found, study = integer_shares_of("trec10"), known["sets"]["trec"]["eta"]
    assert found.own and found.changes and found.delta_bits == 15
    assert (found.left.inputs, found.digits) == (study["inputs"], study["digits"]) and found.digits >= found.left.delta


def test_where_no_run_with_integers_keeps_the_score_shares_are_those_of_float32(monkeypatch):
    monkeypatch.setitem(sources(INTEGER_PATH)["sets"]["babi"], "eta", None)
    found, of_float32 = integer_shares_of("babi"), densities_of("babi").eta
    assert not found.own and found.left == of_float32 and found.digits == DIGITS * of_float32.delta


def test_a_benchmark_without_a_study_takes_shares_that_are_marked():
    assert densities_of("trec10").own and densities_of("ptb").own
    assumed = densities_of("other")
    assert not assumed.own and assumed.data == "trec"
    assert assumed.eta == densities_of("trec10").eta


def test_where_no_cell_is_skipped_ms2_is_ms1():
    ptb = densities_of("ptb")
    assert ptb.ms2 == ptb.ms1 and ptb.ms2.backward == 1.0


def test_streams_are_masks_and_halves_of_words():
    assert stream_share(0.0) == pytest.approx(6 / 32 / 5)
    assert stream_share(1.0) == pytest.approx(6 * (1 / 2 + 1 / 32) / 5)
