"""Runs with integers: whatever divides the batch, and whoever goes on, the checkpoint is the same."""

import json

import pytest
from safetensors import safe_open

from etalstm.cli.application import run
from etalstm.train.launch import find_mpiexec
from tests.runs import LETTERS
from tests.train.test_launch import ETA_LSTM, done

TRAIN = (
    "train", "--data", LETTERS, "--task", "classify", "--hidden", "8", "--layers", "2", "--batch", "32",
    "--arithmetic", "int8", "--iterations", "6", "--evaluation-batches", "1",
)  # fmt: skip
REDUCED = ("--theta", "0.02", "--ms2", "0.3", "--delta-target", "0.4", "--input-threshold", "0.05")


def trained(folder, *options):
    assert run([*TRAIN, "--out", str(folder), *options]) == 0
    return (folder / "checkpoint.safetensors").read_bytes()


def description(folder):
    with safe_open(folder / "checkpoint.safetensors", "numpy") as file:
        return json.loads(file.metadata()["etalstm"])


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("alone") / "run", *REDUCED)


@pytest.mark.parametrize("slices", ["2", "3", "5", "8"])
def test_slices_leave_the_same_checkpoint(alone, tmp_path, slices):
    assert trained(tmp_path / "run", *REDUCED, "--slices", slices) == alone


@pytest.mark.parametrize("ranks, pipeline", [("2", "1"), ("4", "1"), ("4", "2")])
def test_ranks_and_stages_leave_the_same_checkpoint(alone, tmp_path, ranks, pipeline):
    command = (find_mpiexec(), "-n", ranks, *ETA_LSTM, *TRAIN, *REDUCED, "--slices", "8", "--pipeline", pipeline)
    assert done([*command, "--out", str(tmp_path / "run")], tmp_path / "run") == alone


@pytest.mark.parametrize(
    "options",
    [
        REDUCED,
        ("--dropout", "0.3"),
        ("--cell", "hlstm", "--theta", "0.02"),
        ("--arithmetic", "int16", "--optimizer", "adam"),
    ],
    ids=["reduced", "dropout", "H-LSTM", "int16, adam"],
)
def test_a_resumed_run_leaves_the_checkpoint_of_an_uninterrupted_one(tmp_path, options):
    whole = trained(tmp_path / "whole", *options)
    trained(tmp_path / "parts", *options, "--iterations", "3")
    assert run(["train", "--resume", "--out", str(tmp_path / "parts"), "--iterations", "6"]) == 0
    assert (tmp_path / "parts" / "checkpoint.safetensors").read_bytes() == whole


def test_a_run_goes_on_with_another_dropout_and_with_another_arithmetic_begins_its_exponents_anew(tmp_path):
    trained(tmp_path, "--iterations", "3", "--slices", "4")
    before = description(tmp_path)["position"]["exponents"]["delta"]
    resume = ["train", "--resume", "--out", str(tmp_path)]
    assert run([*resume, "--iterations", "4", "--dropout", "0.3"]) == 0
    assert [len(layer) for layer in description(tmp_path)["position"]["exponents"]["delta"]] == [1, 1]
    assert len(before) == 1 and len(before[0]) == 2
    assert run([*resume, "--iterations", "5", "--dropout", "0", "--arithmetic", "float32"]) == 0
    assert description(tmp_path)["run"]["slices"] == 4
    assert run([*resume, "--iterations", "6", "--arithmetic", "int16"]) == 0
    assert description(tmp_path)["run"]["slices"] == 1


def test_an_evaluation_has_the_exponents_of_the_run(tmp_path, capsys):
    whole = [word for word in TRAIN if word not in ("--evaluation-batches", "1")]
    assert run([*whole, "--cell", "hlstm", "--out", str(tmp_path)]) == 0
    last = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()][-1]
    capsys.readouterr()
    evaluated = ["evaluate", str(tmp_path), "--checkpoint", "last", "--json"]
    assert run(evaluated) == 0
    assert json.loads(capsys.readouterr().out)["loss"] == pytest.approx(last["loss"], rel=1e-7)


def test_a_run_in_float32_goes_on_with_integers_and_its_log_says_so(tmp_path):
    trained(tmp_path, "--arithmetic", "float32", "--iterations", "3")
    assert "exponents" not in description(tmp_path)["position"]
    again = ["train", "--resume", "--out", str(tmp_path), "--iterations", "6", "--arithmetic", "int8"]
    assert run([*again, "--delta-bits", "14"]) == 0
    found = description(tmp_path)
    assert found["run"]["arithmetic"] == "int8" and found["run"]["delta_bits"] == 14
    assert len(found["position"]["exponents"]["delta"][0]) == 2
    entries = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert any("int8" in str(entry) for entry in entries if entry["kind"] == "resumed")
    last = next(entry for entry in reversed(entries) if entry["kind"] == "iteration")
    assert 0 < last["delta_density"] <= last["delta_digits"] <= 2 and 0 <= last["saturated"] < 2**-10


@pytest.mark.parametrize("option, message", [
    (("--arithmetic", "int4"), "arithmetic must be one of float32, int16, int8, got 'int4'"),
    (("--delta-bits", "16"), "delta_bits must be from 8 to 15, got 16"),
    (("--arithmetic", "float32", "--delta-bits", "12"), "delta_bits: only for an arithmetic of integers, got 12"),
    (("--weight-format", "bf16"), "with arithmetic int8 weights are integers"),
    (("--device", "sim", "--preset", "test"), "arithmetic cannot be int8"),
])  # fmt: skip
def test_what_does_not_go_together_is_refused(tmp_path, capsys, option, message):
    assert run([*TRAIN, "--out", str(tmp_path), *option]) == 2
    assert message in capsys.readouterr().err
