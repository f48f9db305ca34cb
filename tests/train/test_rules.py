"""Pruning rules of a user: golden and the machine apply them alike, and a run that goes on decides as a whole one."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from etalstm.device import open_device
from etalstm.errors import CheckpointError
from etalstm.train.checkpoint import Checkpoint
from etalstm.train.folder import CHECKPOINT, METRICS
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "rule.md"
SOURCE = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
OTHERS = """
from etalstm.train.rules import PruningRule, Thresholds

class Negative(PruningRule):
    def thresholds(self):
        return Thresholds(theta=-1.0)
    def take(self, seen): ...

class Nothing(Negative):
    def thresholds(self): ...

class Layers(Negative):
    def thresholds(self):
        return Thresholds(inputs=(0.1, 0.2, 0.3))

class Infinite(Negative):
    def thresholds(self):
        return Thresholds()
    def take(self, seen):
        self.state["loss"] = float("inf")

NUMBER = 3
"""
DIGITS = Settings("digits", hidden=12, layers=2, batch=128, epochs=2, iterations=14, rule="my_rules.Falling")


@pytest.fixture(autouse=True)
def _in_its_folder(tmp_path, monkeypatch):
    (tmp_path / "my_rules.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "other_rules.py").write_text(OTHERS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name in ("my_rules", "other_rules"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))


def train(folder, device="golden", settings=DIGITS, resume=False, **options):
    Trainer(settings, open_device(device, **options), folder, resume).run()
    entries = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [entry for entry in entries if entry["kind"] == "iteration"]


def test_the_rule_of_the_page_prunes_more_with_every_loss_that_falls(tmp_path):
    first, *later = train(tmp_path / "run")
    assert first["rule"] == "my_rules.Falling"
    assert not any(first["theta"]) and first["delta_threshold"] == 0 and first["refresh"] == 1
    best = min(later, key=lambda entry: entry["loss"])
    after = later[min(later.index(best) + 1, len(later) - 1)]
    assert after["theta"][0] > 0 and after["delta_threshold"] > 0 and float(after["input_threshold"]) > 0
    assert after["densities"]["i"] < first["densities"]["i"]
    assert after["delta_density"] < first["delta_density"] and after["input_density"] < first["input_density"]


def test_the_machine_prunes_as_golden_does_and_keeps_its_bits(tmp_path):
    settings = replace(DIGITS, batch=32, iterations=6)
    entries = [train(tmp_path / name, name, settings) for name in ("golden", "sim")]
    thresholds = [[(e["theta"], e["delta_threshold"], e["input_threshold"]) for e in run] for run in entries]
    assert thresholds[0] == thresholds[1]
    assert any(theta[0] for theta, *_ in thresholds[0])
    checkpoints = [(tmp_path / name / CHECKPOINT).read_bytes() for name in ("golden", "sim")]
    assert checkpoints[0] == checkpoints[1]


def test_a_run_that_goes_on_decides_as_one_in_one_piece(tmp_path):
    train(tmp_path / "whole")
    train(tmp_path / "parts", settings=replace(DIGITS, iterations=5))
    state = Checkpoint.read(tmp_path / "parts" / CHECKPOINT).description.position.rule
    assert state.keys() == {"first", "gone"}
    train(tmp_path / "parts", resume=True)
    assert (tmp_path / "whole" / CHECKPOINT).read_bytes() == (tmp_path / "parts" / CHECKPOINT).read_bytes()
    with pytest.raises(CheckpointError, match="rule"):
        train(tmp_path / "parts", settings=replace(DIGITS, rule=None, storage="ms1"), resume=True)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("falling", r"must be module\.Class of a PruningRule, installed or in /.*: no installed package has a rule"),
        ("no_rules.Falling", "got 'no_rules.Falling': No module named 'no_rules'"),
        ("my_rules.Rising", "got 'my_rules.Rising': module 'my_rules' has no attribute 'Rising'"),
        ("other_rules.NUMBER", r"rule must be other_rules\.Class of a PruningRule, got 3"),
        (
            "other_rules.Negative",
            r"rule other_rules.Negative must give Thresholds, .*theta must be finite and at least 0",
        ),
        ("other_rules.Nothing", r"rule other_rules.Nothing must give Thresholds, got None"),
        ("other_rules.Layers", r"rule other_rules.Layers must give .*one for each of 2 layers, got 3"),
        ("other_rules.Infinite", r"the state of rule other_rules.Infinite must be finite numbers, got inf as loss"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(tmp_path, rule, message):
    with pytest.raises(ValueError, match=message):
        train(tmp_path / "run", settings=replace(DIGITS, rule=rule))


@pytest.mark.parametrize(
    "changes",
    [{"theta": 0.1}, {"delta_target": 0.2}, {"input_threshold": "0.1"}, {"input_target": 0.5}],
)
def test_a_threshold_has_one_source(changes):
    [(name, value)] = changes.items()
    with pytest.raises(ValueError, match=f"a rule gives the thresholds: {name} must not be given, got {value}"):
        replace(DIGITS, **changes)


@pytest.mark.parametrize("storage", ["dense", "auto"])
def test_a_rule_needs_storage_that_prunes(storage):
    with pytest.raises(ValueError, match=f"with a rule storage must be ms1 or ms1-bf16, got {storage}"):
        replace(DIGITS, storage=storage)


def test_a_rule_is_told_the_epoch(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("etalstm.train.rules.NamedRule.take", lambda _, seen: told.append((seen.iteration, seen.epoch)))
    settings = replace(DIGITS, batch=400, iterations=7, epochs=3)
    train(tmp_path / "run", settings=replace(settings, iterations=5))
    train(tmp_path / "run", settings=settings, resume=True)
    assert [number for number, _ in told] == [1, 2, 3, 4, 5, 6, 7]
    epochs = [epoch for _, epoch in told]
    assert epochs == sorted(epochs) and epochs[0] == 1 and epochs.count(1) == epochs.count(2) == 3


def test_an_entry_point_gives_a_rule_a_name(tmp_path):
    information = tmp_path / "my_rules-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my_rules\nVersion: 1\n", encoding="utf-8")
    (information / "entry_points.txt").write_text(
        "[etalstm.train.rules]\nfalling = my_rules:Falling\n", encoding="utf-8"
    )
    sys.path.insert(0, str(tmp_path))
    assert train(tmp_path / "run", settings=replace(DIGITS, rule="falling", iterations=2))[-1]["rule"] == "falling"
