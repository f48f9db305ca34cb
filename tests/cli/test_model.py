"""``eta-lstm model``: what it refuses."""

import json
from dataclasses import replace

import pytest

from etalstm.cli.application import BAD_INPUT
from etalstm.cli.main import run
from etalstm.errors import PlanError
from etalstm.model.measured import REDUCED, Shares, early_cells, measure, measure_all, sending
from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.benchmarks import BENCHMARKS, named
from etalstm.network.execution import WEIGHT_FORMATS as FORMATS
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm_hw.config import preset

DYNAMIC = ARCHITECTURES["dynamic"]


@pytest.mark.parametrize("option", ["--density", "--local-density", "--input-density"])
@pytest.mark.parametrize("value", ["-0.1", "1.5"])
def test_refuses_a_share_that_is_none(option, value, capsys):
    assert run(["model", option, value]) == BAD_INPUT
    assert f"{option[2:].replace('-', '_')} must be 0 to 1, got {value}" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["model"], ["plan"], ["compare"], ["bench", "iteration"]], ids=" ".join)
def test_refuses_a_weight_format_that_is_none(command, capsys):
    assert run([*command, "--weight-format", "fp8"]) == BAD_INPUT
    assert "weight_format must be one of float32, bf16, got 'fp8'" in capsys.readouterr().err


def test_narrow_weights_that_do_not_stay_are_half_the_bytes_and_take_fewer_cycles():
    def measured(**options):
        executions = [replace(REDUCED, weight_format=name) for name in FORMATS]
        each = (measure(NetworkShape(40, 70, 1), 4, 4, preset("test"), one, **options) for one in executions)
        return [(found["bytes"]["read_weights"], found["passes"]) for found in each]

    (wide, _), (narrow, _) = measured(forward=True)
    assert 0.45 < narrow / wide < 0.55
    (_, wide), (_, narrow) = measured(shares=Shares(delta=0.1))
    assert narrow["backward"] < wide["backward"]


def test_several_benchmarks_are_named_with_commas_between():
    assert [one.name for one in named("ptb,deepbench-1024-128")] == ["ptb", "deepbench-1024-128"]
    assert [one.name for one in named("all")] == list(BENCHMARKS)


@pytest.mark.parametrize("names", ["mnist", "trec10,mnist"])
def test_lists_the_benchmarks_if_there_is_none_of_that_name(names, capsys):
    assert run(["model", "--benchmark", names]) == BAD_INPUT
    error = capsys.readouterr().err
    assert "unknown benchmark 'mnist'" in error and "trec10" in error and "deepbench-1024-128" in error


def test_refuses_streams_where_the_architecture_does_not_compress(capsys):
    assert run(["model", "--preset", "test", "--hidden", "6", "--architecture", "inference"]) == BAD_INPUT
    assert "inference keeps its intermediates dense" in capsys.readouterr().err


def test_lists_the_presets_that_the_model_is_checked_on(capsys):
    assert run(["model", "check", "--preset", "bench"]) == BAD_INPUT
    presets = "test, sim, slice, test-int8, sim-int8, vcu128"
    assert f"checked on the presets {presets}, got 'bench'" in capsys.readouterr().err


def test_an_architecture_that_skips_nothing_takes_about_as_long_at_any_density():
    network, config = NetworkShape(9, 20, 1), preset("test")
    executions = [Execution(delta_inputs=sending(share), architecture=DYNAMIC) for share in (1.0, 0.1)]
    shares = [Shares(delta=share, inputs=share) for share in (1.0, 0.1)]
    found = [measure(network, 7, 4, config, *each) for each in zip(executions, shares, strict=True)]
    assert found[0]["cycles"] == pytest.approx(found[1]["cycles"], rel=0.01)  # a sum of zeros alone is one more MAC
    assert found[0]["bytes"] == found[1]["bytes"]
    assert all(one["utilization"] == one["dense_equivalent"] for one in found)


def test_streams_drop_zeros_on_an_architecture_that_skips_none():
    network, config = NetworkShape(9, 20, 1), preset("test")
    execution = replace(REDUCED, architecture=DYNAMIC)
    dense, sparse = (measure(network, 7, 4, config, execution, Shares(share, share)) for share in (1.0, 0.1))
    assert dense["operations"]["mac"] == pytest.approx(sparse["operations"]["mac"], rel=0.01)
    for kind in ("read_intermediates", "write_intermediates", "read_deltas", "write_deltas"):
        assert sparse["bytes"][kind] < 0.6 * dense["bytes"][kind], kind


