"""What a terminal of any width and a file show of a running training."""

import io

import pytest
from rich.console import Console

from etalstm.train.progress import ProgressReport

ENTRY = {"kind": "iteration", "iteration": 1034, "loss": 2.30258, "accuracy": 0.125, "cycles": 12_345_678}
EPOCH = ENTRY | {"kind": "evaluation", "epoch": 3, "split": "validation " + "x" * 60}


def last_line(width, total):
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    with ProgressReport(total, console) as report:
        report(ENTRY)
    return file.getvalue().replace("\x1b[?25h", "").rstrip().rsplit("\r", 1)[-1].replace("\x1b[2K", "")


@pytest.mark.parametrize("total", [2000, 1_250_000])
@pytest.mark.parametrize(
    ("width", "state"),
    [(120, "loss 2.3026, accuracy 0.125, 12,345,678 cycles"), (80, "loss 2.3026, accuracy 0.125 "), (60, ""), (50, "")],
)
def test_count_and_times_are_never_cut(width, state, total):
    line = last_line(width, total)
    assert f"1034/{total}" in line and "0:00:00 -:--:--" in line and state in line and "…" not in line


def test_a_line_in_a_file_is_not_wrapped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with ProgressReport(2000) as report:
        report(EPOCH)
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and len(shown) > 100
