"""The model against the Verilog: a few of the configurations of ``eta-lstm model --check``."""

import pytest

from etalstm.commands.model_check import CONFIGURATIONS, compare

QUICK = ("test dense", "test masked", "test layers", "test static", "test sparse", "test pruned", "test groups")
MOST = 0.01  # of an iteration's cycles


@pytest.mark.parametrize("name", QUICK)
def test_the_model_has_the_cycles_of_the_verilog(name):
    found = compare(next(one for one in CONFIGURATIONS if one.name == name))
    assert found["error"] <= MOST, f"{found['model_cycles']} cycles in the model, {found['cycles']} in the Verilog"
