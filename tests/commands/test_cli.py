"""The command line works, and refuses in one line."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from etalstm.cli import run
from etalstm.sim.toolchain import ToolchainError


def test_train_writes_metrics_and_checkpoint(tmp_path, capsys):
    arguments = ["train", "--dataset", "digits", "--hidden", "4", "--iterations", "3", "--out", str(tmp_path / "o")]
    assert run(arguments) == 0
    assert len((tmp_path / "o" / "metrics.jsonl").read_text().splitlines()) == 4
    assert (tmp_path / "o" / "checkpoint.safetensors").exists()
    assert run([*arguments, "--resume"]) == 0
    shown = capsys.readouterr().err
    assert "accuracy" in shown and "against a dense run: intermediates 100.0%" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
        (["--storage", "echo"], "storage must be one of dense, ms1, ms1-bf16, got 'echo'"),
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

    monkeypatch.setattr("etalstm.hw.generate.write", fail)
    assert run(["verilog", "--preset", "test", "-o", "nowhere"]) == 2
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


def test_ctrl_c_ends_a_process_cleanly_with_a_checkpoint(tmp_path):
    command = "from etalstm.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", command, "train", "--dataset", "digits", "--epochs", "1000", "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 0, error
    assert "interrupted after iteration" in error
    assert (tmp_path / "checkpoint.safetensors").exists()
