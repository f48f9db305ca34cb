"""Runs of ``eta-lstm research compress`` beside each other."""

import json
import re

import pytest

from etalstm.cli.main import run
from etalstm.errors import RunError
from etalstm.host.drawing import can_draw
from etalstm.research.studies.shrinking import read_runs
from etalstm.research.studies.shrinking_page import kinds

COLOURS = "#0072b2", "#d55e00"
SETTINGS = {
    "task": "speech", "phases": ["prune-units", "prune-weights"], "seed": 0, "hidden": 8, "batch": 2, "tolerance": 1.0,
    "data": "/x/a", "profile": "p.json", "guided": "all", "cell": "lstm",
}  # fmt: skip
ROUNDS = (  # phase, decision, units, LSTM parameters, cycles, validation, test
    ("dense", "accepted", 8, 800, 900, 10.0, 12.0),
    ("prune-units", "accepted", 4, 200, 300, 10.5, 11.5),
    ("prune-units", "rejected", 2, 80, 150, 14.0, None),
)


@pytest.fixture
def write(tmp_path):
    """Give a function that writes a run as ``eta-lstm research compress`` leaves it, and gives its folder."""

    def write(name, rounds=ROUNDS, ended=True, **settings):
        folder = tmp_path / name
        folder.mkdir()
        table = SETTINGS | settings
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items() if value is not None]
        (folder / "settings.toml").write_text("\n".join(lines) + "\n")
        score = {"speech": "character_error_rate", "language": "perplexity"}.get(table["task"], "")
        entries = [
            {"kind": "epoch" if validation else "diverged", "iteration": number, "epoch": number, "phase": phase,
             "round": 0, "decision": decision, "inputs": 3, "units": [units], "lstm_parameters": parameters,
             "parameters": parameters + 9, "cycles": cycles}
            | ({} if validation is None else {"loss": validation, score: validation})
            | ({} if test is None else {f"test_{score}": test})
            for number, (phase, decision, units, parameters, cycles, validation, test) in enumerate(rounds)
        ]  # fmt: skip
        entries += [{"kind": "test", "iteration": 9, "epoch": 9, "loss": 9.0}] if ended else []
        (folder / "metrics.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
        return folder

    return write


def study(out, *folders):
    return run(["research", "study", "compress", *map(str, folders), "--out", str(out)])


def test_kinds_are_summed_up_over_their_seeds(write, tmp_path, capsys):
    better = [*ROUNDS, ("prune-weights", "accepted", 4, 100, 300, 9.0, 10.0)]
    runs = write("a"), write("b", better, seed=1, data="/b"), write("c", profile=None)
    assert study(tmp_path / "out", *runs) == 0
    page = (tmp_path / "out/shrinking.md").read_text()
    assert capsys.readouterr().out == page + "\n" and str(tmp_path) not in page
    assert "| guided all | 0, 1 | prune-units | 4.00 (4.00) | 3.00 (3.00) |  | +0.50 (+0.50) | -0.50 (-0.50) |" in page
    assert "| guided all | 0, 1 | prune-weights | 6.00 (4.00) | 3.00 (3.00) |  | -0.25 (+0.50) |" in page
    assert "| guided no | 0 | prune-units | 4.00 (4.00) |" in page
    left = "prune-units, prune-weights | 3 / 4 | 200 (4.00) | 209 | 10.50 | 11.50 | 300 (3.00) |  |"
    assert f"| guided all, 0 | {left}" in page, "a step that changed nothing left the network of the one before"
    assert (tmp_path / "out/shrinking.svg").exists() == can_draw() == ("](shrinking.svg)" in page)


def test_kinds_are_drawn_so_that_none_hides_another(write, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    assert study(tmp_path / "out", write("a"), write("b", profile=None), write("c", seed=1)) == 0
    picture = tmp_path / "out/shrinking.svg"
    drawn = picture.read_text()
    for text in ("guided all, mean of seeds", "guided no, mean of seeds", "seed 0", "seed 1", "rejected"):
        assert f"<!-- {text} -->" in drawn, text
    means = [style for style in re.findall(r'style="(.+?)"', drawn) if "stroke-width: 3.5" in style]
    assert [next(colour for colour in COLOURS if colour in style) for style in means[:2]] == list(COLOURS)
    assert ["dasharray" in style for style in means[:2]] == [False, True], "the first is seen between the dashes"
    picture.unlink()
    assert run(["research", "study", "draw", str(tmp_path / "out")]) == 0
    assert picture.read_text() == drawn


def test_kinds_differ_in_profiles_and_in_settings_that_one_has_alone(write):
    runs = [write("a"), write("b", profile="/x/q.json"), write("c", target=8.0, profile=None)]
    assert list(kinds(read_runs(runs))) == [
        "profile p.json, guided all, target None",
        "profile q.json, guided all, target None",
        "profile None, guided no, target 8.0",
    ]


def test_a_round_that_diverged_has_no_score(write):
    rounds = [*ROUNDS[:2], ("prune-units", "rejected", 2, 80, 150, None, None)]
    assert [one.validation for one in read_runs([write("a", rounds)])[0].networks] == [10.0, 10.5, None]


def test_perplexities_are_compared_as_shares(write, tmp_path, capsys):
    assert study(tmp_path / "out", write("a", task="language", tolerance=0.05)) == 0
    assert "| all | 0 | prune-units | 4.00 (4.00) | 3.00 (3.00) |  | +5.00 (+5.00) |" in capsys.readouterr().out


def test_the_file_of_a_study_stands_for_its_runs(write, tmp_path):
    assert study(tmp_path / "one", write("a")) == 0
    assert study(tmp_path / "two", tmp_path / "one/shrinking.json", write("b", seed=1)) == 0
    runs = read_runs([tmp_path / "two/shrinking.json"])
    assert [one.seed for one in runs] == [0, 1] and runs[0] == read_runs([tmp_path / "a"])[0]
    assert runs[0].settings["data"] == "a", "the name alone, not where it lay"


def test_what_does_not_fit_the_preset_has_no_cycles(write, tmp_path, capsys):
    assert study(tmp_path / "out", write("a", [("dense", "accepted", 8, 800, None, 10.0, 12.0), *ROUNDS[1:]])) == 0
    assert "| all | 0 | prune-units | 4.00 (4.00) |  |  | +0.50" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "run 2 has the settings and the seed, 0, of another run"),
        ({"task": "language"}, "runs must have one task, got speech and language"),
        ({"ended": False}, "the run has not ended; eta-lstm research compress --resume"),
        ({"task": "digits"}, "must be the settings of eta-lstm research compress, got the keys task, phases"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(settings, message, write):
    folders = [write("a"), write("b", **settings)]
    with pytest.raises(RunError, match=message):
        read_runs(folders)


def test_other_folders_and_files_are_refused(tmp_path):
    with pytest.raises(RunError, match=r"no run of eta-lstm research compress in it: no settings\.toml"):
        read_runs([tmp_path])
    path = tmp_path / "shrinking.json"
    for text, message in (
        ("{", "no JSON"),
        ("{}", "runs is missing"),
        ('{"runs": []}', "there are no runs in it"),
        ('{"runs": [{"settings": {"task": "speech"}, "networks": []}]}', "networks: List should have at least 1 item"),
    ):
        path.write_text(text)
        with pytest.raises(RunError, match=message):
            read_runs([path])
