"""``examples/classify_csv.py`` trains, and stays short."""

import itertools
import runpy
from pathlib import Path

import torch

SCRIPT = Path(__file__).parents[2] / "examples" / "classify_csv.py"


def test_it_learns_on_golden_and_ends_on_sim(tmp_path, monkeypatch, capsys):
    things, places = ("apple", "pear", "stone"), ("London", "Rome", "Lima")
    asked = [(f"what is a {thing}", "thing") for thing in things]
    asked += [(f"where in {place} can I find it", "place") for place in places]
    asked += [(f"is {place} near {other}", "place") for place, other in itertools.permutations(places, 2)]
    (tmp_path / "questions.csv").write_text("".join(f"{text},{label}\n" for text, label in asked))
    monkeypatch.setattr("sys.argv", [str(SCRIPT), str(tmp_path / "questions.csv")])
    torch.manual_seed(0)
    runpy.run_path(str(SCRIPT))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["golden"] * 30 + ["sim"] * 2
    assert lines[-1].endswith("accuracy 1.00"), lines[-1]


def test_it_has_at_most_thirty_lines():
    assert sum(bool(line.strip()) for line in SCRIPT.read_text().splitlines()) <= 30