def test_skipped_cells_have_no_backward_pass_and_keep_nothing():
    network, config = NetworkShape(9, 20, 2), preset("test")
    whole, half = (
        measure(network, 7, 6, config, shares=Shares(kept_cells=(share,)), choose_slices=False) for share in (1.0, 0.5)
    )
    assert half["operations"]["mac"] == pytest.approx(2 / 3 * whole["operations"]["mac"], rel=0.1)
    assert half["passes"]["backward"] < 0.6 * whole["passes"]["backward"]
    assert half["passes"]["update"] == whole["passes"]["update"]
    assert half["utilization"] * 3 == pytest.approx(half["dense_equivalent"] * (1 + 2 * 0.5))
    for kind in ("read_intermediates", "write_intermediates"):
        assert half["bytes"][kind] < 0.65 * whole["bytes"][kind], kind


def test_layers_may_keep_unequal_shares_of_their_cells():
    found = early_cells(2, 5, (0.2, 0.6))
    assert found.tolist() == [[True] * 4 + [False], [True] * 2 + [False] * 3]
    assert not early_cells(3, 4).any() and (~early_cells(1, 9, (0.01,))).sum() == 1
    network = NetworkShape(9, 20, 2)
    shares = (Shares(kept_cells=kept) for kept in ((0.5, 1.0), (1.0, 0.5)))
    one, other = (measure(network, 7, 6, preset("test"), shares=each) for each in shares)
    assert one["utilization"] / one["dense_equivalent"] != other["utilization"] / other["dense_equivalent"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "kept_cells must be above 0 and at most 1, got 0"),
        ("1,1.5", "kept_cells must be above 0 and at most 1, got 1.5"),
        ("1,1,1", "kept_cells must be one share, or one for each of 2 layers, got 3"),
        ("some", "kept_cells must be a share, or one for each layer, with commas between, got 'some'"),
    ],
)
def test_refuses_shares_of_cells_that_are_none(text, message, capsys):
    assert run(["model", "--preset", "test", "--hidden", "6", "--layers", "2", "--kept-cells", text]) == BAD_INPUT
    assert message in capsys.readouterr().err


def test_macs_that_are_skipped_are_not_utilization():
    network, config = NetworkShape(9, 20, 1), preset("test")
    dense, sparse = (measure(network, 7, 4, config, shares=Shares(share, share)) for share in (1.0, 0.1))
    assert sparse["cycles"] < dense["cycles"]
    assert sparse["utilization"] * 3 == pytest.approx(sparse["dense_equivalent"] * (1 + 2 * 0.1))


def test_what_is_not_sent_costs_the_forward_pass_nothing():
    network, config = NetworkShape(32, 64, 1), preset("sim")
    rules = (1.0, 0), (0.2, 0), (0.2, 4)
    whole, some, refreshed = (
        measure(network, 16, 8, config, replace(REDUCED, delta_inputs=sending(share, every)), Shares(inputs=share))
        for share, every in rules
    )
    assert some["passes"]["forward"] < refreshed["passes"]["forward"] < whole["passes"]["forward"]
    for found, dense_steps in ((some, 1), (refreshed, 2)):
        sent = (dense_steps + 0.2 * (8 - dense_steps)) / 8
        assert found["utilization"] * 3 == pytest.approx(found["dense_equivalent"] * (2 + sent))


@pytest.mark.parametrize("processors", [1, 2])
def test_networks_come_in_their_order_however_many_processors_there_are(processors):
    sizes = [(NetworkShape(9, 20, 1), 7, steps) for steps in (12, 1, 4)]  # the first takes longest
    together = list(measure_all(sizes, processors, config=preset("test"), shares=Shares(0.5)))
    assert together == [measure(*one, preset("test"), shares=Shares(0.5)) for one in sizes]


def test_a_network_that_does_not_fit_is_refused_on_another_processor_too():
    sizes = [(NetworkShape(9, 20, 1), 7, 2), (NetworkShape(9, 1 << 20, 1), 7, 2)]
    with pytest.raises(PlanError):
        list(measure_all(sizes, 2, config=preset("test")))


