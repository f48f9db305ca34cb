"""``eta-lstm research compress``, and ``eta-lstm research profile latency --host``."""

import inspect
import json
import os
import re
import signal
import tomllib
from pathlib import Path

import pytest
import torch

from etalstm.cli.main import run
from etalstm.cli.research.compress import compress
from etalstm.data.streams import Ptb
from etalstm.research.compress import load_network
from etalstm.research.compress import run as runs
from etalstm.research.compress.run import entries_of_rounds
from etalstm.research.compress_settings import LANGUAGE, SPEECH, CompressSettings
from etalstm.research.profile import load
from etalstm.research.studies.shrinking import read_runs
from etalstm.train.metrics import read_log

SMALL = [
    "--hidden", "8", "--embedding", "6", "--batch", "4", "--steps", "5", "--epochs", "1",
    "--preset", "test", "--tolerance", "9",
]  # fmt: skip


@pytest.fixture
def profile(make_profile, tmp_path):
    make_profile([2, 4, 8]).save(tmp_path / "p.json")
    return str(tmp_path / "p.json")


@pytest.fixture
def begin(text, tmp_path):
    return lambda *options: run(
        ["research", "compress", "--data", str(text), *SMALL, "--out", str(tmp_path / "run"), *options]
    )


def test_a_run_prints_what_each_round_gave(begin, profile, capsys):
    assert begin("--profile", profile, "--rounds", "1", "--growth-epochs", "0") == 0
    shown = capsys.readouterr().out
    for text in ("dense 1", "grow-weights 1", "prune-units 1", "prune-weights 1", "6/8/8", "5/4/4", "accepted"):
        assert text in shown, text
    assert "kept:" in shown and "grow-units ended: no layer has a larger size to grow to" in shown


def test_options_have_the_defaults_of_the_settings():
    tasks = [CompressSettings.of({"data": "", "task": task, "phases": ()}) for task in (LANGUAGE, SPEECH)]
    _, *options = inspect.signature(compress).parameters.values()  # without the context
    told = {}
    for option in options:
        text = re.search(r"\[default: (\S+); speech: (\S+)\]", option.annotation.__metadata__[0].help)
        if text:
            told[option.name] = [float(value) for value in text.groups()]
        elif isinstance(option.default, int | float | str) and hasattr(tasks[0], option.name):
            told[option.name] = [option.default] * len(tasks)
    del told["task"]  # given above
    assert len(told) > 20
    assert told == {name: [getattr(settings, name) for settings in tasks] for name in told}


def test_a_target_that_is_not_reached_is_told_and_the_best_is_kept(begin, tmp_path, capsys):
    assert begin("--phases", "prune-weights", "--rounds", "1", "--target", "500") == 1
    told = capsys.readouterr()
    assert "target not reached: 500 times fewer LSTM parameters were wanted, 1.79 were accepted" in told.err
    network, words = load_network(tmp_path / "run/network.safetensors"), Ptb(tmp_path / "data")
    with torch.no_grad():
        perplexity = network.score(words.epoch("test", 4, 5))
    assert f"test perplexity {perplexity:.2f}" in told.out


