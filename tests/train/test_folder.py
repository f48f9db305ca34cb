"""A run's folder keeps its settings, goes on without them retyped, and is not lost by mistake."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from etalstm.cli.main import run
from etalstm.device import open_device
from etalstm.errors import RunError
from etalstm.host.strict import dump
from etalstm.train.checkpoint import Checkpoint
from etalstm.train.folder import BEST, CHECKPOINT, ENCODING, METRICS, SETTINGS, RunFolder
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings

SMALL = ["--dataset", "digits", "--hidden", "4", "--batch", "64"]
NOT_DEFAULT = ["--lr", "0.05", "--momentum", "0.5", "--clip", "0.7", "--weight-decay", "0.01", "--seed", "5",
               "--decay", "0.9", "--theta", "0.1,0,0,0,0,0.2", "--ms2", "0.1"]  # fmt: skip


HOLD = """
import sys
from etalstm.train.folder import RunFolder
folder = RunFolder(sys.argv[1])
folder.open()
print("held")
input()
"""


def train(out, *options):
    return run(["train", "--out", str(out), *map(str, options)])


def entries(out):
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


def refused(capsys, out, *options):
    capsys.readouterr()
    assert train(out, *options) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1, error
    return error


def test_a_folder_has_all_that_a_run_is(tmp_path):
    assert train(tmp_path, *SMALL, "--epochs", 1) == 0
    assert {SETTINGS, METRICS, ENCODING, CHECKPOINT, BEST} <= set(os.listdir(tmp_path))
    settings = tomllib.loads((tmp_path / SETTINGS).read_text())
    assert settings["hidden"] == 4 and settings["learning_rate"] == 0.2 and settings["dataset"] == "digits"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_settings_survive_their_file(tmp_path):
    settings = Settings("digits", theta=(0.1, 0, 0, 0, 0, 0.25), data='a "path"\\\x7f\n\u00e9\U0001f600', slices=4,
                        input_threshold="0.1/0.25,0.3", layers=2, refresh=0)  # fmt: skip
    path = tmp_path / SETTINGS
    path.write_text(settings.text_of_file(), encoding="utf-8")
    assert Settings.load(path) == settings


def test_a_threshold_of_inputs_may_be_a_number_in_a_file(tmp_path):
    path = tmp_path / SETTINGS
    path.write_text('dataset = "digits"\ninput_threshold = 0.25\n', encoding="utf-8")
    assert Settings.load(path) == Settings("digits", input_threshold="0.250")


@pytest.mark.parametrize("text", ["", "plain", 'quote " and \\', "line\nfeed\ttab\0nul\x7f", "\u00e9\u2028\U0001f600"])
def test_every_text_is_read_back(text):
    assert tomllib.loads(dump({"a": text, "b": [text, text]}, "h")) == {"a": text, "b": [text, text]}


def test_resume_needs_no_option_retyped(tmp_path):
    assert train(tmp_path / "parts", *SMALL, *NOT_DEFAULT, "--iterations", 3) == 0
    assert train(tmp_path / "parts", "--resume", "--iterations", 25) == 0
    assert train(tmp_path / "whole", *SMALL, *NOT_DEFAULT, "--iterations", 25) == 0
    assert (tmp_path / "parts" / CHECKPOINT).read_bytes() == (tmp_path / "whole" / CHECKPOINT).read_bytes()


def test_what_differs_is_recorded_and_kept(tmp_path, capsys):
    assert train(tmp_path, *SMALL, "--iterations", 2) == 0
    assert train(tmp_path, "--resume", "--iterations", 4, "--lr", 0.1) == 0
    assert "learning_rate 0.2 → 0.1" in " ".join(capsys.readouterr().err.split())
    changed = {"iterations": [2, 4], "learning_rate": [0.2, 0.1]}
    assert [entry["changed"] for entry in entries(tmp_path) if entry["kind"] == "resumed"] == [changed]
    assert train(tmp_path, "--resume", "--iterations", 6) == 0
    rates = [entry["learning_rate"] for entry in entries(tmp_path) if entry["kind"] == "iteration"]
    assert rates == [0.2] * 2 + [0.1] * 4
    assert len([entry for entry in entries(tmp_path) if entry["kind"] == "resumed"]) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--seed", 9], "its seed is 0, here it is 9"), (["--hidden", 5], "its hidden_size is 4, here it is 5"),
     (["--batch", 32], "its batch is 64, here it is 32"), (["--slices", 2], "its slices is 1, here it is 2"),
     (["--optimizer", "adam"], "its optimizer is sgd, here it is adam")],
)  # fmt: skip
def test_what_may_not_differ_is_refused_by_name(tmp_path, capsys, options, message):
    assert train(tmp_path, *SMALL, "--iterations", 2) == 0
    before = (tmp_path / SETTINGS).read_bytes(), (tmp_path / METRICS).read_bytes()
    assert message in refused(capsys, tmp_path, "--resume", *options)
    assert ((tmp_path / SETTINGS).read_bytes(), (tmp_path / METRICS).read_bytes()) == before


def test_between_epochs_the_batch_may_change(tmp_path):
    assert train(tmp_path, *SMALL, "--epochs", 1) == 0
    assert train(tmp_path, "--resume", "--epochs", 2, "--batch", 128) == 0
    assert [entry["iteration"] for entry in entries(tmp_path) if entry["kind"] == "epoch"] == [19, 19 + 9]


def test_a_run_is_not_erased_by_mistake(tmp_path, capsys):
    assert train(tmp_path, *SMALL, "--iterations", 2) == 0
    before = (tmp_path / CHECKPOINT).read_bytes()
    assert "holds a run already (checkpoint.safetensors): --resume" in refused(capsys, tmp_path, *SMALL)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    assert "batch must be at most" in refused(capsys, tmp_path, *SMALL, "--batch", 5000, "--overwrite")
    assert (tmp_path / CHECKPOINT).read_bytes() == before, "refused settings have erased a run"
    assert train(tmp_path, *SMALL, "--iterations", 1, "--overwrite") == 0
    assert len(entries(tmp_path)) == 2


def test_beginning_anew_leaves_nothing_of_the_old_run(tmp_path):
    assert train(tmp_path, *SMALL, "--epochs", 1) == 0
    events = set((tmp_path / "events").iterdir())
    assert (tmp_path / BEST).exists() and events
    assert train(tmp_path, *SMALL, "--iterations", 1, "--overwrite") == 0
    assert not (tmp_path / BEST).exists(), "a run that ends within its first epoch has no best state"
    assert len(list((tmp_path / "events").iterdir())) == 1


def test_a_resumed_run_writes_its_encoding_again(tmp_path):
    assert train(tmp_path, *SMALL, "--iterations", 1) == 0
    written = (tmp_path / ENCODING).read_bytes()
    (tmp_path / ENCODING).unlink()
    assert train(tmp_path, "--resume", "--iterations", 2) == 0
    assert (tmp_path / ENCODING).read_bytes() == written


def test_a_second_process_is_kept_out(tmp_path, capsys):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    assert "another process trains in this folder" in refused(capsys, tmp_path, *SMALL)
    process.communicate("\n", timeout=60)
    assert train(tmp_path, *SMALL, "--iterations", 1) == 0, "a process that has ended holds nothing"


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    (tmp_path / f"{CHECKPOINT}.123.tmp").write_text("half")
    (tmp_path / "mine.tmp").write_text("not the run's")
    assert train(tmp_path, *SMALL, "--iterations", 1) == 0
    assert [name for name in os.listdir(tmp_path) if name.endswith(".tmp")] == ["mine.tmp"]


def test_a_position_that_an_epoch_has_not_is_refused(tmp_path, capsys):
    assert train(tmp_path, *SMALL, "--iterations", 1) == 0
    saved = Checkpoint.read(tmp_path / CHECKPOINT)
    position = saved.description.position.model_copy(update={"batch": 20})
    forged = saved.description.model_copy(update={"position": position})
    Checkpoint(forged, saved.tensors).write(tmp_path / CHECKPOINT)
    assert "position.batch is 20, an epoch has 19 batches" in refused(capsys, tmp_path, "--resume")


def test_what_is_refused_makes_no_folder(tmp_path, capsys):
    refused(capsys, tmp_path / "a", "--dataset", "nope")
    refused(capsys, tmp_path / "b", *SMALL, "--lr", "-1")
    refused(capsys, tmp_path / "c", "--resume")
    assert not os.listdir(tmp_path)


def test_a_device_that_refuses_leaves_no_folder_that_was_not_there(tmp_path, capsys):
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        assert run(["train", "--dataset", "digits", "--hidden", "1000000", "--out", str(tmp_path / name)]) == 2
        assert "of memory, this computer has" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_failed_start_gives_the_folder_back(tmp_path):
    with pytest.raises(ValueError, match="batch must be at most"):
        Trainer(Settings("digits", batch=5000), open_device("golden"), tmp_path)
    Trainer(Settings("digits", iterations=1), open_device("golden"), tmp_path).run()


def test_a_file_of_settings_comes_under_the_options(tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_text('dataset = "digits"\nhidden = 5\nlearning_rate = 1\ntheta = [0.1, 0, 0, 0, 0, 0]\n')
    assert train(tmp_path / "a", "--config", file, "--hidden", 6, "--iterations", 1) == 0
    settings = RunFolder(tmp_path / "a").read_settings()
    assert (settings.hidden, settings.learning_rate, settings.theta[0], settings.iterations) == (6, 1.0, 0.1, 1)
    for text, message in (
        ("hiden = 5", f"{file}, line 1: hiden is unknown here; is it hidden?"),
        ('hidden = "5"', f"{file}, line 1: hidden: Input should be a valid integer, got '5'"),
        ("hidden = 5.5", "hidden: Input should be a valid integer, got 5.5"),
        ("lower = 1", "lower: Input should be a valid boolean, got 1"),
        ("hidden = ", f"{file}: not TOML"),
        ("[model]\nhidden = 5", "model is unknown here"),
    ):
        file.write_text(text)
        assert message in refused(capsys, tmp_path / "b", "--config", file, "--dataset", "digits")
    assert "there is no such file" in refused(capsys, tmp_path / "b", "--config", tmp_path / "none.toml")


@pytest.mark.parametrize("name", [CHECKPOINT, METRICS, SETTINGS, BEST])
def test_a_folder_in_a_files_place_is_found_before_training(tmp_path, capsys, name):
    (tmp_path / name).mkdir()
    assert f"{name} must be a file, but is something else" in refused(capsys, tmp_path, *SMALL, "--overwrite")


def test_a_folder_that_cannot_be_written_is_found_before_training(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert "file" in refused(capsys, tmp_path / "file", *SMALL)
    assert "/proc/none" in refused(capsys, "/proc/none", *SMALL)


@pytest.mark.parametrize(
    ("line", "message"),
    [('{"iteration": 1, "epoch": 1}', "line 1: kind must be a text, got None"),
     ('{"kind": "iteration", "epoch": 1}', "line 1: iteration must be a number, got None"),
     ('{"kind": "iteration", "iteration": 1, "epoch": 1, "footprint": 1}', "line 1: multiplications must be a number"),
     ('{"kind": "epoch", "iteration": 1, "epoch": 1, "loss": null}', "line 1: loss must be a number, got None"),
     ('{"kind": "test", "iteration": 1, "epoch": 1, "loss": 1, "rmse": "x"}', "line 1: rmse must be a number, got 'x'"),
     ("[1]", "line 1: must be an object"), ("{", "line 1: no JSON")],
)  # fmt: skip
def test_a_log_that_no_run_wrote_is_refused_before_training(tmp_path, capsys, line, message):
    assert train(tmp_path, *SMALL, "--iterations", 1) == 0
    written, settings = (tmp_path / METRICS).read_text(), (tmp_path / SETTINGS).read_bytes()
    (tmp_path / METRICS).write_text(f"{line}\n{written}")
    error = refused(capsys, tmp_path, "--resume", "--iterations", 2)
    assert f"{METRICS}, {message}" in error
    assert (tmp_path / METRICS).read_text() == f"{line}\n{written}"
    assert (tmp_path / SETTINGS).read_bytes() == settings


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(RunError, match=r"must be the folder of a run of eta-lstm train, but holds no settings\.toml"):
        RunFolder(tmp_path).read_settings()
