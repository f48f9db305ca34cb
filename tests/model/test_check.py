"""The model against the Verilog: a few of the configurations of ``eta-lstm model check``."""

import pytest

from etalstm.cli.model_check import CONFIGURATIONS, Configuration, compare
from etalstm.model.measured import Shares, measure
from etalstm.network.execution import Execution
from etalstm_hw.config import preset

EXACT = ("test dense", "test masked", "test layers", "test groups", "test narrow groups", "test tokens")
CLOSE = ("test static", "test sparse", "test pruned", "test narrow", "test cells", "test changes rows")
MOST = 0.002  # of an iteration's cycles


def compare_named(name):
    return compare(next(one for one in CONFIGURATIONS if one.name == name))


@pytest.mark.parametrize("name", EXACT)
def test_the_model_has_the_cycles_of_the_verilog(name):
    found = compare_named(name)
    assert found["model_cycles"] == found["cycles"]


@pytest.mark.parametrize("name", CLOSE)
def test_with_fixed_shares_and_streams_the_model_has_about_the_cycles_of_the_verilog(name):
    found = compare_named(name)
    assert found["error"] <= MOST, f"{found['model_cycles']} cycles in the model, {found['cycles']} in the Verilog"


@pytest.mark.parametrize("architecture", ["swing", "dynamic"])
def test_an_iteration_that_skips_cells_takes_the_cycles_of_the_verilog(architecture):
    execution = Execution.read(architecture=architecture)
    one = Configuration("cells", "test", 9, 20, 2, 7, 6, execution, kept_cells=0.5)
    sizes, shares = (one.shape.network, one.batch, one.steps), Shares(kept_cells=(0.5,))
    found = measure(*sizes, preset(one.preset), execution, shares, choose_slices=False)
    assert found["cycles"] == compare(one)["cycles"]
