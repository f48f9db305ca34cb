"""A study trains what it lacks, averages, and writes a page that can be read without it."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest

from etalstm.cli.main import run
from etalstm.errors import RunError
from etalstm.host.drawing import can_draw
from etalstm.research.studies.figures import GROUPS, front, group_of, standard_errors
from etalstm.research.studies.page import markdown
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.study import read_study, result_of, summarise
from etalstm.research.studies.subject import Network, others_of, score_name, score_of
from etalstm.train.metrics import SHARES, shares
from etalstm.train.settings import Settings

ROOT = Path(__file__).parents[3]


def arguments(out, *more):
    return ["research", "study", "density", "--dataset", "digits", "--hidden", "4", "--iterations", "3",
            "--epochs", "1", "--seeds", "2", "--runs", "dense,ms1-bf16:0.1:0.05", "--out", str(out), *more]  # fmt: skip


def test_a_study_writes_table_numbers_and_figure_and_is_not_done_twice(tmp_path, capsys, monkeypatch):
    assert run(arguments(tmp_path)) == 0
    runs = json.loads((tmp_path / "density.json").read_text())["runs"]
    assert [(r["storage"], r["seed"]) for r in runs] == [("dense", 0), ("ms1-bf16", 0), ("dense", 1), ("ms1-bf16", 1)]
    page = (tmp_path / "density.md").read_text()
    assert "| dense | 0, 1 |" in page and "| ms1-bf16, θ 0.1, τ 0.05 | 0, 1 |" in page and str(tmp_path) not in page
    assert "--seeds 2 --runs dense:0,ms1-bf16:0.1:0.05" in page
    assert (tmp_path / "density.svg").exists() == can_draw() == ("](density.svg)" in page)
    told = capsys.readouterr().err
    assert "seed 1" in told and told.count("no cell skipped") == 2, "the first epochs are full ones"
    monkeypatch.setattr(Network, "train", lambda *_: pytest.fail("trained again"))
    assert run(arguments(tmp_path)) == 0
    assert run(arguments(tmp_path, "--batch", "16")) == 2
    assert "other settings" in capsys.readouterr().err


def test_a_rule_whose_text_has_changed_is_not_taken_for_the_old_one(tmp_path, capsys, monkeypatch):
    rule = """
from etalstm.train.rules import PruningRule, Thresholds

class Half(PruningRule):
    def thresholds(self):
        return Thresholds(theta={})
    def take(self, seen): ...
