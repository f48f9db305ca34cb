import json

import pytest

from etalstm.errors import RunError
from etalstm.research import profile as profiles
from etalstm.research.profile import Profile, hysteresis_points, load, model_digest, never_pays, sizes_between
from etalstm_hw.config import preset


def profile(**changed):
    members = {
        "machine": "test", "preset_digest": preset("test").digest, "model_digest": model_digest(),
        "dimension": "hidden", "inputs": None, "hidden": None, "batch": 4, "steps": 3, "storage": "dense",
        "forward": False, "unit": "cycles", "tolerance": 0.0,
        "latencies": {2: 10, 4: 10, 6: 30, 8: 20, 10: None},
    }  # fmt: skip
    return Profile(**members | changed)


def test_a_profile_is_read_as_it_was_written(tmp_path):
    profile().save(tmp_path / "p.json")
    found = load(tmp_path / "p.json")
    assert found == profile() and found.latencies[8] == 20 and isinstance(found.latencies[8], int)
    assert found.points == (4, 8) and found.never_pays == 0.5


def test_points_next_to_a_size():
    found = profile()
    assert [found.point_at_most(size) for size in (3, 4, 7, 99)] == [None, 4, 4, 8]
    assert [found.point_at_least(size) for size in (1, 5, 8, 9)] == [4, 8, 8, None]


def test_a_profile_of_another_preset_is_refused_by_its_digest():
    profile().check_for("test", preset("test"))
    with pytest.raises(RunError, match=r"a profile of test with digest [0-9a-f]{8}, but preset sim has [0-9a-f]{8}"):
        profile().check_for("sim", preset("sim"))


def test_a_profile_of_another_version_of_the_model_is_refused(monkeypatch, tmp_path):
    found = profile()
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "tiling.py").write_text("changed")
    monkeypatch.setattr(profiles, "__file__", str(tmp_path / "research" / "profile.py"))
    monkeypatch.setattr(profiles, "MODEL", ("plan",))
    with pytest.raises(RunError, match="made by another version of the cycle model"):
        found.check_for("test", preset("test"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "no profile in format 1"),
        ({"dimension": "depth"}, "no profile in format 1 of hidden or input"),
        ({"batch": 0}, "batch: Input should be greater than 0, got 0"),
        ({"latencies": {"two": 1}}, "a size must be a number above 0, got 'two'"),
        ({"latencies": {"2": -1}}, "latencies"),
        ({"latencies": {}}, "latencies"),
        ({"more": 1}, "more is unknown here"),
    ],
)
def test_a_file_that_is_no_profile_is_refused(change, message, tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps(profile().model_dump() | change))
    with pytest.raises(RunError, match=message):
        load(path)


def test_a_missing_or_cut_file_is_named(tmp_path):
    with pytest.raises(
        RunError, match=r"p\.json: there is no such profile; eta-lstm research profile latency makes one"
    ):
        load(tmp_path / "p.json")
    (tmp_path / "p.json").write_text('{"format"')
    with pytest.raises(RunError, match=r"p\.json: no JSON"):
        load(tmp_path / "p.json")


@pytest.mark.parametrize(
    ("bounds", "message"),
    [((0, 4, 1), "from must be at least 1, got 0"), ((4, 3, 1), "to must be at least from, 4, got 3"),
     ((1, 4, 0), "step must be at least 1, got 0")],
)  # fmt: skip
def test_bounds_that_cannot_be_are_refused(bounds, message):
    assert sizes_between(2, 7, 2) == [2, 4, 6]
    with pytest.raises(ValueError, match=message):
        sizes_between(*bounds)


def test_a_point_is_faster_than_every_larger_size():
    # 4 and 8 end their bins; 5 to 7 are as fast as 8 or slower
    latencies = {1: 1.0, 2: 3.0, 3: 2.5, 4: 2.0, 5: 5.0, 6: 4.0, 7: 5.0, 8: 4.0}
    assert hysteresis_points(latencies) == (1, 4, 8)
    assert never_pays(latencies) == 5 / 8


def test_where_every_size_is_slower_than_the_one_before_all_are_points():
    assert hysteresis_points({size: size for size in range(1, 9)}) == tuple(range(1, 9))
    assert never_pays({size: size for size in range(1, 9)}) == 0


def test_a_size_that_saves_the_tolerance_or_less_is_no_point():
    latencies = {1: 100, 2: 102, 3: 104.1, 4: 150}
    assert hysteresis_points(latencies, 0.02) == (2, 3, 4)
    assert hysteresis_points(latencies, 0.03) == (3, 4)


def test_the_order_in_which_sizes_are_given_does_not_matter():
    assert hysteresis_points({8: 2.0, 4: 1.0, 6: 2.0}) == (4, 8)


def test_a_size_that_does_not_fit_is_no_point():
    assert hysteresis_points({1: 1.0, 2: 2.0, 3: None}) == (1, 2)
    assert never_pays({1: 2.0, 2: 2.0, 3: None}) == 0.5
    assert never_pays({3: None}) == 0


@pytest.mark.parametrize("tolerance", [-0.1, float("nan"), float("inf")])
def test_a_tolerance_that_cannot_be_is_refused(tolerance):
    with pytest.raises(ValueError, match="tolerance must be at least 0 and finite, got"):
        hysteresis_points({1: 1.0}, tolerance)
