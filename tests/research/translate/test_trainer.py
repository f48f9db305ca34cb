import dataclasses
import json
import os
import signal

import pytest

from etalstm.device import open_device
from etalstm.errors import CheckpointError, RunError
from etalstm.research.translate.corpus import read_corpus
from etalstm.research.translate.trained import load
from etalstm.research.translate.trainer import Trainer
from etalstm.research.translate_settings import TranslationSettings
from etalstm.train.folder import RunFolder

SMALL = {"hidden": 8, "embedding": 6, "batch": 8, "least_count": 1, "longest": 9, "dropout": 0.1}


def settings_of(corpus, **options):
    return TranslationSettings(**{"data": str(corpus), "source": "de", "target": "en", **SMALL, **options})


def train(settings, path, engine="golden", resume=False, report=lambda entry: None):
    with RunFolder(path) as folder:
        folder.open(resume)
        return Trainer(settings, read_corpus(settings), folder, engine, resume).run(report)


def files_of(path):
    return [(path / f"{name}.safetensors").read_bytes() for name in ("checkpoint", "best")]


@pytest.mark.parametrize("options", [{}, {"theta": 0.05}, {"delta_target": 0.3, "input_threshold": "0.1"}])
def test_golden_and_the_simulated_machine_leave_the_same_bits(options, corpus, tmp_path):
    settings = settings_of(corpus, sentences=6, hidden=4, embedding=3, batch=3, epochs=1, longest=8, **options)
    golden = train(settings, tmp_path / "golden")
    with open_device("sim", "test") as device:
        assert train(settings, tmp_path / "sim", device) == golden
    assert files_of(tmp_path / "golden") == files_of(tmp_path / "sim")


def test_a_run_learns(corpus, tmp_path):
    settings = settings_of(corpus, hidden=32, embedding=32, batch=4, epochs=24, learning_rate=0.01, dropout=0.0)
    last = train(settings, tmp_path / "run")
    assert last["kind"] == "test" and last["bleu"] > 80, last
    settings, trained = load(tmp_path / "run")
    assert trained.translate(["Ein hund .", " "]) == ["A dog .", ""]


def test_the_threshold_of_delta_follows_its_target(corpus, tmp_path):
    found = []
    settings = settings_of(corpus, epochs=30, delta_target=0.3)
    train(settings, tmp_path / "run", report=lambda entry: found.append(entry.get("delta_density")))
    last = [density for density in found if density is not None][-20:]
    assert 0.25 < sum(last) / len(last) < 0.35, found


def test_delta_inputs_send_less(corpus, tmp_path):
    found = []
    settings = settings_of(corpus, epochs=2, input_threshold="0.5")
    train(settings, tmp_path / "run", report=found.append)
    assert all(entry["input_density"] < 0.7 for entry in found if entry["kind"] == "iteration"), found


@pytest.mark.parametrize("options", [{}, {"delta_target": 0.3}])
def test_a_run_that_goes_on_has_the_bits_of_one_that_was_not_interrupted(options, corpus, tmp_path):
    settings = settings_of(corpus, epochs=2, **options)
    whole = train(settings, tmp_path / "whole")

    def interrupt(entry):
        if entry["kind"] == "iteration" and entry["iteration"] in (2, 6):
            os.kill(os.getpid(), signal.SIGTERM)

    for resume in (False, True):
        last = train(settings, tmp_path / "parts", resume=resume, report=interrupt)
        assert last["kind"] == "interrupted" and last["signal"] == signal.SIGTERM
    assert train(settings, tmp_path / "parts", resume=True) == whole
    assert files_of(tmp_path / "whole") == files_of(tmp_path / "parts")
    logs = [(tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "parts")]
    whole, parts = ([json.loads(line) for line in log] for log in logs)
    for entry in (*whole, *parts):
        entry.pop("seconds", None)
    assert [entry for entry in parts if entry["kind"] != "interrupted"] == whole


def test_what_defines_a_run_may_not_differ(corpus):
    settings = settings_of(corpus)
    assert settings.going_on({"epochs": 9}).epochs == 9
    with pytest.raises(ValueError, match="hidden may not differ where a run goes on: it was 8, got 16"):
        settings.going_on({"hidden": 16})


def test_a_damaged_or_foreign_checkpoint_is_refused(corpus, tmp_path):
    settings, path = settings_of(corpus, epochs=1), tmp_path / "run"
    train(settings, path)
    (corpus / "train.de").write_text((corpus / "train.de").read_text().replace("Ein", "Das"))
    with pytest.raises(CheckpointError, match="of another run: its vocabularies are not those here"):
        train(settings, path, resume=True)
    with pytest.raises(CheckpointError, match="of another run: its seed is 0, here it is 1"):
        train(dataclasses.replace(settings, seed=1), path, resume=True)
    content = bytearray((path / "best.safetensors").read_bytes())
    content[-3] ^= 1
    (path / "best.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"best\.safetensors: corrupted"):
        load(path)


def test_settings_come_back_from_their_file(corpus, tmp_path):
    settings = settings_of(corpus, theta=(0.1, 0.1, 0.1, 0.1, 0.1, 0.0))
    assert settings.storage == "ms1"
    path = tmp_path / "settings.toml"
    path.write_text(settings.text_of_file())
    assert TranslationSettings.load(path) == settings
    path.write_text(settings.text_of_file().replace("batch = 8", 'batch = "8"'))
    with pytest.raises(RunError, match=r"batch: .* got '8'"):
        TranslationSettings.load(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch must be above 0, got 0"),
        ({"learning_rate": -1.0}, "learning_rate must be above 0 and finite, got -1.0"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"storage": "ms3"}, "storage must be one of .* got 'ms3'"),
        ({"storage": "dense", "theta": 0.1}, "dense storage prunes nothing: theta must be 0, got 0.1$"),
        ({"recompute": "never"}, "recompute must be one of auto, on, off, got 'never'"),
        ({"delta_target": 1.0}, "delta_target must be above 0 and below 1, or off, got 1.0"),
        ({"delta_target": 0.2, "storage": "dense"}, "dense cells keep δ whole"),
        ({"input_threshold": "0.1,0.2"}, "one input threshold, or one for each of 1 layers, got 2"),
        ({"tokens": "bytes"}, "tokens must be one of words, spaces, got 'bytes'"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message, corpus):
    with pytest.raises(ValueError, match=message):
        settings_of(corpus, **options)