def test_the_share_of_a_v100_is_that_of_its_published_time(capsys):
    share = named("deepbench-1024-128")[0].v100_utilization
    assert share == pytest.approx(9.6 / 15.7, abs=0.005)  # 9.6 TFLOP/s in 8.37 ms
    assert named("trec10")[0].v100_utilization is None


def test_shares_of_a_trained_run_are_those_that_its_next_batch_has(tmp_path, capsys):
    sizes = ["--batch", "16", "--hidden", "8", "--iterations", "2"]
    assert run(["train", "--dataset", "digits", *sizes, "--theta", "0.1", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["model", "--preset", "test", "--weights", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["benchmark"] == "digits"
    assert 0.1 < found["density"] < 0.9 and 0.1 < found["local_density"] < 0.9
    assert run(["train", "--dataset", "digits", *sizes, "--out", str(tmp_path / "dense")]) == 0
    capsys.readouterr()
    assert run(["model", "--preset", "test", "--weights", str(tmp_path / "dense"), "--json"]) == 0
    dense = json.loads(capsys.readouterr().out)
    assert dense["density"] > found["density"] and dense["local_density"] == 1


def test_cells_that_a_trained_run_skips_are_skipped_in_the_model(tmp_path, capsys):
    sizes = ["--batch", "32", "--hidden", "8", "--epochs", "4", "--evaluation-batches", "1", "--theta", "0.1"]
    assert run(["train", "--dataset", "digits", *sizes, "--ms2", "0.5", "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["model", "--preset", "test", "--weights", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (kept,) = found["kept_cells"]
    assert 0 < kept < 0.9 and 0.3 < found["density"] < 0.9
    assert found["utilization"] * 3 == pytest.approx(found["dense_equivalent"] * (1 + 2 * kept * found["density"]))


def test_refuses_a_folder_without_a_run(tmp_path, capsys):
    assert run(["model", "--weights", str(tmp_path)]) == BAD_INPUT
    assert f"{tmp_path} must be the folder of a run of eta-lstm train" in capsys.readouterr().err


def test_several_boards_are_told_beside_one(capsys):
    sizes = ["--preset", "test", "--hidden", "20", "--input", "9", "--batch", "7", "--steps", "4"]
    assert run(["model", *sizes, "--boards", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    shared, part = found["shared"], measure(NetworkShape(9, 20, 1), 4, 4, preset("test"), layers_apart=True)
    assert (shared["boards"], shared["batch_of_board"], shared["cycles"]) == (2, 4, part["cycles"])
    assert shared["milliseconds"] == pytest.approx(part["milliseconds"] + shared["activations"] + shared["gradients"])
    assert 0 < shared["speedup"] < shared["speedup_with_batch_each"] < 2


def test_layers_may_be_spread_over_the_boards(capsys):
    sizes = ["--preset", "test", "--hidden", "6", "--layers", "3", "--batch", "16", "--steps", "3", "--boards", "2"]
    assert run(["model", *sizes, "--json"]) == 0
    shared = json.loads(capsys.readouterr().out)["shared"]
    found = shared["pipeline"]
    assert (found["pipelines"], sum(found["stages"]), len(found["stages"])) == (1, 3, 2)
    assert found["micro_batches"] * found["sequences"] == 16
    assert shared["pipeline_with_batch_each"]["speedup"] > found["speedup"]
    assert run(["model", *sizes]) == 0
    assert "1 pipelines, layers" in capsys.readouterr().out
    assert run(["model", *sizes, "--json", "--slices", "2"]) == 0
    assert json.loads(capsys.readouterr().out)["shared"]["pipeline"] is None


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--boards", "0"), "boards must be above 0, got 0"),
        (("--boards", "9", "--batch", "8"), "boards must be at most the batch, 8 sequences, got 9"),
        (("--pcie", "4"), "--pcie is only used with --boards"),
        (("--boards", "2", "--network", "-1"), "network must be above 0, got"),
        (("--boards", "2", "--forward"), "--boards is not used with --forward"),
    ],
)
def test_refuses_boards_that_cannot_share(options, expected, capsys):
    assert run(["model", "--preset", "test", "--hidden", "6", *options]) == BAD_INPUT
    assert expected in capsys.readouterr().err
