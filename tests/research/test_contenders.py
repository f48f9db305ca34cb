"""The machines of ``eta-lstm bench iteration --against``."""

import pytest

from etalstm.research.contenders import CASES, OTHERS, read_contenders
from etalstm.train.settings import Settings

ETA = Settings("digits", storage="ms1-bf16", theta=0.2, ms2=0.5, delta_target=0.1, input_threshold="0.3")


def test_cases_stand_for_all_savings_of_two_machines():
    found = read_contenders("static,cases")
    assert [one.text for one in found[:3]] == ["static", "dynamic+none", "dynamic+ms1"]
    assert {(one.architecture, one.case) for one in found[1:]} == {(m, c) for m in ("dynamic", "swing") for c in CASES}
    assert found[3].name == "Dyn-Arch + MS2" and found[-1].name == "swing + Combine-MS"


@pytest.mark.parametrize("name", OTHERS)
def test_an_architecture_alone_has_no_saving(name):
    (one,) = read_contenders(name)
    found = one.settings(ETA)
    assert (found.architecture, found.storage, found.theta, found.ms2) == (name, "dense", 0.0, None)


@pytest.mark.parametrize(
    ("case", "storage", "theta", "ms2"),
    [("none", "dense", 0.0, None), ("ms1", "ms1-bf16", 0.2, None), ("ms2", "dense", 0.0, 0.5),
     ("combine", "ms1-bf16", 0.2, 0.5)],
)  # fmt: skip
def test_a_case_has_the_savings_of_its_name_and_no_other(case, storage, theta, ms2):
    (one,) = read_contenders(f"swing+{case}")
    found = one.settings(ETA)
    assert (found.storage, found.theta, found.ms2) == (storage, theta, ms2)
    assert (found.delta_target, found.input_threshold, found.weight_format) == (None, "0", "float32")


@pytest.mark.parametrize("text", ["", "swing", "v100", "v100+ms1", "dynamic+", "dynamic+ms3", "dynamic,,static"])
def test_refuses_what_is_no_machine(text):
    with pytest.raises(ValueError, match="against must be of dynamic, static, inference, each of these or swing with"):
        read_contenders(text)


def test_a_case_needs_what_it_is_made_of():
    dense, whole, inference = read_contenders("dynamic+combine,dynamic+ms2,inference+ms1")
    with pytest.raises(ValueError, match=r"dynamic\+combine keeps local gradients: storage must not be dense with it"):
        dense.settings(Settings("digits", ms2=0.5))
    with pytest.raises(ValueError, match=r"dynamic\+ms2 skips cells: ms2 must be a number with it, got off"):
        whole.settings(Settings("digits"))
    with pytest.raises(ValueError, match="inference keeps its intermediates dense"):
        inference.settings(ETA)
