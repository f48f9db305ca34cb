"""``examples/classify_csv.py`` trains, exports, and stays short."""

import itertools
import subprocess
import sys
from pathlib import Path

from tests.extras import hide_all_but

SCRIPT = Path(__file__).parents[2] / "examples" / "classify_csv.py"
SEEDED = "import runpy, sys, torch; torch.manual_seed(0); del sys.argv[0]; runpy.run_path(sys.argv[0])"


def test_with_its_extra_alone_it_learns_on_golden_ends_on_sim_and_answers_alike(tmp_path, monkeypatch):
    things, places = ("apple", "pear", "stone"), ("London", "Rome", "Lima")
    asked = [(f"what is a {thing}", "thing") for thing in things]
    asked += [(f"where in {place} can I find it", "place") for place in places]
    asked += [(f"is {place} near {other}", "place") for place, other in itertools.permutations(places, 2)]
    (tmp_path / "questions.csv").write_text("".join(f"{text},{label}\n" for text, label in asked))
    monkeypatch.setenv("PYTHONPATH", hide_all_but({"examples"}, tmp_path / "hidden"))
    command = [sys.executable, "-c", SEEDED, str(SCRIPT), "questions.csv"]
    lines = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, text=True).stdout.splitlines()
    *losses, last = lines
    assert [line.split(":")[0] for line in losses] == ["golden"] * 30 + ["sim"] * 2
    assert last.startswith("onnxruntime: accuracy 1.00, logits "), last
    assert float(last.split("logits ")[1].split()[0]) < 1e-5, last


def test_it_has_at_most_thirty_lines():
    assert sum(bool(line.strip()) for line in SCRIPT.read_text().splitlines()) <= 30
