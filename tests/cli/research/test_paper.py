"""``eta-lstm research paper``: what it asks the cycle model, and what it refuses."""

import importlib
import importlib.util
import json
from pathlib import Path

import pytest

from etalstm.cli.application import BAD_INPUT
from etalstm.cli.main import run
from etalstm.cli.research.paper import answer
from etalstm.errors import RunError
from etalstm.network.architecture import ARCHITECTURES
from etalstm.network.execution import Execution
from etalstm.research.paper.densities import sources
from etalstm.research.paper.requests import Request, Runs
from etalstm.research.paper.study import as_dict, read_study
from etalstm_hw.config import preset
from tests.research.paper.compared import measure

ROOT = Path(__file__).parents[3]
DYNAMIC = Execution(architecture=ARCHITECTURES["dynamic"])
SMALL = Request(8, 1, 4, 2, DYNAMIC)


def test_an_answer_has_what_energy_and_footprint_are_made_of():
    config = preset("test")
    found = answer(SMALL, config)
    macs = 3 * (4 * 8) * (8 + 8) * 4 * 2
    assert found["fits"] and found["operations"]["mac"] >= macs
    assert found["operations"]["mac"] % config.lanes == 0
    assert found["operations"]["activation"] > 0 and found["footprint"]["weights"] > 0


def test_a_network_that_does_not_fit_is_modelled_with_more_memory():
    small = preset("test").__class__(**(preset("test").as_dict() | {"address_bits": 20}))
    large = Request(70, 1, 4, 40, DYNAMIC)
    assert answer(SMALL, small)["fits"]
    assert not answer(large, small)["fits"]


def test_what_was_answered_is_not_asked_again(tmp_path):
    asked, path = [], tmp_path / "runs.json"

    def measure(request):
        asked.append(request)
        return {"cycles": request.steps}

    others = [Request(8, 1, 4, steps, DYNAMIC) for steps in (2, 3)]
    first = Runs(path, "machine")
    first.complete([SMALL], measure, 1, lambda request, found: None)
    again = Runs(path, "machine")
    again.complete([*others, *others], measure, 1, lambda request, found: None)
    assert asked == others  # the first of them is SMALL
    assert again(others[1]) == {"cycles": 3}
    another = Runs(path, "another machine")
    another.complete([SMALL], measure, 1, lambda request, found: None)
    assert asked == [*others, SMALL]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"digest": 1, "runs": {}}', '{"digest": "", "runs": {"a": 5}}'])
def test_refuses_a_file_that_is_none_of_its_own(text, tmp_path):
    (tmp_path / "runs.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=r"runs\.json must be a file of eta-lstm research paper"):
        Runs(tmp_path / "runs.json", "machine")


def test_bad_input_is_one_line(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    (tmp_path / "runs.json").write_text("[]", encoding="utf-8")
    assert run(["research", "paper", "--out", str(tmp_path), "--quick"]) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "runs.json must be a file of eta-lstm research paper" in error
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["research", "paper", "--out", str(tmp_path)]) == BAD_INPUT
    assert capsys.readouterr().err == "eta-lstm: drawing needs matplotlib: pip install 'etalstm[study]'\n"


def test_the_file_holds_every_answer_as_soon_as_it_is_there(tmp_path):
    path, seen = tmp_path / "runs.json", []

    def report(request, found):
        seen.append(len(json.loads(path.read_text(encoding="utf-8"))["runs"]))

    requests = [Request(8, 1, 4, steps, DYNAMIC) for steps in (2, 3, 4)]
    Runs(path, "machine").complete(requests, lambda request: {"cycles": 1}, 1, report)
    assert seen == [1, 2, 3]


def test_the_command_writes_its_files_and_asks_the_model_once(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    command, asked = importlib.import_module("etalstm.cli.research.paper"), []

    def made_up(request, config):
        asked.append(request)
        return measure(request)

    monkeypatch.setattr(command, "answer", made_up)
    monkeypatch.setattr(command, "count_processors", lambda: 1)
    written = []
    for _ in range(2):
        assert run(["research", "paper", "--out", str(tmp_path), "--quick"]) == 0
        written.append([(tmp_path / f"paper.{kind}").read_bytes() for kind in ("json", "md", "html")])
    assert written[0] == written[1] and len(asked) == len(set(asked)) == 24 + 2 * 4
    assert capsys.readouterr().out.split() == [str(tmp_path / "paper.html")] * 2
    pictures = {path: path.read_bytes() for path in tmp_path.glob("*.svg")}
    assert len(pictures) == 9 and all(f"]({path.name})".encode() in written[0][1] for path in pictures)
    for path in (*tmp_path.glob("*.svg"), *(tmp_path / name for name in ("paper.md", "paper.html", "runs.json"))):
        path.unlink()
    assert run(["research", "paper", "--out", str(tmp_path), "--redraw"]) == 0
    assert [(tmp_path / f"paper.{kind}").read_bytes() for kind in ("json", "md", "html")] == written[0]
    assert {path: path.read_bytes() for path in tmp_path.glob("*.svg")} == pictures
    assert set(sources()["benchmarks"].values()) == json.loads(written[0][0])["densities"]["sets"].keys()
    assert b"eta-lstm research paper --out DIR --quick" in written[0][1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda known: known.pop("rows"), "must be a file of eta-lstm research paper"),
        (lambda known: known["rows"][0].update(milliseconds="soon"), "must be a file of eta-lstm research paper"),
        (lambda known: known["scaling"][0].pop("hidden"), "must be a file of eta-lstm research paper"),
        (lambda known: known["densities"].update(assumed="ptb"), "made with other densities than those"),
    ],
)
def test_a_comparison_that_cannot_be_redrawn_is_refused(tmp_path, change, message):
    path = tmp_path / "paper.json"
    with pytest.raises(RunError, match="there is no such comparison"):
        read_study(path)
    known = json.loads((ROOT / "docs/paper/paper.json").read_text(encoding="utf-8"))
    path.write_text(json.dumps(known), encoding="utf-8")
    assert as_dict(read_study(path)) == known
    change(known)
    path.write_text(json.dumps(known), encoding="utf-8")
    with pytest.raises(RunError, match=rf"paper\.json:? {message}"):
        read_study(path)