"""
    (tmp_path / "half_rules.py").write_text(rule.format(0.5))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["", *sys.path])
    given = ["--runs", "ms1:rule=half_rules.Half", "--seeds", "1"]
    assert run(arguments(tmp_path / "study", *given)) == 0
    assert run(arguments(tmp_path / "study", *given)) == 0
    assert "1 of 1 runs are taken from" in capsys.readouterr().err
    (tmp_path / "half_rules.py").write_text(rule.format(0.25))
    assert run(arguments(tmp_path / "study", *given)) == 2
    assert "holds runs of rule half_rules.Half as it was;" in capsys.readouterr().err


def test_rows_are_means_over_seeds():
    shares = dict.fromkeys(SHARES, 0.5) | {
        "real_footprint": 0.5,
        "cells_skipped": 0.0,
        "densities": dict.fromkeys("ifgosr", 0.25),
    }
    runs = [
        {"storage": "ms1", "theta": 0.1, "ms2": None, "seed": n, "score": n / 2, "saved": {"footprint": 0.5}} | shares
        for n in range(2)
    ]
    (row,) = summarise({"runs": runs})
    assert row["score"] == 0.25 and row["deviation"] == pytest.approx(0.5**1.5) and row["seeds"] == 2
    assert row["validation"] is None, "these were made before it was noted"
    (row,) = summarise({"runs": [run | {"validation": run["seed"] / 4} for run in runs]})
    assert row["validation"] == 0.125
    assert row["input_density"] == pytest.approx(0.5), "it follows from shares that older studies have, too"
    assert row["name"] == "ms1, θ 0.1" and row["densities"]["s"] == 0.25


def test_a_run_notes_its_score_on_both_splits():
    entries = Network().train(Settings("digits", hidden=4, batch=400, epochs=2))
    accuracy = {entry["kind"]: entry["accuracy"] for entry in entries}
    result = result_of(entries)
    assert (result["validation"], result["score"]) == (accuracy["epoch"], accuracy["test"])
    assert result["saved"] == entries[-1]["saved"]
    cut_short = Network().train(Settings("digits", hidden=4, epochs=1, iterations=1))
    assert result_of(cut_short)["validation"] is None


def test_a_run_on_a_device_that_does_not_count_has_no_result():
    iteration, test = {"kind": "iteration", "epoch": 1}, {"kind": "test", "accuracy": 0.5}
    with pytest.raises(RunError, match="this device does not count it"):
        result_of([iteration, test])


def test_paths_are_scored_by_both_displacement_errors():
    entry = {"loss": 1.0, "rmse": 1.0, "ade": 0.5, "fde": 0.75}
    assert score_of(entry) == entry[score_name({"dataset": "ethucy"})] == 0.5
    assert others_of(entry) == {"fde": 0.75, "rmse": 1.0}
    assert score_of({"loss": 1.0}) is None and score_name({"dataset": None, "task": "tag"}) == "accuracy"


def test_the_share_that_is_sent_is_that_of_the_last_epoch():
    chosen = {"storage": "ms1", "theta": 0.1, "input_threshold": "0.2"}
    entries = Network().train(Settings("digits", hidden=4, batch=400, epochs=2, **chosen))
    (row,) = summarise({"runs": [chosen | {"ms2": None, "seed": 0} | result_of(entries)]})
    sent = [entry["input_density"] for entry in entries if entry["kind"] == "iteration" and entry["epoch"] == 2]
    assert row["input_density"] == pytest.approx(sum(sent) / len(sent)) and 0.1 < row["input_density"] < 0.8
    assert row["name"] == "ms1, θ 0.1, Θ 0.2"


def test_runs_have_one_threshold_or_six_and_are_known_again_from_a_file():
    text = "dense:0,ms1:0.1,0.1,0.1,0.1,0.3,0.5:0.05,ms1-bf16:0.2,ms1:0.1::0.12,ms1:0:0.5:0.2,"
    text += "dense:0:::0.1,0.2/0.3,ms1:0::::bf16"
    found = Reduction.of_several(text)
    assert [run.storage for run in found] == ["dense", "ms1", "ms1-bf16", "ms1", "ms1", "dense", "ms1"]
    assert (found[3].ms2, found[3].delta_target) == (None, 0.12)
    assert [str(run) for run in found[2:]] == [
        "ms1-bf16, θ 0.2",
        "ms1, θ 0.1, δ 0.12",
        "ms1, τ 0.5, δ 0.2",
        "dense, Θ 0.1 0.2/0.3",
        "ms1, bf16 weights",
    ]
    assert Reduction.of("dense::::0.10") == Reduction.of("dense:0:::0.1"), "texts of one Θ are one kind of run"
    assert found[1].theta == (0.1, 0.1, 0.1, 0.1, 0.3, 0.5) and found[1].ms2 == 0.05
    assert ",".join(run.text for run in found) == text and str(found[1]) == "ms1, θ 0.1 0.1 0.1 0.1 0.3 0.5, τ 0.05"
    stored = [json.loads(json.dumps(dataclasses.asdict(run))) for run in found]
    assert list(map(Reduction.of_run, stored)) == found
    for entry in stored[:3]:
        del entry["delta_target"], entry["input_threshold"], entry["weight_format"]
    assert list(map(Reduction.of_run, stored)) == found, "older studies lack them"


def test_runs_name_settings_of_ms2_behind_the_others():
    text = "dense:0:0.5:ms2_without=compensation+loss,ms1:0.1::0.2:ms2_steps=4:ms2_full_epochs=0,dense:0,"
    text += "ms1:0:rule=my_rules.Falling"
    found = Reduction.of_several(text)
    assert [str(run) for run in found] == [
        "dense, τ 0.5, without compensation loss",
        "ms1, θ 0.1, last 4 steps, 0 full epochs, δ 0.2",
        "dense",
        "ms1, rule my_rules.Falling",
    ]
    assert found[0].ms2_without == "compensation,loss" and (found[1].ms2_steps, found[1].ms2_full_epochs) == (4, 0)
    assert ",".join(run.text for run in found) == text
    assert list(map(Reduction.of_run, map(dataclasses.asdict, found))) == found


@pytest.mark.parametrize("text", ["dense:0:ms2=1", "dense:ms2_steps=some", "dense:ms2_steps=2:0.5", "dense:ms2_steps"])
def test_refuses_what_is_no_setting_of_ms2(text):
    with pytest.raises(
        ValueError, match="then ms2_steps=, ms2_full_epochs=, ms2_without=, rule=, arithmetic=, delta_bits=, got"
    ):
        Reduction.of(text)


def test_a_page_shows_the_command_with_everything_that_was_chosen(tmp_path, monkeypatch):
    assert run(arguments(tmp_path, "--decay", "0.5", "--optimizer", "adam", "--evaluation-batches", "2")) == 0
    command = next(line for line in (tmp_path / "density.md").read_text().splitlines() if "eta-lstm" in line)
    assert (
        "--decay 0.5" in command
        and "--optimizer adam" in command
        and "--iterations 3" in command
        and "--momentum" not in command
    )
    monkeypatch.setattr(Network, "train", lambda *_: pytest.fail("the command shown is of another study"))
    assert run([*command.split()[1:-1], str(tmp_path)]) == 0


def test_a_page_names_seeds_and_commits():
    costs = dict.fromkeys(SHARES, 0.5) | {"real_footprint": 0.5, "cells_skipped": 0.0, "saved": {"footprint": 0.5}}
    costs |= {"densities": dict.fromkeys("ifgosr", 0.25), "storage": "dense", "theta": 0.0, "ms2": None}
    settings = dataclasses.asdict(Settings("digits"))

    def page(*runs):
        trained = [{"seed": seed, "commit": code, "score": 0.5} | costs for seed, code in runs]
        return markdown(Network(), {"settings": settings, "runs": trained}, 5)

    found = page((0, "abc"), (1, "abc"), (2, "def+"), (4, None))
    assert "| dense | 0 to 2, 4 |" in found
    assert " ".join(found.split()).endswith("came with: abc, seeds 0, 1; def+, seeds 2. Runs without a commit: 1.")
    assert page((3, None)).endswith("\n\nRuns without a commit: 1.\n")


def test_a_page_gives_a_deviation_where_there_are_several_seeds(tmp_path):
    for seeds in (1, 2):
        assert run(arguments(tmp_path, "--seeds", str(seeds))) == 0
        row = next(line for line in (tmp_path / "density.md").read_text().splitlines() if line.startswith("| dense"))
        assert ("±" in row.split("|")[3]) == (seeds > 1)


def test_a_study_made_before_a_setting_existed_is_gone_on_with(tmp_path, monkeypatch):
    assert run(arguments(tmp_path)) == 0
    made = json.loads((tmp_path / "density.json").read_text())
    del made["settings"]["decay"]
    (tmp_path / "density.json").write_text(json.dumps(made))
    monkeypatch.setattr(Network, "train", lambda *_: pytest.fail("trained again"))
    assert run(arguments(tmp_path)) == 0
    assert run(arguments(tmp_path, "--decay", "0.5")) == 2


@pytest.mark.parametrize("text", ["ms1:x", "ms1:0.1,0.2", "ms1:0.1::x", "ms1:0:::x", "ms1:0:::0::0"])
def test_runs_that_cannot_be_read_are_refused(text):
    with pytest.raises(ValueError, match="policy:theta:tau"):
        Reduction.of(text)


@pytest.mark.parametrize(
    ("task", "score"),
    [("classify", "accuracy %"), ("language", "perplexity"), ("regress", "root of the mean squared error")],
)
def test_a_study_of_a_file_of_ones_own(tmp_path, capsys, task, score):
    own = tmp_path / "own.tsv"
    labels = ("0.5", "2") if task == "regress" else ("p", "n")
    own.write_text("label\ttext\n" + "".join(f"{labels[n % 2]}\t{['good', 'bad'][n % 2]} film\n" for n in range(200)))
    sizes = "--hidden", 4, "--embedding", 4, "--epochs", 1, "--batch", 4, "--seeds", 1, "--steps", 2
    arguments = [
        "research",
        "study",
        "density",
        "--task",
        task,
        "--data",
        own,
        *sizes,
        "--runs",
        "dense",
        "--out",
        tmp_path / "out",
    ]
    for _ in range(2):  # the second time nothing is trained
        assert run(list(map(str, arguments))) == 0
    page = (tmp_path / "out" / "density.md").read_text()
    assert f"--task {task} " in page and " --data FILE " in page and f"| {score} |" in page
    assert capsys.readouterr().err.count("seed 0") == 1


@pytest.mark.parametrize(
    ("more", "message"),
    [(["--runs", "ms9:0.1"], "storage must be one of"), (["--runs", "ms1:-1"], "theta"),
     (["--runs", "ms1:0.1:2"], "ms2 must be"), (["--runs", "ms1:0.1::1"], "delta_target must be"),
     (["--runs", "dense:0:::-1"], "input_threshold must be"),
     (["--runs", "dense:0::::bf8"], "weight_format must be one of float32, bf16"),
     (["--runs", "dense:0:::0.1,0.1"], "one for each of 1 layers"),
     (["--task", "regress"], "is for a file of one's own"),
     (["--seeds", "0"], "seeds must be above 0")],
)  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, more, message):
    assert run(arguments(tmp_path, *more)) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error


def test_shares_weigh_short_batches_by_what_is_real_in_them():
    entry = {
        "multiplications": 1.0,
        "backward_multiplications": 1.0,
        "delta_density": 1.0,
        "cells_skipped": 1,
        "cells": 4,
    }
    entries = [entry | {"footprint": 0.5, "real_footprint": 0.5}, entry | {"footprint": 0.1, "real_footprint": 1.0}]
    found = shares([*entries, entry | {"footprint": 0.0, "real_footprint": 0.0}])
    assert found["footprint"] == pytest.approx(0.2) and found["cells_skipped"] == 0.25
    assert found["real_footprint"] == pytest.approx(0.6 / 1.1)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs" / "density").glob("*/density.json")), ids=lambda p: p.parent.name
)
def test_the_studies_in_the_documentation_are_read(path):
    assert read_study(path)["runs"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda study: study.pop("runs"), "runs is missing"),
        (lambda study: study.pop("settings"), "settings is missing"),
        (lambda study: study["runs"][0].pop("score"), "runs.0.score is missing"),
        (lambda study: study["runs"][0].update(score="0.9"), "runs.0.score: .*number, got '0.9'"),
        (lambda study: study["runs"][0].update(score=float("nan")), "runs.0.score: .*finite"),
        (lambda study: study["runs"][0].update(seed=-1), "runs.0.seed: .*got -1"),
        (lambda study: study["runs"][0].update(saved=[1]), "runs.0.saved: .*dictionary, got "),
        (lambda study: study["runs"][0].update(luck=1), "runs.0.luck is unknown here"),
    ],
)
def test_a_study_that_is_none_is_refused_by_file_and_field(tmp_path, change, message):
    study = read_study(next((ROOT / "docs" / "density").glob("*/density.json")))
    change(study)
    (tmp_path / "density.json").write_text(json.dumps(study))
    with pytest.raises(RunError, match=rf"density\.json: {message}"):
        read_study(tmp_path / "density.json")


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff", b"[1]"])
def test_what_is_no_object_is_refused(tmp_path, content):
    (tmp_path / "density.json").write_bytes(content)
    with pytest.raises(RunError, match=r"density\.json: (no JSON|all of it)"):
        read_study(tmp_path / "density.json")


def test_a_figure_shows_how_sure_a_difference_from_dense_is():
    def runs(storage, scores):
        return [{"storage": storage, "theta": 0.0, "ms2": None, "seed": n, "score": x} for n, x in enumerate(scores)]

    study = {"runs": [*runs("dense", [1.0, 3.0]), *runs("ms1", [2.0, 4.0, 9.0]), *runs("ms1-bf16", [5.0])]}
    dense, paired, single = standard_errors(study)
    assert dense == pytest.approx(1.0) and single is None
    assert paired == 0.0, "both pairs differ by 1, and the third run has no dense one beside it"
    assert standard_errors({"runs": runs("ms1", [1.0, 3.0])}) == [pytest.approx(1.0)]


def test_the_front_has_what_nothing_of_less_cost_surpasses():
    points = [(1.0, 5.0), (0.2, 3.0), (0.5, 2.0), (0.5, 4.0), (0.2, 1.0)]
    assert front(points, lower=False) == [(0.2, 3.0), (0.5, 4.0), (1.0, 5.0)]
    assert front(points, lower=True) == [(0.2, 1.0)]


def test_runs_are_drawn_in_groups_by_what_they_reduce():
    texts = {
        "dense": "dense",
        "dense:0:::::ms2_full_epochs=0": "dense",
        "dense::::0.1": "delta inputs",
        "dense:0:0.5": "MS2",
        "ms1:0.1:ms2_steps=4": "MS1, MS2",
        "ms1-bf16:0.1": "MS1",
        "ms1-bf16:0.1:0.5:0.2": "δ pruned",
        "ms1-bf16:0.1::0.2:0.1:bf16": "δ pruned, delta inputs",
    }
    assert {text: group_of(Reduction.of(text)) for text in texts} == texts
    assert set(texts.values()) == set(GROUPS)


def test_a_figure_is_drawn_anew_from_its_file_alone_and_names_the_runs_on_the_front(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    source = ROOT / "docs" / "density" / "trec"
    (tmp_path / "density.json").write_bytes((source / "density.json").read_bytes())
    drawn = []
    for _ in range(2):
        assert run(["research", "study", "draw", str(tmp_path)]) == 0
        drawn.append((tmp_path / "density.svg").read_text(encoding="utf-8"))
    assert capsys.readouterr().out.split() == [str(tmp_path / "density.svg")] * 2
    assert drawn[0] == drawn[1]
    for text in ("Pareto front", "mean of dense runs", "δ pruned, delta inputs", "ms1-bf16, θ 0.1, τ 0.8"):
        assert f"<!-- {text} -->" in drawn[0], text
    assert "ms1-bf16, θ 0.3" not in drawn[0], "is not on a front, so a group's colour is enough"


def test_a_folder_without_a_study_is_not_drawn(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    assert run(["research", "study", "draw", str(tmp_path)]) == 2
    assert "density.json: there is no such file" in capsys.readouterr().err