def test_an_interrupted_run_goes_on(begin, tmp_path, monkeypatch, capsys):
    iterate = runs.Run._iterate

    def interrupted(self, *given):
        if self.position.iteration == 2:
            os.kill(os.getpid(), signal.SIGTERM)
        return iterate(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(runs.Run, "_iterate", interrupted)
        assert begin("--phases", "prune-weights", "--rounds", "1") == 128 + signal.SIGTERM
    assert run(["research", "compress", "--resume", "--rounds", "2", "--out", str(tmp_path / "run")]) == 0
    assert "prune-weights 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--phases", "shrink"], "phases must be some of grow-weights, prune-units, grow-units, prune-weights"),
        (["--phases", "grow-units"], "grow-units needs a profile, whose points it grows to, or grow_to; got neither"),
        (["--phases", ","], "phases must be some of grow-weights, prune-units, grow-units, prune-weights, got ''"),
        (["--phases", "dense,prune-units"], "prune-weights, got 'dense'"),
        (["--phases", "prune-units,prune-units"], "phases must name a step once, got prune-units 2 times"),
        (["--phases", "dense", "--retrain", "2"], "--retrain is only used with the step prune-units or grow-units"),
        (["--grow-to", "9"], "grow_to must be at most hidden, 8 units, got 9"),
        (["--hidden", "1100", "--grow-to", "1100"], "growth to 1100 units of a layer does not fit preset test"),
        (["--phases", "prune-units", "--density", "0.2"], "--density is only used with the step grow-weights"),
        (["--phases", "prune-weights", "--guided", "all"], "--guided is only used with --profile or --input-profile"),
        (["--resume", "--overwrite"], "there must be one of them, got both"),
        (["--cell", "hlstm", "--phases", "grow-units", "--grow-to", "4"], "grow-units needs cell lstm, got hlstm"),
        (["--profile", "none.json"], "there is no such profile"),
        (["--phases", "", "--engine", "gold"], "--phases must not be empty"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, message, begin, capsys):
    assert begin(*options) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_profile_of_another_preset_is_refused(begin, profile, capsys):
    assert begin("--profile", profile, "--preset", "sim") == 2
    assert "a profile of test with digest" in capsys.readouterr().err


def test_a_profile_of_the_host_guides_whatever_the_preset(begin, make_profile, tmp_path, capsys):
    host = {"machine": "host", "preset_digest": 0, "model_digest": "torch", "unit": "seconds"}
    make_profile([2, 5, 8], **host).save(tmp_path / "h.json")
    assert begin("--phases", "prune-units", "--rounds", "1", "--profile", str(tmp_path / "h.json")) == 0
    assert "5/5/5" in capsys.readouterr().out


def test_a_profile_of_another_dimension_is_refused(begin, make_profile, tmp_path, capsys):
    make_profile([4], dimension="input", hidden=8).save(tmp_path / "i.json")
    assert begin("--profile", str(tmp_path / "i.json")) == 2
    assert "must be a profile of hidden, got one of input" in capsys.readouterr().err


def test_a_profile_that_ends_below_the_dense_start_is_refused(begin, make_profile, tmp_path, capsys):
    make_profile([2, 7]).save(tmp_path / "short.json")
    assert begin("--profile", str(tmp_path / "short.json")) == 2
    assert "short.json: must have sizes up to the dense start's 8, got up to 7" in capsys.readouterr().err


def test_a_run_goes_on_where_its_profile_was_moved(begin, profile, make_profile, tmp_path, capsys):
    assert begin("--profile", profile, "--phases", "prune-units", "--rounds", "1") == 0
    moved, other = tmp_path / "moved.json", tmp_path / "other.json"
    Path(profile).rename(moved)
    again = ["research", "compress", "--resume", "--out", str(tmp_path / "run")]
    assert run([*again, "--rounds", "2", "--profile", str(moved)]) == 0
    make_profile([2, 3, 8]).save(other)
    assert run([*again, "--profile", str(other)]) == 2
    assert "of another run: its guides is" in capsys.readouterr().err


