"""The densities of the comparison are those of the committed studies."""

from pathlib import Path

import pytest

from etalstm.research.paper.densities import densities_of, sources, stream_share
from etalstm.research.studies.several import choose_all

STUDIES = Path(__file__).parents[3] / "docs" / "density"


def test_they_are_what_is_chosen_from_the_committed_studies():
    assert choose_all(STUDIES, "docs/density") == sources(), "eta-lstm research study choose --studies docs/density"


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
