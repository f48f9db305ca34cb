"""``eta-lstm research profile latency`` without PyTorch; with it, see tests/compress."""

import importlib.util
import json

import pytest

from etalstm.cli.main import run
from etalstm.cli.research import profile as latency
from etalstm.model.measured import measure
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape
from etalstm.research.profile import load
from etalstm_hw.config import preset

SMALL = [
    "research",
    "profile",
    "latency",
    "--preset",
    "test",
    "--batch",
    "3",
    "--steps",
    "3",
    "--from",
    "5",
    "--to",
    "9",
]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    monkeypatch.setattr(latency, "count_processors", lambda: 1)


def test_latencies_are_those_of_the_cycle_model(tmp_path, capsys):
    path = tmp_path / "p.json"
    assert run([*SMALL, "--input", "4", "--tolerance", "0", "--out", str(path), "--json"]) == 0
    shown, found = json.loads(capsys.readouterr().out), load(path)
    config = preset("test")
    for size, cycles in found.latencies.items():
        assert cycles == measure(NetworkShape(4, size), 3, 3, config, Execution())["cycles"], size
    assert list(found.latencies) == [5, 6, 7, 8, 9] and tuple(shown["points"]) == found.points
    found.check_for("test", config)


def test_the_verilog_takes_the_cycles_of_the_profile(capsys):
    assert run([*SMALL, "--check", "2", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)["checked"]
    assert [one["size"] for one in checked] == [5, 9]
    assert all(one["cycles"] == one["verilog"] > 0 for one in checked)


def test_a_difference_from_the_verilog_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(latency, "compare", lambda configuration, log: {"cycles": 7})
    assert run([*SMALL, "--check", "1"]) == 1
    assert "Verilog 7: DIFFERENT by " in capsys.readouterr().out


def test_inputs_are_swept_too(capsys):
    assert run([*SMALL, "--dimension", "input", "--hidden", "6", "--tolerance", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["latencies"]["7"] == measure(NetworkShape(7, 6), 3, 3, preset("test"), Execution())["cycles"]
    assert (found["dimension"], found["hidden"], found["inputs"]) == ("input", 6, None)


def test_sizes_that_the_machine_cannot_hold_are_no_points(capsys):
    sizes = ["--from", "500", "--to", "512", "--by", "12", "--batch", "16", "--storage", "ms1-bf16"]
    assert run([*SMALL, *sizes]) == 2
    assert "preset test holds none of the sizes from 500 to 512" in capsys.readouterr().err


def test_a_table_names_the_points_and_the_share_that_never_pays(capsys):
    assert run([*SMALL, "--tolerance", "0.1"]) == 0
    shown = capsys.readouterr().out
    assert "test, lstm, hidden, B 3, T 3" in shown
    assert "sizes are hysteresis points at tolerance 0.1" in shown and "never pay; at tolerance 0:" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dimension", "depth"], "dimension must be one of hidden, input, got 'depth'"),
        (["--check", "6"], "check must be 0 to 5, the sizes of the sweep, got 6"),
        (["--dimension", "input", "--input", "3"], "--input is what --dimension input sweeps"),
        (["--hidden", "3"], "--hidden is only used with --dimension input"),
        (["--host"], "--preset is not used with --host"),
        (["--runs", "3"], "--runs is only used with --host"),
        (["--forward", "--check", "1"], "--check is not used with --forward"),
        (["--from", "0"], "from must be at least 1, got 0"),
        (["--batch", "0"], "batch must be above 0, got 0"),
        (["--tolerance", "-1"], "tolerance must be at least 0 and finite, got -1.0"),
        (["--input", "0"], "input_size must be above 0, got 0"),
        (["--storage", "all"], "storage must be one of dense, ms1, ms1-bf16, got 'all'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, message, capsys):
    assert run([*SMALL, *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "words", [["research", "profile", "latency", "--host"], ["research", "compress", "--out", "x"]]
)
def test_without_pytorch_the_extra_is_named(words, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(words) == 2
    assert "PyTorch is not installed; install the extra: pip install 'etalstm[torch]'" in capsys.readouterr().err


def test_profiles_are_drawn_beside_each_other(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra study")
    path, picture = tmp_path / "p.json", tmp_path / "p.svg"
    assert run([*SMALL, "--out", str(path)]) == 0
    assert run(["research", "profile", "draw", str(path), str(path), "--out", str(picture)]) == 0
    assert picture.read_bytes().count(b"<!-- hysteresis points -->") == 1, "a legend in the first panel"
    assert run(["research", "profile", "draw", str(path), "--out", str(tmp_path / "p.xyz")]) == 2
    assert "xyz" in capsys.readouterr().err and not (tmp_path / "p.xyz").exists()


def test_a_profile_without_sizes_that_fit_is_not_drawn(tmp_path, capsys):
    path = tmp_path / "p.json"
    assert run([*SMALL, "--out", str(path)]) == 0
    table = json.loads(path.read_text())
    path.write_text(json.dumps(table | {"latencies": dict.fromkeys(table["latencies"])}))
    assert run(["research", "profile", "draw", str(path), "--out", str(tmp_path / "p.svg")]) == 2
    assert "holds none of the sizes, so there is nothing to draw" in capsys.readouterr().err
