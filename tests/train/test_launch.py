"""Runs on several ranks that mpiexec starts, kills and starts again."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from etalstm.cli.application import run
from etalstm.errors import DeviceError
from etalstm.host import mpi
from etalstm.host.mpi import Process, find_world, ranks_started, read_roster
from etalstm.train.launch import LaunchedRun, Outcome, find_mpiexec
from tests.runs import LETTERS

SECONDS = 300
ETA_LSTM = (sys.executable, "-m", "etalstm")
TRAIN = (  # for `digits` each process would import scikit-learn first
    "train", "--data", LETTERS, "--task", "classify",
    "--hidden", "8", "--layers", "2", "--batch", "32", "--slices", "8",
    "--theta", "0.02", "--ms2", "0.3", "--delta-target", "0.4", "--input-threshold", "0.05",
    "--iterations", "6", "--evaluation-batches", "1",
)  # fmt: skip


def started(folder, *words):
    return [*words, *TRAIN, "--out", str(folder)]


def done(command, folder):
    subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    return (folder / "checkpoint.safetensors").read_bytes()


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    return done(started(folder, *ETA_LSTM), folder)


@pytest.mark.parametrize(("ranks", "pipeline"), [(4, 1), (4, 2)])
def test_a_run_on_ranks_leaves_the_checkpoint_of_one_process(alone, tmp_path, ranks, pipeline):
    command = started(tmp_path / "run", find_mpiexec(), "-n", str(ranks), *ETA_LSTM)
    assert done([*command, "--pipeline", str(pipeline)], tmp_path / "run") == alone


@pytest.mark.parametrize("pipeline", [1, 2])
def test_a_run_on_simulated_machines_leaves_it_too_and_scrubs_them_all(alone, tmp_path, pipeline):
    command = [*started(tmp_path / "run", find_mpiexec(), "-n", "2", *ETA_LSTM), "--pipeline", str(pipeline)]
    assert done([*command, "--device", "sim", "--preset", "test", "--scrub", "2"], tmp_path / "run") == alone
    refused = subprocess.run([*command, "--overwrite", "--scrub", "2"], capture_output=True, text=True, check=False)
    assert refused.returncode and "device must be another one, got golden" in refused.stderr


def test_buckets_go_through_a_pipeline(tmp_path):
    mine = (*TRAIN, "--buckets", "auto")
    alone, ranks = tmp_path / "alone", tmp_path / "ranks"
    expected = done([*ETA_LSTM, *mine, "--out", str(alone)], alone)
    launched = (find_mpiexec(), "-n", "2", *ETA_LSTM, *mine, "--pipeline", "2", "--out", str(ranks))
    assert done(launched, ranks) == expected


def test_a_run_goes_on_with_another_number_of_ranks(tmp_path):
    host = ("--optimizer", "adam", "--dropout", "0.2", "--ms2", "off", "--delta-target", "off")
    undisturbed = done([*started(tmp_path / "one", *ETA_LSTM), *host], tmp_path / "one")
    folder = tmp_path / "run"
    done([*started(folder, find_mpiexec(), "-n", "4", *ETA_LSTM), *host, "--iterations", "3"], folder)
    resumed = (find_mpiexec(), "-n", "2", *ETA_LSTM, "train", "--resume", "--out", str(folder), "--iterations", "6")
    assert done(resumed, folder) == undisturbed


@pytest.mark.parametrize(("victim", "pipeline"), [(0, 1), (1, 2)])
def test_a_run_whose_rank_is_killed_goes_on_with_the_same_bits(tmp_path, victim, pipeline):
    long = ("--iterations", "60", "--checkpoint-every", "3")
    undisturbed = done([*started(tmp_path / "one", *ETA_LSTM), *long], tmp_path / "one")
    folder, scratch = tmp_path / "run", tmp_path / "scratch"
    scratch.mkdir()
    command = [*started(folder, *ETA_LSTM, "launch", "-n", "2", "--max-restarts", "1", "--"), *long]
    command += ["--pipeline", str(pipeline)]
    launched = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(scratch)}
    )
    wait_for(lambda: (folder / "checkpoint.safetensors").exists(), launched)
    (roster,) = scratch.glob("*/roster.json")
    killed = read_roster(roster)[victim]
    os.kill(killed.pid, signal.SIGKILL)
    _, errors = launched.communicate(timeout=SECONDS)
    assert launched.returncode == 0, errors
    # mpiexec kills the other rank as well, and may then name that one.
    assert re.search(rf"rank [01] on {re.escape(killed.host)} has ended: Killed\n.*restart 1 of 1", errors), errors
    assert (folder / "checkpoint.safetensors").read_bytes() == undisturbed


def wait_for(there, process):
    began = time.monotonic()
    while not there():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() - began < SECONDS
        time.sleep(0.01)


def test_a_run_that_cannot_begin_is_not_started_again(tmp_path):
    command = started(tmp_path / "run", *ETA_LSTM, "launch", "-n", "3", "--max-restarts", "5", "--")
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 2
    (line,) = [line for line in ended.stderr.splitlines() if not line.startswith((LETTERS, "sequences: "))]
    assert line.startswith("eta-lstm: 8 slices can be divided among 1, 2, 4, 8 ranks")


def test_an_interrupt_leaves_a_checkpoint_and_ends_all_ranks(tmp_path):
    folder = tmp_path / "run"
    command = [*started(folder, *ETA_LSTM, "launch", "-n", "2", "--"), "--iterations", "2000", "--epochs", "1000"]
    launched = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    metrics = folder / "metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.stat().st_size, launched)
    launched.send_signal(signal.SIGTERM)
    _, errors = launched.communicate(timeout=SECONDS)
    assert launched.returncode == 128 + signal.SIGINT, errors
    assert (folder / "checkpoint.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("-n", "0", "--", "train"), "ranks must be above 0, got 0"),
        (("-n", "2", "--max-restarts", "-1", "--", "train"), "max_restarts must be at least 0, got -1"),
        (("-n", "2", "--max-restarts", "1", "--", "plan"), "--max-restarts goes on with a run of train, got plan"),
        (("-n", "2", "--hostfile", "nowhere", "--", "plan"), "hostfile must be a file, got nowhere"),
        (("-n", "2", "--", "train", "--epochs", "1"), "train needs --out, got train --epochs 1"),
    ],
)
def test_refuses(arguments, expected, capsys):
    assert run(["launch", *arguments]) == 2
    assert expected in capsys.readouterr().err


def test_other_commands_want_one_process():
    command = [find_mpiexec(), "-n", "2", *ETA_LSTM, "verify", "compare", "--preset", "test"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        "eta-lstm: only train works on several processes: start this command without mpiexec"
    ]


@pytest.mark.parametrize("pipeline", [1, 2])
def test_what_is_left_to_wait_for_is_measured(pipeline):
    command = [*ETA_LSTM, "launch", "-n", "2", "--", "bench", "boards", "--hidden", "32", "--runs", "2", "--json"]
    command += ["--pipeline", str(pipeline)]
    found = json.loads(subprocess.run(command, capture_output=True, timeout=SECONDS, check=True).stdout)
    assert (found["ranks"], found["pipeline"]) == (2, pipeline)
    assert found["iteration_seconds"] >= found["device_seconds"] > 0
    assert found["gradient_bytes"] == 8 * 4 * 128 * 65


def test_a_card_of_each_rank_needs_ranks(tmp_path, capsys):
    assert run([*started(tmp_path / "run"), "--device", "xdma:RANK"]) == 2
    assert "device xdma:RANK is for several processes: start them with" in capsys.readouterr().err


def test_mpiexec_is_recognised_by_what_it_leaves_in_the_environment():
    assert ranks_started({}) == 1
    assert ranks_started({"PMI_SIZE": "4"}) == 4
    assert ranks_started({"OMPI_COMM_WORLD_SIZE": "2"}) == 2


@pytest.fixture
def two_processes(monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    find_world.cache_clear()
    yield monkeypatch
    find_world.cache_clear()


def test_without_mpi_for_python_the_package_is_named(two_processes):
    def missing(name):
        raise ImportError("No module named 'mpi4py'")

    two_processes.setattr(mpi.importlib, "import_module", missing)
    with pytest.raises(DeviceError, match=r"mpiexec has started 2 processes, .* pip install 'etalstm\[boards\]'"):
        find_world()


def test_an_mpiexec_of_another_mpi_is_found_out(two_processes):
    class Alone:
        class COMM_WORLD:
            size = 1

    two_processes.setattr(mpi.importlib, "import_module", lambda name: Alone)
    with pytest.raises(DeviceError, match="started 2 processes, but MPI for Python sees 1"):
        find_world()


def test_what_ended_a_run_is_named():
    ranks = [Process("here", 5), Process("there", 6)]
    assert Outcome(9, Process("there", 6), "Killed", ranks).cause == "rank 1 on there has ended: Killed"
    assert Outcome(9, Process("there", 7), "Killed", ranks).cause == "process 7 on there has ended: Killed"


@pytest.mark.parametrize(
    ("given", "there", "again"),
    [
        ([], [], ["--overwrite"]),
        ([], ["checkpoint.safetensors"], ["--resume"]),
        (["--overwrite"], ["settings.toml"], ["--overwrite"]),
        (["--resume"], ["settings.toml", "checkpoint.safetensors"], ["--resume"]),
    ],
)
def test_goes_on_from_the_checkpoint_or_begins_anew(tmp_path, given, there, again):
    folder = tmp_path / "run"
    folder.mkdir()
    run = LaunchedRun(["train", "--out", str(folder), *given])
    for name in there:
        (folder / name).touch()
    assert run.next_command() == ["train", "--out", str(folder), *again]


def test_the_roster_of_a_run_that_has_not_begun_is_empty(tmp_path):
    assert read_roster(Path(tmp_path / "none")) == []
