"""Commands end to end on the simulated machine, as a user types them."""

import json
import re

import numpy as np
import pytest

from etalstm.cli import run
from etalstm.commands import compare as compare_command
from etalstm.comparison import Comparison
from etalstm.delta_inputs import DeltaInputs
from etalstm.device import TrainingShape, open_device
from etalstm.network import NetworkShape, initial_parameters
from etalstm.storage import Storage


def output(capsys, *arguments):
    code = run([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def sizes(i, h, l, b, t):
    return ["--input", i, "--hidden", h, "--layers", l, "--batch", b, "--steps", t]


@pytest.mark.parametrize("loss", ["last", "per-step"])
@pytest.mark.parametrize("stall", [0, 0.5])
@pytest.mark.parametrize("network", [(3, 5, 1, 2, 4), (8, 33, 2, 7, 5), (1, 1, 1, 1, 1), (16, 24, 3, 5, 6)], ids=str)
def test_compare_finds_golden_bits_on_the_machine(capsys, network, stall, loss):
    arguments = ["--preset", "test", *sizes(*network), "--iterations", 3, "--loss", loss, "--stall", stall, "--json"]
    code, out, err = output(capsys, "compare", *arguments)
    assert code == 0, err
    found = json.loads(out)
    assert found["mismatched_words"] == 0 and found["first_mismatch"] is None and found["iterations"] == 3
    assert found["words"] > 0


def test_compare_finds_golden_bits_with_unequal_lengths(capsys):
    code, out, err = output(
        capsys, "compare", "--preset", "test", *sizes(5, 9, 2, 6, 5), "--iterations", 2, "--unequal-lengths", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize("loss", ["last", "per-step"])
@pytest.mark.parametrize(
    ("storage", "theta", "delta", "stall"),
    [("dense", 0.1, 0, 0), ("ms1", 0.1, 0.03, 0.5), ("ms1-bf16", "0.2,0.2,0.1,0.1,0.3,0.5", 0, 0.5)],
)
@pytest.mark.parametrize("preset", ["test", "sim"])
def test_compare_finds_golden_bits_with_compressed_storage_and_skipped_cells(
    capsys, preset, storage, theta, delta, stall, loss
):
    arguments = ["--preset", preset, *sizes(5, 19, 2, 6, 5), "--iterations", 2, "--loss", loss, "--stall", stall]
    arguments += ["--storage", storage, "--theta", theta, "--skip-cells", 0.5, "--delta-threshold", delta, "--json"]
    code, out, err = output(capsys, "compare", *arguments)
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0
    assert ("dense storage prunes nothing: theta 0.1 is not used" in err) == (storage == "dense")


@pytest.mark.parametrize("stall", [0, 0.5])
@pytest.mark.parametrize("preset", ["test", "sim", "slice"])
@pytest.mark.parametrize(
    ("architecture", "storage"), [("dynamic", "dense"), ("static", "ms1"), ("inference", "dense")], ids=str
)
def test_compare_finds_golden_bits_on_other_architectures(capsys, architecture, storage, preset, stall):
    arguments = ["--preset", preset, *sizes(5, 19, 2, 6, 5), "--iterations", 2, "--stall", stall, "--unequal-lengths"]
    arguments += ["--architecture", architecture, "--storage", storage, "--theta", 0.1 * (storage != "dense")]
    code, out, err = output(capsys, "compare", *arguments, "--skip-cells", 0.3, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(
    ("storage", "preset", "modes", "loss", "stall"),
    [
        ("dense", "test", "spill", "last", 0.5),
        ("ms1", "test", "spill", "per-step", 0.5),
        ("ms1-bf16", "sim", "spill", "per-step", 0),
        ("dense", "sim", "offload", "per-step", 0),
        ("ms1", "test", "offload", "last", 0.5),
        ("ms1-bf16", "sim", "spill offload", "last", 0),
    ],
)
def test_compare_finds_golden_bits_with_intermediates_on_the_host(capsys, storage, preset, modes, loss, stall):
    common = ["--preset", preset, *sizes(5, 19, 2, 8, 8), "--storage", storage]
    _, _, err = output(capsys, "plan", *common, "--memory-budget", 1)
    least = int(
        re.search(r"budget of 1 bytes is too small: this network needs at least ([\d,]+)", err)[1].replace(",", "")
    )
    planned = json.loads(output(capsys, "plan", *common, "--memory-budget", least, "--json")[1])
    assert planned["segments"] > 2 and sum(planned["footprint"].values()) <= least
    arguments = ["--theta", 0.1, "--skip-cells", 0.5, "--loss", loss, "--stall", stall]
    arguments += ["--memory-budget", least, "--log-share", 1] if "spill" in modes else []
    arguments += ["--offload"] if "offload" in modes else []
    arguments += ["--delta-threshold", 0.02] if storage != "dense" else []
    code, out, err = output(capsys, "compare", *common, *arguments, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


@pytest.mark.parametrize(
    ("slices", "arguments"),
    [
        (5, ["--stall", 0.5, "--unequal-lengths", "--delta-threshold", 0.03]),
        (8, ["--skip-cells", 0.4, "--offload"]),
    ],
)
def test_compare_finds_golden_bits_of_slices(capsys, slices, arguments):
    common = ["--preset", "test", *sizes(5, 19, 2, 9, 4), "--storage", "ms1", "--slices", slices]
    code, out, err = output(capsys, "compare", *common, "--theta", 0.1, "--iterations", 2, *arguments, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


def test_compare_takes_delta_inputs(capsys, monkeypatch):
    shapes = []
    monkeypatch.setattr(compare_command, "run_comparison", lambda _, shape, *rest: shapes.append(shape) or Comparison())
    for arguments in ((), ("--input-threshold", "0.1/0.2,0.3"), ("--input-threshold", "0.1", "--refresh", 4)):
        assert output(capsys, "compare", "--devices", "golden,golden", "--layers", 2, *arguments)[0] == 0
    assert [shape.inputs for shape in shapes] == [
        DeltaInputs(), DeltaInputs(((0.1, 0.2), 0.3), 0), DeltaInputs(0.1, 4)
    ]  # fmt: skip


def test_compare_finds_golden_bits_of_a_batch_that_does_not_fit(capsys):
    common = ["--preset", "test", *sizes(5, 9, 2, 6, 12), "--storage", "ms1", "--slices", 3]
    whole = output(capsys, "plan", *common, "--memory-budget", 1)[2]
    arguments = ["--theta", 0.1, "--log-share", 1, "--stall", 0.5, "--unequal-lengths"]
    refused = output(capsys, "compare", *common, *arguments, "--memory-budget", 1)[2]
    assert "one of 3 slices does not fit" in refused
    least, undivided = (int(re.search(r"at least ([\d,]+)", e)[1].replace(",", "")) for e in (refused, whole))
    assert least < undivided
    code, out, err = output(capsys, "compare", *common, *arguments, "--memory-budget", least, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


def test_plan_says_where_windows_lie(capsys):
    small = sizes(3, 5, 1, 2, 2)
    out = output(capsys, "plan", "--preset", "vcu128", *small)[1]
    assert re.search(r"40 windows of [\d,]+ bytes, 2 behind each memory port, 0x8000000 from one to the\s", out), out
    assert "the programs from address 0x140000000 on" in out
    out = output(capsys, "plan", "--preset", "test", *small)[1]
    assert re.search(r"2 windows of [\d,]+ bytes, one behind the other, then the programs, from address 0x", out), out
    placement = json.loads(output(capsys, "plan", "--preset", "vcu128", *small, "--json")[1])["placement"]
    assert (placement["base"], placement["stride"], placement["programs"]) == (0, 1 << 27, 20 << 28)


@pytest.mark.parametrize(("storage", "mode"), [("ms1", "--offload"), ("ms1-bf16", "--unequal-lengths")])
def test_compare_finds_golden_bits_where_rows_of_weights_are_left_out(capsys, storage, mode):
    common = ["--preset", "test", *sizes(5, 33, 2, 3, 3), "--storage", storage]
    assert json.loads(output(capsys, "plan", *common, "--json")[1])["spareable_bytes"] > 0
    arguments = ["--theta", 0.2, "--skip-cells", 0.3, "--delta-threshold", 0.02, "--stall", 0.5, mode]
    code, out, err = output(capsys, "compare", *common, *arguments, "--json")
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


def test_plan_prints_one_line_for_each_benchmark(capsys):
    lines = output(capsys, "plan", "--preset", "vcu128", "--benchmark", "deepbench-512-64", "--json")[1].splitlines()
    (found,) = map(json.loads, lines)
    assert found["benchmark"] == "deepbench-512-64" and found["storage"] == "ms1-bf16" and found["groups"] == 5
    assert 0 < found["program_bytes"] < 4 << 20 and found["program_bytes"] < found["memory_bytes"]
    assert found["plan_seconds"] > 0


@pytest.mark.parametrize(("slices", "groups"), [("auto", 5), (4, 2), (8, 2), (3, 1), (1, 1)])
def test_plan_takes_the_fastest_groups_that_the_slices_allow(capsys, slices, groups):
    arguments = ["--preset", "vcu128", "--benchmark", "deepbench-512-64", "--slices", slices]
    found = json.loads(output(capsys, "plan", *arguments, "--json")[1])
    assert found["groups"] == groups and found["slices"] == (5 if slices == "auto" else slices)


def test_plan_says_how_many_groups_work_at_once(capsys):
    arguments = ["plan", "--preset", "test", *sizes(3, 5, 1, 4, 2)]
    assert json.loads(output(capsys, *arguments, "--json")[1])["groups"] == 1
    chosen = output(capsys, *arguments, "--slices", "auto")[1]
    assert "2 groups of channels" in chosen and "cycles; in 1 groups, the runner-up, " in chosen
    assert json.loads(output(capsys, *arguments, "--slices", "auto", "--json")[1])["slices"] == 2


def test_plan_says_in_how_many_tiles_the_batch_is_worked_on(capsys):
    arguments = ["plan", "--preset", "sim", *sizes(3, 5, 1, 40, 2)]
    tiles = json.loads(output(capsys, *arguments, "--json")[1])["batch_tiles"]
    assert tiles > 1 and f"Batch tiles of a group: {tiles} of up to {-(-40 // tiles)} " in output(capsys, *arguments)[1]


def test_plan_says_which_benchmarks_dense_storage_does_not_fit(capsys):
    arguments = ["plan", "--preset", "vcu128", "--benchmark", "deepbench-512-64", "--memory", 190_000_000]
    assert "dense storage would take" in output(capsys, *arguments)[1]
    assert "dense storage would take" not in output(capsys, *arguments[:-2])[1]


def test_the_largest_benchmark_fits_a_card(capsys):
    found = json.loads(output(capsys, "plan", "--preset", "vcu128", "--benchmark", "babi", "--json")[1])
    assert found["memory_bytes"] < 8 << 30 < found["dense_bytes"]


def test_bench_iteration_measures_the_batches_of_a_run_s_buckets(capsys, tmp_path):
    own = tmp_path / "own.tsv"
    own.write_text("label\ttext\n" + "".join(f"{'pn'[n % 2]}\tfilm{' good' * (n % 6)}\n" for n in range(90)))
    sizes = ["--hidden", 4, "--embedding", 4, "--batch", 4, "--epochs", 1, "--buckets", "auto"]
    assert run(list(map(str, ["train", "--task", "classify", "--data", own, *sizes, "--out", tmp_path / "run"]))) == 0
    arguments = ["--preset", "test", "--weights", tmp_path / "run", "--against", "dynamic", "--batches", 4, "--json"]
    code, out, err = output(capsys, "bench", "iteration", *arguments)
    assert code == 0, err
    found = json.loads(out)["architectures"]
    assert [entry["batches"] for entry in found.values()] == [4, 4], "batches differ in their steps"
    assert found["swing"]["real"] > 0.8 and found["dynamic"]["deviation"] > 0


def test_plan_says_which_weights_are_read_at_most(capsys):
    common = ["plan", "--preset", "test", *sizes(5, 33, 1, 3, 3), "--storage"]
    spareable = json.loads(output(capsys, *common, "ms1", "--json")[1])["spareable_bytes"]
    assert re.search(rf"read at most.*: {spareable:,} bytes", output(capsys, *common, "ms1")[1])
    assert "at most" not in output(capsys, *common, "dense")[1]


def test_plan_compares_storage_policies(capsys):
    arguments = ["--preset", "test", *sizes(8, 8, 1, 4, 3), "--json"]
    found = {}
    for density in (0.1, 1):
        out = output(capsys, "plan", *arguments, "--storage", "all", "--density", density)[1]
        found[density] = json.loads(out)["policies"]
        for kind in ("intermediates", "deltas"):
            for policy, cost in found[density].items():
                alone = json.loads(output(capsys, "plan", *arguments, "--storage", policy, "--density", density)[1])
                assert alone["footprint"][kind] == cost["footprint"][kind]
                assert alone["traffic"][kind] == cost["traffic"][kind]
    kept = {density: {name: cost["footprint"]["intermediates"] for name, cost in policies.items()}
            for density, policies in found.items()}  # fmt: skip
    assert kept[0.1]["dense"] == kept[1]["dense"]
    assert kept[0.1]["ms1-bf16"] < kept[0.1]["ms1"] < kept[1]["ms1-bf16"] < kept[1]["ms1"]


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("storage", ["ms1", "ms1-bf16"])
def test_plan_knows_the_traffic_of_streams(monkeypatch, storage, groups):
    """Nothing is zero, no lane without a unit: what is counted is what a density of 1 moves."""
    monkeypatch.setattr("etalstm.device.planning.group_counts", lambda *_: [groups])
    network = NetworkShape(8, 8)
    shape = TrainingShape(network, 4, 3, storage=Storage(storage), slices=2)
    generator = np.random.default_rng(1)
    x, dy, h0, c0 = (
        generator.standard_normal(size, np.float32)
        for size in (shape.x_shape, shape.y_shape, shape.state_shape, shape.state_shape)
    )
    with open_device("sim", "test") as device:
        session = device.create(shape)
        session.load(initial_parameters(network, 1))
        session.forward(x, h0=h0, c0=c0)
        session.backward(dy)
        session.update(0.1)
        counters, planned = session.counters(), session.plan.traffic()
    for kind in ("weights", "activations", "intermediates", "deltas"):
        assert counters["read_bytes"][kind] == planned[kind]["read"], kind
        assert counters["write_bytes"][kind] == planned[kind]["written"], kind


def test_presets_give_the_same_weights(capsys):
    code, out, err = output(
        capsys, "compare", "--devices", "sim,sim", "--preset", "test,sim", *sizes(8, 20, 2, 6, 3), "--iterations", 2,
        "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["mismatched_words"] == 0


def test_bench_iteration_accounts_for_every_cycle(capsys):
    code, out, err = output(capsys, "bench", "iteration", "--preset", "sim", *sizes(8, 32, 1, 32, 2), "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["macs"] == 3 * 4 * 32 * 40 * 32 * 2
    assert found["macs"] / found["pes"] + sum(found["stalls"].values()) == pytest.approx(found["cycles"], abs=1e-6)
    planned = json.loads(output(capsys, "plan", "--preset", "sim", *sizes(8, 32, 1, 32, 2), "--json")[1])["traffic"]
    assert found["bytes"]["program"] == planned["program"]["read"]
    for kind in ("weights", "activations", "intermediates", "deltas"):
        assert found["bytes"]["read"][kind] == planned[kind]["read"], kind
        assert found["bytes"]["write"][kind] == planned[kind]["written"], kind


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a short run."""
    out = tmp_path_factory.mktemp("trained")
    arguments = ["--dataset", "digits", "--hidden", "8", "--batch", "4", "--iterations", "8", "--out", str(out)]
    assert run(["train", *arguments]) == 0
    return out


def test_bench_iteration_measures_a_network_as_it_was_not_trained(capsys, trained):
    cycles = []
    for more in ([], ["--batch", 2, "--weight-format", "bf16"]):
        arguments = ["--preset", "test", "--weights", trained, "--input-threshold", "0.2", "--against", "dynamic"]
        code, out, err = output(capsys, "bench", "iteration", *arguments, *more, "--json")
        assert code == 0, err
        found = json.loads(out)["architectures"]
        assert found["swing"]["input_density"] < 0.9 * found["dynamic"]["input_density"]
        cycles.append(found["dynamic"]["cycles"])
    assert 0.5 < cycles[1] / cycles[0] < 0.9, "half as many sequences"


def test_bench_iteration_of_a_trained_network_compares_architectures(capsys, trained):
    arguments = ["--preset", "test", "--weights", trained, "--dataset", "digits", "--batches", 2, "--json"]
    code, out, err = output(capsys, "bench", "iteration", *arguments)
    assert code == 0, err
    found = json.loads(out)["architectures"]
    assert [entry["batches"] for entry in found.values()] == [2, 1, 1, 1], "what skips nothing needs no second batch"
    assert found["swing"]["deviation"] > 0 and found["dynamic"]["deviation"] is None
    assert list(found) == ["swing", "dynamic", "static", "inference"]
    for name, entry in found.items():
        assert entry["cycles"] == pytest.approx(sum(entry["passes"].values()), abs=3), name
        assert sum(entry["pes"].values()) == pytest.approx(1), f"{name}: {entry['pes']}"
        assert entry["speedup"] == entry["cycles"] / found["swing"]["cycles"]
        assert entry["speedup_on_real_steps"] == entry["speedup"], "digits have no padding"
        assert (entry["pes"]["share"] > 0) == (name in ("static", "inference")), name
        assert 0 < entry["utilization"] <= entry["pes"]["mac"], name
        assert entry["bytes"]["spared"] == {"weights": 0}, f"{name}: all weights stay in the lanes"
    assert 1 <= found["swing"]["streams"] < 4, found["swing"]["streams"]  # short streams: beats and a whole last mask
    dense = found["dynamic"]
    assert found["swing"]["delta_density"] < dense["delta_density"]
    assert dense["cycles"] < found["static"]["cycles"], "fixed shares cost nothing"
    assert dense["pes"]["mac"] * dense["cycles"] == pytest.approx(
        found["static"]["pes"]["mac"] * found["static"]["cycles"]
    )


@pytest.fixture(scope="module")
def skipping_run(tmp_path_factory):
    """The folder of a run whose last epoch has skipped cells."""
    out = tmp_path_factory.mktemp("skipping")
    sizes = ["--hidden", 8, "--batch", 32, "--epochs", 4, "--evaluation-batches", 1, "--ms2", 0.5]
    assert run(list(map(str, ["train", "--dataset", "digits", *sizes, "--out", out]))) == 0
    return out


def test_bench_iteration_measures_each_case_alone_and_together(capsys, skipping_run):
    arguments = ["--preset", "test", "--weights", skipping_run, "--ms2", 0.5, "--batches", 2, "--json"]
    code, out, err = output(capsys, "bench", "iteration", *arguments, "--against", "cases")
    assert code == 0, err
    found = json.loads(out)["architectures"]
    same = ("cycles", "passes", "bytes", "footprint", "cells_skipped")
    assert {name: found["swing"][name] for name in same} == {name: found["swing+combine"][name] for name in same}
    for machine in ("dynamic", "swing"):
        none, ms1, ms2, combine = (found[f"{machine}+{case}"] for case in ("none", "ms1", "ms2", "combine"))
        assert none["footprint"] == 1 and none["cells_skipped"] == ms1["cells_skipped"] == 0
        assert ms2["cells_skipped"] == combine["cells_skipped"] > 0.1 and none["streams"] is ms2["streams"] is None
        assert ms2["footprint"] == pytest.approx(1 - ms2["cells_skipped"])
        assert combine["footprint"] < ms1["footprint"] and combine["footprint"] < ms2["footprint"]
        assert ms2["passes"]["backward"] < 0.9 * none["passes"]["backward"], machine
        assert none["batches"] == (1 if machine == "dynamic" else 2) and ms2["batches"] == combine["batches"] == 2
    products = {name: one["pes"]["mac"] * one["cycles"] for name, one in found.items()}
    assert products["dynamic+ms1"] == pytest.approx(products["dynamic+none"], rel=1e-3), "zeros cost their cycles"
    assert products["swing+ms1"] < 0.8 * products["swing+none"], "zeros cost nothing"


def test_bench_iteration_skips_the_cells_that_a_run_has_skipped(capsys, skipping_run):
    found = {}
    for ms2 in ("off", 0.5):
        arguments = ["--preset", "test", "--weights", skipping_run, "--ms2", ms2, "--against", "dynamic", "--json"]
        code, out, err = output(capsys, "bench", "iteration", *arguments)
        assert code == 0, err
        found[ms2] = json.loads(out)["architectures"]
    skipping, whole = (found[ms2]["swing"] for ms2 in (0.5, "off"))
    assert whole["cells_skipped"] == 0 and skipping["cells_skipped"] > 0.1
    assert skipping["passes"]["backward"] < 0.9 * whole["passes"]["backward"]
    assert found[0.5]["dynamic"] | {"speedup": 0, "speedup_on_real_steps": 0} == found["off"]["dynamic"] | {
        "speedup": 0, "speedup_on_real_steps": 0
    }, "another machine skips no cell"  # fmt: skip


def test_bench_iteration_names_what_is_wrong_with_a_checkpoint(capsys, trained, tmp_path):
    for arguments, message in (
        (["--weights", tmp_path], "must be the folder of a run of eta-lstm train, but holds no settings.toml"),
        (["--weights", trained, "--dataset", "trec"], "was trained on digits, not on trec"),
        (["--weights", trained, "--batches", 0], "batches must be above 0, got 0"),
        (["--weights", trained, "--length", 0], "length must be above 0, got 0"),
        (["--weights", trained, "--ms2", "0.5"], "ms2 must be off, got 0.5"),
        (
            ["--weights", trained, "--against", "dynamic,v100"],
            "against must be of dynamic, static, inference, each of these or swing with +none, +ms1, +ms2, +combine, "
            "or cases, got 'v100'",
        ),
        (["--weights", trained, "--against", "cases"], "dynamic+ms2 skips cells: ms2 must be a number with it"),
        (["--weights", trained, "--theta", "-1"], "theta must be finite and at least 0, got -1"),
    ):
        code, out, err = output(capsys, "bench", "iteration", *arguments)
        assert code == 2 and message in err and err.count("\n") == 1, err
        assert not out


def test_bench_iteration_of_sequences_of_one_length_has_no_padding(capsys, tmp_path):
    own = tmp_path / "own.tsv"
    own.write_text("label\ttext\n" + "".join(f"{'pn'[n % 2]}\tfilm{' good' * (n % 3)}\n" for n in range(90)))
    sizes = ["--hidden", 8, "--embedding", 4, "--batch", 4, "--epochs", 1, "--out", tmp_path / "run"]
    assert run(list(map(str, ["train", "--task", "classify", "--data", own, *sizes]))) == 0
    found = {}
    for more in ([], ["--length", 2]):
        arguments = ["--preset", "test", "--weights", tmp_path / "run", "--against", "dynamic", "--batches", 2, *more]
        code, out, err = output(capsys, "bench", "iteration", *arguments, "--json")
        assert code == 0, err
        found[len(more)] = json.loads(out)["architectures"]
    assert 0.4 < found[0]["swing"]["real"] < 1 and found[2]["swing"]["real"] == 1
    assert found[2]["dynamic"]["cycles"] < 0.9 * found[0]["dynamic"]["cycles"], "two steps instead of three"
    assert found[2]["dynamic"]["speedup_on_real_steps"] == found[2]["dynamic"]["speedup"]


def test_bench_iteration_needs_a_batch_of_sequences_of_the_length(capsys, trained):
    code, _, err = output(capsys, "bench", "iteration", "--preset", "test", "--weights", trained, "--length", 7)
    assert code == 2 and "a batch takes 4 sequences, but only 0 have 7 steps" in err


def test_bench_shares_finds_a_division_for_each_machine(capsys):
    arguments = ["--preset", "test", "--input", 8, "--hidden", 8, "--batch", 2, "--steps", 3]
    code, out, err = output(capsys, "bench", "shares", *arguments, "--json")
    assert code == 0, err
    found = json.loads(out)
    for name, best in found["best"].items():
        cycles = {tuple(e[kind] for kind in best): e["cycles"] for e in found["measured"] if e["architecture"] == name}
        assert len(cycles) >= 5 and cycles[tuple(best.values())] == min(cycles.values()), f"{name}: {cycles}"
        assert sum(best.values()) == 32 and (best["outer"] == 0) == (name == "inference")


def test_bench_skip_saves_the_zeros_cycles(capsys):
    arguments = ["--preset", "sim", "--input", 32, "--hidden", 32, "--batch", 32, "--steps", 2]
    code, out, err = output(capsys, "bench", "skip", *arguments, "--densities", "1,0.5,0.1,0", "--json")
    assert code == 0, err
    found = {entry["density"]: entry for entry in json.loads(out)["densities"]}
    for product in ("backward", "gradient"):
        assert found[1][product]["cycles"] == found[1][product]["dense_cycles"]
        assert found[0.5][product]["efficiency"] > 0.97, found[0.5][product]
        cycles = [found[density][product]["cycles"] for density in (0, 0.1, 0.5, 1)]
        assert cycles == sorted(cycles), f"{product}: {cycles} cycles"


def test_bench_codec_keeps_up_and_holds_nothing_back(capsys):
    arguments = ["--preset", "sim", "--input", 16, "--hidden", 64, "--batch", 32, "--steps", 2]
    code, out, err = output(capsys, "bench", "codec", *arguments, "--densities", "0.9,0", "--json")
    assert code == 0, err
    for entry in json.loads(out)["densities"]:
        assert entry["elements_per_cycle"] > 0.8, entry  # of two steps only one overlaps
        assert -0.001 < entry["stalled"] < 0.005, entry


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "codec", "--storage", "dense"], "storage must be one that compresses, got 'dense'"),
        (["compare", "--preset", "nope"], "unknown preset 'nope', expected one of: test, sim"),
        (["compare", "--devices", "golden,nope"], "unknown device 'nope'"),
        (["compare", "--hidden", "0"], "hidden_size must be above 0, got 0"),
        (["compare", "--iterations", "-1"], "iterations must be above 0, got -1"),
        (["compare", "--loss", "mean"], "loss must be one of last, per-step"),
        (["compare", "--devices", "golden"], "at least two devices"),
        (["compare", "--preset", "test,test,test"], "one preset, or one for each of 2 devices"),
        (["compare", "--stall", "1.5"], "stall"),
        (
            ["compare", "--architecture", "fast"],
            "unknown architecture 'fast', expected one of: swing, dynamic, static, inference",
        ),
        (["compare", "--architecture", "inference", "--storage", "ms1"], "architecture inference keeps its intermed"),
        (
            ["compare", "--refresh", "-1"],
            "refresh must be an integer of at least 0",
        ),
        (["compare", "--input-threshold", "-1"], "input_threshold must be finite and at least 0, got -1"),
        (["compare", "--input-threshold", "0.1,nan"], "input_threshold must be finite and at least 0, got nan"),
        (["compare", "--input-threshold", "0.1,0.2"], "one for each of 1 layers, got 2: 0.1,0.2"),
        (["compare", "--input-threshold", "a"], "input_threshold must be a number for all layers"),
        (
            ["train", "--dataset", "digits", "--input-threshold", "0.1", "--refresh", "1", "--out", "/nowhere"],
            "with refresh 1 everything is sent: input_threshold must be 0, got 0.1",
        ),
        (["compare", "--slices", "0"], "slices must be above 0, got 0"),
        (["compare", "--slices", "5"], "slices must be at most the batch, 4 sequences, got 5"),
        (["bench", "iteration", "--slices", "33"], "slices must be at most the batch, 32 sequences, got 33"),
        (
            ["train", "--dataset", "digits", "--slices", "few", "--out", "/nowhere"],
            "slices must be an integer",
        ),
        (
            ["train", "--dataset", "digits", "--slices", "33", "--out", "/nowhere"],
            "slices must be at most the batch, 32",
        ),
        (["plan", "--slices", "33"], "slices must be at most the batch, 32 sequences, got 33"),
        (["plan", "--memory", "1000"], "bytes of memory, the device has 1,000"),
        (["plan", "--density", "2"], "density must be 0 to 1, got 2"),
        (["plan", "--benchmark", "mnist"], "unknown benchmark 'mnist', expected one of: trec10, ptb, imdb"),
        (["plan", "--benchmark", "ptb", "--disassemble"], "does not go together"),
        (["plan", "--benchmark", "ptb", "--check"], "does not go together"),
        (["plan", "--storage", "zip"], "storage must be one of dense, ms1, ms1-bf16, got 'zip'"),
        (["plan", "--memory-budget", "9"], "a memory budget of 9 bytes is too small: this network needs at least"),
        (["compare", "--memory-budget", "0"], "memory_budget must be above 0, got 0"),
        (["compare", "--memory-budget", "9"], "a memory budget of 9 bytes is too small"),
        (["compare", "--log-share", "0"], "log_share must be above 0 and at most 1, got 0"),
        (["compare", "--devices", "golden,golden", "--offload"], "device golden takes no intermediates from the host"),
        (["plan", "--batch", "0"], "batch must be above 0, got 0"),
        (["bench", "iteration", "--steps", "0"], "steps must be above 0, got 0"),
        (["bench", "shares", "--steps", "0"], "steps must be above 0, got 0"),
        (["bench", "skip", "--densities", "0.5,2"], "densities must be numbers from 0 to 1"),
        (["verilog", "--preset", "nope", "-o", "/nowhere"], "unknown preset 'nope'"),
        (["train", "--dataset", "nope", "--out", "/nowhere"], "nope"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_ends_in_one_line_and_code_2(capsys, arguments, message):
    code, out, err = output(capsys, *arguments)
    assert code == 2
    assert message in err and err.count("\n") == 1, err
    assert not out