def test_a_run_with_a_preset_of_a_file_goes_on_from_another_folder(begin, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.toml").write_text('base = "test"\n')
    monkeypatch.chdir(tmp_path)
    assert begin("--preset", "mine.toml", "--phases", "prune-units", "--rounds", "1") == 0
    monkeypatch.chdir("/")
    again = ["research", "compress", "--resume", "--rounds", "2", "--out", str(tmp_path / "run")]
    assert run(again) == 0
    assert "prune-units 2" in capsys.readouterr().out
    (tmp_path / "mine.toml").rename(tmp_path / "moved.toml")
    again += ["--preset", str(tmp_path / "moved.toml")]
    assert run(again) == 0
    (tmp_path / "moved.toml").write_text('base = "test"\nlanes = 16\n')
    assert run(again) == 2
    assert "of another run: its preset is" in capsys.readouterr().err


def test_a_profile_of_another_cell_is_refused(begin, profile, capsys):
    assert begin("--phases", "prune-units", "--cell", "hlstm", "--profile", profile) == 2
    assert "must be a profile of cell hlstm, got one of cell lstm" in capsys.readouterr().err


def test_a_profile_of_a_cell_guides_it(begin, tmp_path):
    sizes = ["--from", "1", "--to", "8", "--batch", "2", "--steps", "2", "--preset", "test"]
    path = str(tmp_path / "h.json")
    assert run(["research", "profile", "latency", "--cell", "hlstm", *sizes, "--out", path]) == 0
    points = load(Path(path)).points
    assert begin("--phases", "prune-units", "--cell", "hlstm", "--rounds", "1", "--profile", path) == 0
    units = entries_of_rounds(read_log(tmp_path / "run/metrics.jsonl"))[-1]["units"]
    assert 4 not in points and set(units) <= set(points) and units[0] < 8, "a fifth fewer than 8 is 6"


def test_a_run_is_not_lost(begin, capsys):
    assert begin("--phases", "prune-weights", "--rounds", "1") == 0
    assert begin("--phases", "prune-weights", "--rounds", "1") == 2
    assert "holds a run already" in capsys.readouterr().err


def test_a_run_takes_the_dense_start_of_another_with_its_settings(begin, tmp_path, capsys):
    assert begin("--phases", "dense") == 0
    options = ["--start", str(tmp_path / "run"), "--tolerance", "9", "--rounds", "1", "--preset", "test"]
    assert run(["research", "compress", *options, "--phases", "prune-weights", "--out", str(tmp_path / "next")]) == 0
    error = capsys.readouterr().err
    assert "epoch 1: phase dense" in error and "epoch 1: phase prune-weights" not in error
    assert "epoch 2: phase prune-weights" in error
    found, settings = read_runs([tmp_path / "next"])[0], tomllib.loads((tmp_path / "next/settings.toml").read_text())
    assert [one.phase for one in found.networks] == ["dense", "prune-weights"]
    assert found.settings["start"] == "run" and settings["hidden"] == 8 and settings["data"] == str(tmp_path / "data")


def test_a_dense_start_that_cannot_be_taken_is_refused(begin, tmp_path, capsys):
    assert begin("--phases", "dense") == 0
    for options, message in (
        (["--start", str(tmp_path / "run"), "--overwrite"], "--start must be the folder of another run than --out"),
        (["--start", str(tmp_path / "none")], "none/settings.toml: there is no such file"),
        (["--start", str(tmp_path / "run"), "--hidden", "9", "--out", str(tmp_path / "next")], "its hidden is 8, here"),
    ):
        assert begin(*options, "--phases", "prune-weights") == 2
        assert message in capsys.readouterr().err
    assert (tmp_path / "run/dense.safetensors").is_file() and not (tmp_path / "next").exists()


def test_a_run_needs_data(tmp_path, capsys):
    assert run(["research", "compress", "--out", str(tmp_path / "run")]) == 2
    assert "--data must be given where a run begins" in capsys.readouterr().err


def test_the_host_is_timed(tmp_path, capsys):
    options = ["--from", "4", "--to", "6", "--batch", "2", "--steps", "2", "--runs", "1"]
    assert run(["research", "profile", "latency", "--host", *options, "--out", str(tmp_path / "p.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["machine"] == "host" and found["unit"] == "seconds" and found["tolerance"] == 0.05
    assert len(found["latencies"]) == 3 and all(seconds > 0 for seconds in found["latencies"].values())


def test_runs_are_set_beside_each_other_and_timed(begin, profile, tmp_path, capsys):
    assert begin("--profile", profile, "--rounds", "1", "--growth-epochs", "0") == 0
    out = tmp_path / "study"
    timed = ["--host", "--steps", "5", "--turns", "1"]
    assert run(["research", "study", "compress", str(tmp_path / "run"), *timed, "--out", str(out)]) == 0
    (found,) = read_runs([out / "shrinking.json"])
    rounds = entries_of_rounds(read_log(tmp_path / "run/metrics.jsonl"))
    assert [one.lstm_parameters for one in found.networks] == [entry["lstm_parameters"] for entry in rounds]
    assert [one.test for one in found.networks] == [entry["test_perplexity"] for entry in rounds]
    assert all(network.milliseconds > 0 for _, network in found.shown)
    assert "eta-lstm research study compress RUN ... --host --steps 5 --turns 1 --out DIR" in capsys.readouterr().out
