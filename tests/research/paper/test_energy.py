"""Energy from counts of events."""

import pytest

from etalstm.research.paper.energy import (
    COEFFICIENTS,
    INTEGER_COEFFICIENTS,
    band,
    draw,
    joules,
    machine_events,
    nominal,
)

VALUES = {"hbm": 2.0, "multiply": 3.0, "add": 1.0, "lane_word": 5.0, "integer_mac": 0.5}
VALUES |= {"board": 10.0, "gpu_cudnn": 100.0}


def test_the_energy_of_a_few_events_is_that_of_hand_calculation():
    events = machine_events({"mac": 6, "elementwise": 4, "activation": 1}, 25, 2.0, boards=3)
    picojoules = 8 * 25 * 2.0 + (6 + 4 + 4 * 1) * (3.0 + 1.0) + 3 * (6 + 4) * 5.0
    assert joules(events, VALUES) == pytest.approx(3 * (picojoules * 1e-12 + 2.0 * 10.0), rel=1e-15)
    assert joules({"gpu_cudnn": 0.5}, VALUES) == 50


def test_a_multiplication_of_integers_takes_two_bytes_and_no_pe():
    events = machine_events({"mac": 6, "elementwise": 0, "activation": 0}, 0, 0.0, integer_macs=8)
    assert joules(events, VALUES) == pytest.approx((8 * 0.5 + 8 * 0.5 * 5.0) * 1e-12)


def test_a_machine_that_stands_still_takes_only_its_static_power():
    still = machine_events({"mac": 0, "elementwise": 0, "activation": 0}, 0, 4.0)
    assert joules(still) == 4.0 * nominal()["board"]


def test_every_coefficient_has_a_range_and_a_source():
    for one in (*COEFFICIENTS, *INTEGER_COEFFICIENTS):
        assert 0 < one.low < one.nominal < one.high, one.name
        assert one.source and one.basis in ("cited", "recalled", "estimated", "assumed"), one.name


def test_draws_are_within_the_ranges_and_the_same_for_a_seed():
    first, again, other = draw(500, 3), draw(500, 3), draw(500, 4)
    for one in (*COEFFICIENTS, *INTEGER_COEFFICIENTS):
        assert one.low <= first[one.name].min() and first[one.name].max() <= one.high
        assert (first[one.name] == again[one.name]).all() and (first[one.name] != other[one.name]).any()


def test_a_band_holds_the_nominal_value():
    low, high = band(joules({"board": 1.0}, draw()))
    assert low < nominal()["board"] < high
