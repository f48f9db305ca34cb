"""The architectures to compare with, as the registers get them."""

import pytest

from etalstm.network.architecture import ARCHITECTURES, Division, architecture
from etalstm.network.execution import Execution
from etalstm.network.storage import Storage
from etalstm_hw.contract import SLOTS


@pytest.mark.parametrize(
    ("division", "elementwise", "forward", "backward"),
    [((14, 14, 4), 4, 14, 28), ((20, 9, 3), 3, 20, 18), ((9, 20, 3), 3, 9, 18), ((29, 0, 3), 3, 29, 29)],
    ids=str,
)
def test_the_slower_product_of_the_backward_pass_sets_its_pace(division, elementwise, forward, backward):
    assert Division(*division).register == elementwise | forward << 8 | backward << 16


@pytest.mark.parametrize("parts", [(0, 16, 16), (32, 0, 0), (16, -1, 17), (16, 8, 9), (10, 10, 10)], ids=str)
def test_a_division_that_is_none_is_refused(parts):
    with pytest.raises(ValueError, match=rf"32 PEs in all.* got {parts[0]} for MatMul"):
        Division(*parts)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_no_cycle_of_an_architecture_is_given_twice(name):
    division = architecture(name).division
    if division:
        assert division.elementwise + max(division.forward, division.backward) <= SLOTS


def test_an_inference_design_keeps_no_local_gradients():
    assert Execution(architecture=ARCHITECTURES["inference"]).architecture.division.outer == 0
    with pytest.raises(ValueError, match="architecture inference keeps its intermediates dense, not as ms1"):
        Execution(Storage("ms1"), architecture=ARCHITECTURES["inference"])


def test_an_architecture_that_is_none_is_refused():
    with pytest.raises(ValueError, match="unknown architecture 'fast', expected one of: swing, dynamic, static"):
        architecture("fast")
    with pytest.raises(ValueError, match="unknown architecture 'fast', expected one of: swing, dynamic, static"):
        Execution(architecture="fast")
    with pytest.raises(ValueError, match="architecture must be of type Architecture, got int"):
        Execution(architecture=3)
