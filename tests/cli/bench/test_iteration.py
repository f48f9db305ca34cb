"""``eta-lstm bench iteration``, as a user types it."""

import json

import pytest

from etalstm.cli.application import BAD_INPUT
from etalstm.cli.main import run
from tests.cli.typed import output, sizes


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


def test_a_threshold_is_refused_with_dense_storage(capsys, trained):
    dense = ["bench", "iteration", "--preset", "test", "--weights", trained, "--storage", "dense"]
    code, _, err = output(capsys, *dense, "--theta", "0.1")
    assert code == BAD_INPUT and err == "eta-lstm: dense storage prunes nothing: theta must be 0, got 0.1\n"


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
