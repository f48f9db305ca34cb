"""The model against the Verilog: a few of the configurations of ``eta-lstm model check``."""

from dataclasses import replace
from itertools import islice

import pytest

from etalstm.cli import model_check
from etalstm.cli.application import BAD_INPUT
from etalstm.cli.main import run
from etalstm.model.measured import Shares, measure
from etalstm.network.execution import Execution
from etalstm_hw.config import preset
from etalstm_sim.trials.model.compare import compare, random_iteration
from etalstm_sim.trials.model.configurations import CONFIGURATIONS, Configuration, random_configurations

EXACT = (
    "test dense", "test masked", "test layers", "test groups", "test narrow groups", "test tokens", "sim ragged",
    "integers slices", "integers streams", "integers masked", "integers sparse", "integers changes",
    "integers changes masked", "integers tokens", "test sparse", "test narrow", "test cells",
)  # fmt: skip
CLOSE = ("test static", "test pruned", "test changes rows", "test changes maps", "test groups masked")
MOST = 0.002  # of an iteration's cycles


def compare_named(name):
    return compare(next(one for one in CONFIGURATIONS if one.name == name))


@pytest.mark.parametrize("name", EXACT)
def test_the_model_has_the_cycles_of_the_verilog(name):
    found = compare_named(name)
    assert found["model_cycles"] == found["cycles"]


@pytest.mark.parametrize("name", CLOSE)
def test_with_fixed_shares_pruned_deltas_and_row_maps_the_model_has_about_the_cycles_of_the_verilog(name):
    found = compare_named(name)
    assert found["error"] <= MOST, f"{found['model_cycles']} cycles in the model, {found['cycles']} in the Verilog"


def test_with_groups_of_integers_the_model_has_about_the_cycles_of_the_verilog():
    one = Configuration("groups", "test-int8", 9, 11, 2, 6, 3, Execution.read(slices=2, arithmetic="int8"))
    found = compare(one, replace(preset("test-int8"), broadcasters=2))
    assert found["error"] <= MOST, f"{found['model_cycles']} cycles in the model, {found['cycles']} in the Verilog"


@pytest.mark.parametrize("architecture", ["swing", "dynamic"])
def test_an_iteration_that_skips_cells_takes_the_cycles_of_the_verilog(architecture):
    execution = Execution.read(architecture=architecture)
    one = Configuration("cells", "test", 9, 20, 2, 7, 6, execution, kept_cells=0.5)
    sizes, shares = (one.shape.network, one.batch, one.steps), Shares(kept_cells=(0.5,))
    found = measure(*sizes, preset(one.preset), execution, shares, choose_slices=False)
    assert found["cycles"] == compare(one)["cycles"]


def test_an_iteration_of_unequal_lengths_takes_about_the_cycles_of_the_verilog():
    """The model knows the mean length; it gives all steps the same share of padding."""
    one = Configuration("lengths", "test", 9, 20, 2, 7, 6, masked=True)
    lengths = random_iteration(one.shape, one.seed)[4]
    sizes = (one.shape.network, one.batch, one.steps)
    found = measure(
        *sizes, preset(one.preset), choose_slices=False, execution=one.execution, mean_length=lengths.mean()
    )
    assert 2 <= lengths.mean() <= 5
    assert found["cycles"] == pytest.approx(compare(one)["cycles"], rel=0.03)


def test_without_padding_the_mean_length_changes_what_masks_cost_only():
    sizes = (Configuration("", "test", 9, 20, 1, 7, 6).shape.network, 7, 6)
    masked = measure(*sizes, preset("test"), masked=True)
    assert measure(*sizes, preset("test"), mean_length=6.0) == masked
    with pytest.raises(ValueError, match="mean_length must be 1 to 6, the steps, got 7"):
        measure(*sizes, preset("test"), mean_length=7)


def test_seed_and_number_make_a_random_configuration():
    first, later = random_configurations(3), random_configurations(3, first=4)
    assert [next(later), next(later)] == [*islice(first, 6)][4:]
    assert next(random_configurations(3)) != next(random_configurations(4))
    assert {one.preset for one in islice(random_configurations(0, preset_name="slice"), 5)} == {"slice"}
    with pytest.raises(ValueError, match="presets test, sim, slice, test-int8, sim-int8, got 'vcu128'"):
        next(random_configurations(0, preset_name="vcu128"))


OF_INTEGERS = {
    "storage", "theta", "slices", "input_threshold", "refresh", "delta_bits", "masked", "delta_threshold", "kept_cells",
    "shared_tokens",
}  # fmt: skip


@pytest.mark.parametrize("preset_name", [None, "test-int8"])
def test_random_configurations_try_every_option(preset_name):
    drawn = list(islice(random_configurations(0, preset_name=preset_name), 200))
    values = {name: {str(one.choices[name]) for one in drawn} for name in drawn[0].choices}
    tried = {name for name, found in values.items() if len(found) > 1}
    of_float32 = set(values) - {"budget", "arithmetic", "delta_bits"}
    assert tried == (OF_INTEGERS if preset_name else of_float32)


def test_the_command_tells_how_errors_are_distributed_and_fails_on_a_large_one(capsys, monkeypatch):
    arguments = ["model", "check", "--random", "2", "--seed", "1", "--first", "8", "--preset", "test"]
    assert run(arguments) == 0
    output = capsys.readouterr().out
    assert "random 9 " in output
    assert "of 2 equal; 50% are at most" in output
    monkeypatch.setattr(model_check, "ERROR", -1.0)
    assert run(arguments) == 1


def test_seed_and_first_are_those_of_random_configurations(capsys):
    assert run(["model", "check", "--seed", "2"]) == BAD_INPUT
    assert "only used with --random" in capsys.readouterr().err
    assert run(["model", "check", "--random", "0"]) == BAD_INPUT
