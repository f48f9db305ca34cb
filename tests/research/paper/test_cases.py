"""Rows of the comparison."""

import pytest

from etalstm.research.paper.cases import (
    BASELINES,
    CASES,
    CUDNN,
    FRAMEWORK,
    IMPLIED_OPERATIONS,
    ON_BOARDS,
    ON_GPU,
    Value,
    find_row,
    together,
)
from etalstm.research.paper.claims import CLAIMS, findings, mean
from etalstm.research.paper.energy import joules, machine_events
from tests.research.paper.compared import TINY, compared

ROWS = compared().rows


def row(case, boards=0, baseline=""):
    return find_row(ROWS, "tiny", case, boards, baseline)


def test_there_is_a_row_for_each_case_on_each_machine():
    keys = [(one.case, one.boards, one.baseline) for one in ROWS]
    assert len(set(keys)) == len(keys) == len(ON_GPU) * 2 + len(ON_BOARDS) * 2
    assert {case for case, _, _ in keys} == set(CASES)


def test_cycles_are_those_that_the_model_gives_for_the_boards_part_of_the_batch():
    assert row("dynamic", 1).milliseconds.value == (100 + 10 * 11 * 16) / 1e3
    assert row("dynamic", 4).milliseconds.value == (100 + 10 * 11 * 4) / 1e3
    assert row("eta", 1).milliseconds.value == row("dynamic", 1).milliseconds.value / 2


def test_fixed_shares_take_dyn_archs_time_times_a_factor_from_few_steps():
    assert row("static", 1).milliseconds.value == pytest.approx(1.5 * row("dynamic", 1).milliseconds.value)
    assert row("inference", 4).milliseconds.value == pytest.approx(1.25 * row("dynamic", 4).milliseconds.value)


def test_four_boards_move_hold_and_take_four_times_what_one_of_them_does():
    one = row("eta", 4)
    assert one.moved["weights"].value == 4 * 0.5 * 20
    assert one.footprint["optimizer"].value == 4 * 0.5 * 80
    seconds, bytes_moved = one.milliseconds.value / 1e3, 0.5 * (60 + 10 + 1)
    events = machine_events({"mac": 1000, "elementwise": 10, "activation": 5}, bytes_moved, seconds)
    assert one.joules.value == pytest.approx(4 * joules(events))
    assert one.joules.low < one.joules.value < one.joules.high


def test_ratios_are_the_baselines_over_the_rows():
    one = row("eta", 1)
    for kind in BASELINES:
        base = row("baseline", 0, kind)
        assert one.speed[kind].value == base.milliseconds.value / one.milliseconds.value
        assert one.energy[kind].value == pytest.approx(base.joules.value / one.joules.value)
        assert one.energy[kind].low < one.energy[kind].value < one.energy[kind].high
        assert base.speed == {kind: Value(1.0, "1", base.milliseconds.how)}


def test_the_implied_framework_has_one_rate():
    operations = 6 * (4 * 8) * (8 + 8) * TINY.batch * TINY.steps
    assert row("baseline", 0, FRAMEWORK).milliseconds.value == pytest.approx(1e3 * operations / IMPLIED_OPERATIONS)
    assert 1.79e12 < IMPLIED_OPERATIONS < 1.81e12


def test_ms2_helps_both_kinds_of_software_alike():
    assert row("ms2", 0, CUDNN).speed[CUDNN].value > 1
    assert row("ms2", 0, FRAMEWORK).speed[FRAMEWORK].value == pytest.approx(row("ms2", 0, CUDNN).speed[CUDNN].value)


def test_provenance_names_everything_that_a_value_rests_on():
    assert row("baseline", 0, CUDNN).milliseconds.how == "ML"
    assert row("baseline", 0, FRAMEWORK).milliseconds.how == "LA"
    assert row("eta", 1).milliseconds.how == "MCA"
    assert row("dynamic", 1).milliseconds.how == "MA" and not row("dynamic", 1).fits
    assert together("A", "ML", "M") == "MLA"
    with pytest.raises(ValueError, match="letters of VMCLA, got 'X'"):
        Value(1.0, "ms", "X")


def test_a_mean_has_the_band_of_all():
    values = [Value(1.0, "J", "M", 0.5, 2.0), Value(3.0, "J", "A", 2.5, 3.0)]
    assert mean(values) == Value(2.0, "J", "MA", 1.5, 2.5)
    assert mean([Value(1.0, "1", "M"), values[0]]).low is None


def test_a_claim_is_reached_where_our_mean_is_theirs_or_more():
    for claim in CLAIMS:
        for found in findings(claim, ROWS):
            assert found.reached == (found.average.value >= claim.average)
    weights = next(claim for claim in CLAIMS if claim.kind == "weights")
    assert findings(weights, ROWS)[0].average.value == pytest.approx(50)  # the made-up streams are half
    assert findings(weights, ROWS)[0].reached
