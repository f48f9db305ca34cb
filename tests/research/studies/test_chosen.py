"""Of each study the strongest reduction is taken that costs nothing."""

import json

import pytest

from etalstm.cli.main import run
from etalstm.errors import RunError
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.several import choose, choose_all
from etalstm.research.studies.subject import SCORES

SETTINGS = {"dataset": "trec", "task": None, "hidden": 8}


def write(folder, runs, settings=SETTINGS):
    """Write a study of runs: (text, validation, footprint, products), each with two seeds."""
    folder.mkdir(parents=True)
    written = []
    for text, validation, footprint, products in runs:
        reduction = vars(Reduction.of(text))
        cost = {
            "footprint": footprint,
            "multiplications": products,
            "backward_multiplications": products,
            "delta_density": 0.5,
        }
        cost |= {"real_footprint": footprint, "cells_skipped": 0.25, "saved": {"footprint": footprint}}
        for seed in range(2):
            written.append(reduction | {"seed": seed, "score": 0.5 + 0.1 * seed, "validation": validation} | cost)
            written[-1]["densities"] = dict.fromkeys("ifgosr", 0.5)
    (folder / "density.json").write_text(json.dumps({"settings": settings, "runs": written}))
    (folder / "density.md").write_text("# A study\n\n    eta-lstm research study density --out DIR\n\nand a table\n")


RUNS = [
    ("dense", 0.8, 1.0, 1.0),
    ("ms1-bf16:0.1", 0.8, 0.4, 0.6),
    ("ms1-bf16:0.2", 0.796, 0.2, 0.5),
    ("ms1-bf16:0.4", 0.794, 0.1, 0.2),
    ("ms1-bf16:0.1:0.5", 0.7, 0.2, 0.4),
    ("ms1-bf16:0.1:0.3", 0.75, 0.3, 0.5),
    ("ms1-bf16:0.1::0.2:0.1", 0.81, 0.4, 0.3),
    ("ms1-bf16:0.1::0.2:0.1:bf16", 0.81, 0.1, 0.1),
]


def test_the_cheapest_run_within_the_tolerance_is_chosen_by_the_validation_score(tmp_path):
    write(tmp_path / "trec", RUNS)
    chosen = choose(tmp_path / "trec", "studies/trec")
    assert chosen["study"] == "studies/trec/density.json" and chosen["command"].endswith("--out DIR")
    assert chosen["ms1"]["run"] == "ms1-bf16:0.2", "0.4 points worse are nothing, 0.6 are too much"
    assert chosen["eta"]["run"] == "ms1-bf16:0.1::0.2:0.1" and chosen["eta"]["inputs"] == 0.3
    assert chosen["dense"]["seeds"] == [0, 1] and chosen["dense"]["score"] == 0.55
    assert chosen["tolerance"] == "0.5 points"


def test_where_none_is_within_the_tolerance_none_is_taken(tmp_path):
    write(tmp_path / "trec", RUNS)
    assert choose(tmp_path / "trec", "trec")["ms2"] is None


def test_a_run_with_skipped_cells_says_how_many(tmp_path):
    write(tmp_path / "trec", [*RUNS, ("ms1-bf16:0.1:0.2", 0.8, 0.35, 0.5)])
    ms2 = choose(tmp_path / "trec", "trec")["ms2"]
    assert (ms2["run"], ms2["cells_skipped"]) == ("ms1-bf16:0.1:0.2", 0.25)


def test_a_use_without_a_run_has_none(tmp_path):
    write(tmp_path / "trec", RUNS[:2])
    assert choose(tmp_path / "trec", "trec")["ms2"] is None


@pytest.mark.parametrize(
    ("name", "score", "dense", "loss"),
    [("accuracy", 0.86, 0.87, 0.01), ("perplexity", 102.0, 100.0, 0.02), ("ade", 0.99, 1.0, -0.01),
     ("bleu", 30.0, 30.5, 0.5)],
)  # fmt: skip
def test_how_much_worse_a_score_is(name, score, dense, loss):
    assert SCORES[name].loss(score, dense) == pytest.approx(loss)


def test_a_study_without_dense_runs_or_validation_scores_is_refused(tmp_path):
    write(tmp_path / "a", RUNS[1:])
    write(tmp_path / "b", [*RUNS[:1], ("ms1-bf16:0.1", None, 0.4, 0.6)])
    for name in "ab":
        with pytest.raises(RunError, match=f"{name}: a study to choose from has dense runs, and validation"):
            choose(tmp_path / name, name)


def test_the_command_writes_what_the_comparison_reads(tmp_path, capsys):
    write(tmp_path / "trec", RUNS)
    write(
        tmp_path / "multi30k",
        [("dense", 20.0, 1.0, 1.0), ("ms1-bf16:0.1", 19.9, 0.4, 0.6)],
        {"source": "de", "hidden": 4},
    )
    assert run(["research", "study", "choose", "--studies", str(tmp_path), "--out", str(tmp_path / "found.json")]) == 0
    found = json.loads((tmp_path / "found.json").read_text())
    assert found == choose_all(tmp_path, tmp_path.as_posix())
    assert found["benchmarks"] == {"trec10": "trec", "wmt": "multi30k"} and found["assumed"] == "trec"
    assert found["sets"]["multi30k"]["score"] == "test BLEU"
    printed = capsys.readouterr().out
    assert "trec, ms1: ms1-bf16:0.2, seeds: 2, 0.55\n" in printed and "trec, ms2: none\n" in printed
    with pytest.raises(RunError, match="there must be a study trec"):
        choose_all(tmp_path / "nothing", "nothing")
