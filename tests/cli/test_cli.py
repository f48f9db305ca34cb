"""The command line works, and refuses in one line."""

import importlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from fractions import Fraction

import pytest

from etalstm.cli.main import run
from etalstm.errors import ToolchainError
from etalstm_boards.integers import LANES, PES
from etalstm_boards.part import Resources
from etalstm_boards.resources.delays import Delay
from etalstm_boards.resources.depth import Path
from etalstm_boards.resources.limits import GOAL_LEVELS, MOST_LEVELS
from etalstm_boards.resources.report import Report, Row
from etalstm_boards.resources.step import Step


def test_train_writes_metrics_and_checkpoint(tmp_path, capsys):
    arguments = ["train", "--dataset", "digits", "--hidden", "4", "--iterations", "3", "--out", str(tmp_path / "o")]
    assert run(arguments) == 0
    assert len((tmp_path / "o" / "metrics.jsonl").read_text().splitlines()) == 4
    assert (tmp_path / "o" / "checkpoint.safetensors").exists()
    assert run([*arguments, "--resume"]) == 0
    shown = capsys.readouterr().err
    assert "accuracy" in shown and "against a dense run: intermediates 100.0%" in shown


def test_a_run_may_go_on_as_another_architecture_and_its_log_says_so(tmp_path):
    arguments = ["train", "--dataset", "digits", "--hidden", "4", "--out", str(tmp_path), "--architecture"]
    assert run([*arguments, "static", "--iterations", "2"]) == 0
    assert run([*arguments, "dynamic", "--iterations", "4", "--resume"]) == 0
    entries = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    chosen = [entry["architecture"] for entry in entries if entry["kind"] == "iteration"]
    assert chosen == ["static", "static", "dynamic", "dynamic"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--iterations", "0"], "iterations must be above 0, got 0"),
        (["--dataset", "mnist"], "unknown data set 'mnist'"),
        (["--device", "abacus"], "unknown device 'abacus'"),
        (["--preset", "huge"], "unknown preset 'huge'"),
        (["--hidden", "0"], "hidden must be above 0, got 0"),
        (["--hidden", "many"], "--hidden"),
        (["--lr", "nan"], "learning_rate must be"),
        (["--clip", "-1"], "clip must be"),
        (["--resume"], "no checkpoint"),
        (["--nonsense"], "--nonsense"),
        (["--theta", "-1"], "theta must be finite and at least 0, got -1"),
        (["--theta", "0.1,0.2"], "theta must be a number, or one for each of i, f, g, o, s, r"),
        (["--theta", "some"], "got 'some'"),
        (["--theta", "0,0,0,0,0,-1"], "theta must be finite and at least 0, got -1"),
        (["--decay", "1.5"], "decay must be above 0 and at most 1, got 1.5"),
        (["--ms2", "1"], "ms2 must be at least 0 and below 1, or off, got 1"),
        (["--ms2", "some"], "or off, got 'some'"),
        (["--ms2", "0.5", "--ms2-steps", "3"], "ms2_steps stands in the place of ms2: one must be off, got 3, 0.5"),
        (["--ms2-steps", "0"], "ms2_steps must be above 0, got 0"),
        (["--ms2", "0.5", "--ms2-full-epochs", "-1"], "ms2_full_epochs must be an integer of at least 0, got -1"),
        (["--ms2", "0.5", "--ms2-without", "luck"], "ms2_without must be of compensation, loss, guard"),
        (["--storage", "echo"], "storage must be one of dense, ms1, ms1-bf16, auto, auto-fastest, got 'echo'"),
        (["--architecture", "fast"], "unknown architecture 'fast', expected one of: swing, dynamic, static, inference"),
        (["--architecture", "inference", "--theta", "0.1"], "architecture inference keeps its intermediates dense"),
        (["--data", "/nowhere"], "takes no directory, got /nowhere"),
        (["--out", "/proc/none"], "/proc/none"),
        (["--lr", "1e38", "--clip", "0"], "diverged"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, capsys, arguments, message):
    standard = ["train", "--dataset", "digits", "--hidden", "4", "--iterations", "9", "--out", str(tmp_path)]
    assert run([*standard, *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and message in error and "Traceback" not in error


def test_the_log_of_a_failed_tool_keeps_its_lines(capsys, monkeypatch):
    def fail(*_, **__):
        raise ToolchainError("make failed with exit code 2", log="$ make\nfirst\n  second")

    monkeypatch.setattr("etalstm_hw.generate.write", fail)
    assert run(["hw", "verilog", "--preset", "test", "-o", "nowhere"]) == 2
    assert capsys.readouterr().err == "$ make\nfirst\n  second\neta-lstm: make failed with exit code 2\n"


def test_a_missing_option_or_command_is_one_line(capsys):
    for arguments in (["train"], ["fly"], ["bench", "fly"]):
        assert run(arguments) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_bench_golden_prints_one_object(capsys):
    sizes = ["--hidden", "8", "--layers", "1", "--batch", "2", "--steps", "3", "--runs", "1"]
    assert run(["bench", "golden", *sizes, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["seconds"] > 0 and result["gflops"] > 0 and "ratio" in result


def test_bench_golden_refuses_bad_sizes(capsys):
    assert run(["bench", "golden", "--steps", "0"]) == 2
    assert "steps must be above 0, got 0" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_process_with_a_checkpoint_and_its_exit_code(tmp_path, number):
    command = "from etalstm.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "train", "--dataset", "digits", "--epochs", "1000", "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "metrics.jsonl"
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.05)
    os.kill(process.pid, number)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number, error
    assert "interrupted after iteration" in error
    assert (tmp_path / "checkpoint.safetensors").exists()


def test_report_resources_prints_every_kind_and_what_it_can_say(monkeypatch, capsys):
    path = Path(Step(6_430, luts=11, chains=2), "a", "b of channel", 17)
    slower = Path(Step(7_100, luts=4, multipliers=2), "c", "d of channel", 3)
    each = Resources(lut=1_000, ff=2_000, dsp=64, bram=Fraction(17, 2), uram=16)
    top = Row("top", 1, Resources(lut=7), 7, None, None, {})
    rows = [Row("channel", 40, each, 1_200, path, slower, {"queue": "URAM"}), top]
    command = importlib.import_module("etalstm.cli.hw.resources")
    monkeypatch.setattr(command, "report", lambda verilog, top, progress: Report(rows))
    monkeypatch.setattr(command.designs, "machine", lambda config: "")
    assert run(["hw", "resources", "--preset", "test", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["used"] == {"lut": 40_007, "ff": 80_000, "dsp": 2_560, "bram": 340, "uram": 640}
    assert shown["share"]["uram"] == 640 / 960
    assert shown["unpaired_lut"] == 48_007
    assert shown["deepest"] == {
        "module": "channel", "levels": 13, "luts": 11, "carry_chains": 2, "multipliers": 0, "delay_ns": 6.43,
        "readers": 17, "from": "a", "to": "b of channel",
    }  # fmt: skip
    assert [(path["module"], path["delay_ns"], path["levels"]) for path in shown["slowest"]] == [("channel", 7.1, 10)]
    assert shown["levels"] == {"goal": GOAL_LEVELS, "allowed": MOST_LEVELS}
    assert shown["delays"]["lut"] == {"ps": Delay.LUT.ps, "source": Delay.LUT.source}
    assert [(module["name"], module["instances"]) for module in shown["modules"]] == [("channel", 40), ("top", 1)]
    assert set(shown) == {
        "preset",
        "part",
        "available",
        "used",
        "share",
        "unpaired_lut",
        "deepest",
        "slowest",
        "levels",
        "delays",
        "modules",
        "too_much",
        "caveats",
    }
    assert run(["hw", "resources", "--preset", "test"]) == 0
    table = capsys.readouterr().out
    assert (
        "40,007" in table
        and "48,007" in table
        and "66.7%" in table
        and f"Goal: {GOAL_LEVELS} levels, for 250 MHz; 1 modules have more" in table
        and "upper" in table
    )
    assert run(["hw", "resources", "--preset", "abacus"]) == 2


_TOO_DEEP = f"{MOST_LEVELS + 1} levels to b in {{}}, the limit is {MOST_LEVELS}"


@pytest.mark.parametrize(
    ("name", "levels", "lut", "message"),
    [
        ("top.abacus", MOST_LEVELS, 1_042_000, None),
        ("top.abacus", MOST_LEVELS, 1_044_000, "80.1% of the part's lut, the limit is 80%"),
        ("top.abacus", MOST_LEVELS + 1, 1_000, _TOO_DEEP.format("top.abacus")),
        ("channel.load", MOST_LEVELS + 1, 1_000, _TOO_DEEP.format("channel.load")),
        ("top.sequencer", MOST_LEVELS + 1, 1_000, _TOO_DEEP.format("top.sequencer")),
    ],
)
def test_report_resources_checks_the_limits(monkeypatch, capsys, name, levels, lut, message):
    path = Path(Step(luts=levels - 4, chains=1, multipliers=1), "a", "b", 1)
    command = importlib.import_module("etalstm.cli.hw.resources")
    rows = [Row(name, 1, Resources(lut=lut), lut, path, path, {})]
    monkeypatch.setattr(command, "report", lambda verilog, top, progress: Report(rows))
    monkeypatch.setattr(command.designs, "machine", lambda config: "")
    assert run(["hw", "resources", "--preset", "test"]) == 0
    capsys.readouterr()
    assert run(["hw", "resources", "--preset", "test", "--check"]) == (1 if message else 0)
    assert capsys.readouterr().err == (f"test takes {message}\n" if message else "")
    run(["hw", "resources", "--preset", "test", "--check", "--json"])
    assert json.loads(capsys.readouterr().out)["too_much"] == ([message] if message else [])


def test_report_resources_sets_a_machine_on_its_card_beside_it(monkeypatch, capsys):
    command = importlib.import_module("etalstm.cli.hw.resources")
    path = Path(Step(luts=7), "a", "b", 1)

    def made_up(verilog, top, progress):
        return Report([Row(top, 1, Resources(lut=len(verilog)), 7, path, path, {})])

    monkeypatch.setattr(command, "report", made_up)
    monkeypatch.setattr(command.designs, "machine", lambda config: "12")
    monkeypatch.setattr(command.designs, "on_card", lambda config: "12345")
    assert run(["hw", "resources", "--preset", "test", "--shell", "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = [(each["preset"], each["used"]["lut"], each["deepest"]["module"]) for each in shown]
    assert found == [("test", 2, "top"), ("test on its card", 5, "shell")]


def test_report_resources_counts_the_units_of_the_integer_machine(monkeypatch, capsys):
    command = importlib.import_module("etalstm.cli.hw.resources")
    texts = []
    path = Path(Step(luts=7), "a", "b", 1)
    row = Row("top", 1, Resources(lut=7, dsp=128), 7, path, path, {})
    monkeypatch.setattr(command, "report", lambda verilog, top, progress: texts.append(verilog) or Report([row]))
    assert run(["hw", "resources", "--integers", "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["unit"] for each in shown] == ["products", "sender", "conversion"]
    assert texts[0].count("DSP48E2") >= LANES * PES


def test_report_resources_puts_machines_beside_each_other(monkeypatch, capsys):
    def found(verilog, top, progress):
        channels = verilog.count("channel channel")
        path = Path(Step(3_250, luts=5), "a", "b", 1)
        return Report([Row("channel", channels, Resources(lut=13_038), 13_038, path, path, {})])

    command = importlib.import_module("etalstm.cli.hw.resources")
    monkeypatch.setattr(command, "report", found)
    monkeypatch.setattr(command.designs, "machine", lambda config: "channel channel" * config.channels)
    assert run(["hw", "resources", "--preset", "test,bench"]) == 0
    lut = next(line for line in capsys.readouterr().out.splitlines() if "lut" in line)
    assert "26,076 (2.0%)" in lut and "52,152 (4.0%)" in lut
    assert run(["hw", "resources", "--preset", "test,bench", "--json"]) == 0
    assert [json.loads(line)["preset"] for line in capsys.readouterr().out.splitlines()] == ["test", "bench"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_command_and_the_processes_that_help_it(number):
    command = "from etalstm.cli.main import main; main()"
    words = ["research", "profile", "latency", "--preset", "vcu128", "--from", "1000", "--to", "1400", "--steps", "200"]
    process = subprocess.Popen([sys.executable, "-c", command, *words], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and len(children_of(process.pid)) < 2:  # one tracks resources
        time.sleep(0.05)
    helpers = children_of(process.pid)
    assert len(helpers) >= 2
    os.kill(process.pid, number)
    error = process.communicate(timeout=60)[1]
    assert (process.returncode, error) == (128 + number, "")
    while time.monotonic() < deadline and any(pathlib.Path(f"/proc/{helper}").exists() for helper in helpers):
        time.sleep(0.05)
    assert not [helper for helper in helpers if pathlib.Path(f"/proc/{helper}").exists()]


def children_of(process):
    return pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()
