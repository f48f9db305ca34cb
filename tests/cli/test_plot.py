"""``eta-lstm plot``: curves of runs."""

import json

import pytest

from etalstm.cli.main import run
from etalstm.train.metrics import curves_of, labels_of, panels_of, smoothed

ENTRIES = [
    {"kind": "iteration", "iteration": 1, "epoch": 1, "loss": 2.0, "accuracy": 0.25},
    {"kind": "iteration", "iteration": 2, "epoch": 1, "loss": 1.0, "accuracy": 0.5},
    {"kind": "epoch", "iteration": 2, "epoch": 1, "loss": 1.25, "accuracy": 0.5, "split": "validation"},
    {"kind": "test", "iteration": 2, "epoch": 1, "loss": 1.5, "accuracy": 0.375, "split": "test"},
]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "a"
    path.mkdir()
    (path / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES), encoding="utf-8")
    return path


def test_means_begin_with_the_first_value():
    assert smoothed([4.0, 0.0, 2.0], 0.5) == [4.0, 2.0, 2.0]
    assert smoothed([4.0, 0.0, 2.0], 0) == [4.0, 0.0, 2.0]


def test_scores_are_drawn_if_any_run_has_them():
    assert panels_of([("a", ENTRIES)]) == ["loss", "accuracy"]
    others = [{"perplexity": 3.0}, {"rmse": 2.0}]
    assert panels_of([("a", ENTRIES), ("b", others)]) == ["loss", "accuracy", "perplexity", "rmse"]


def test_runs_are_drawn_into_one_picture(folder, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    picture = tmp_path / "curves.svg"
    assert run(["plot", str(folder), str(folder), "--out", str(picture)]) == 0
    drawn = picture.read_text(encoding="utf-8")
    for text in ("training, smoothed", "validation", "test", f"{folder}, identical to {folder}"):
        assert f"<!-- {text} -->" in drawn, text
    assert capsys.readouterr().out.strip() == str(picture)
    assert run(["plot", str(folder), "--out", str(tmp_path / "curves.xyz")]) == 2
    assert "xyz" in capsys.readouterr().err and not (tmp_path / "curves.xyz").exists()


def test_a_run_without_validation_and_test_has_its_curve_alone(folder, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES[:2]), encoding="utf-8")
    assert run(["plot", str(folder), "--out", str(tmp_path / "curves.svg")]) == 0
    drawn = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    assert "<!-- o -->" not in drawn and "<!-- * -->" not in drawn, "names on an axis of numbers"


def test_a_run_with_the_curves_of_an_earlier_one_is_named_so():
    other = [ENTRIES[0] | {"loss": 3.0}, *ENTRIES[1:]]
    logs = {"a": ENTRIES, "b": other, "c": ENTRIES}
    runs = [(name, curves_of(entries, ["loss"], 0.5)) for name, entries in logs.items()]
    assert runs[0][1]["loss", "iteration"] == [(1, 2.0), (2, 1.5)] and runs[0][1]["loss", "test"] == [(2, 1.5)]
    assert labels_of(runs) == ["a", "b", "c, identical to a"]


def test_refuses_folders_without_a_run_and_a_smoothing_that_is_none(folder, tmp_path, capsys):
    assert run(["plot", str(tmp_path)]) == 2
    assert f"{tmp_path}: there is no run in this folder" in capsys.readouterr().err
    (folder / "metrics.jsonl").write_text("", encoding="utf-8")
    assert run(["plot", str(folder)]) == 2
    assert "no iteration is in it yet" in capsys.readouterr().err
    assert run(["plot", str(folder), "--smoothing", "1"]) == 2
    assert "smoothing must be at least 0 and below 1, got 1" in capsys.readouterr().err
