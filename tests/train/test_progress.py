"""What a terminal of any width and a file show of a running training."""

import io
import re

import pytest
from rich.console import Console

from etalstm.network.storage import Usage
from etalstm.train.progress import ProgressReport, describe_saved

ENTRY = {"kind": "iteration", "iteration": 1034, "loss": 2.0, "accuracy": 0.125, "cycles": 1_000_000, "seconds": 0.5,
         "footprint": 0.45, "backward_multiplications": 0.3}  # fmt: skip
EPOCH = {"kind": "epoch", "iteration": 1034, "epoch": 3, "loss": 1.5, "cycles": 0, "split": "validation"}


def last_lines(width, total, *entries):
    """The last picture on a terminal: bar and two lines."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    with ProgressReport(total, 8, console) as report:
        for entry in entries:
            report(entry)
    plain = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", file.getvalue()).replace("\r", "")
    return [line.rstrip() for line in plain.split("\n") if line.strip()][-3:]


@pytest.mark.parametrize("total", [2000, 1_250_000])
@pytest.mark.parametrize("width", [120, 80, 60, 50])
def test_count_and_times_are_never_cut(width, total):
    bar, *_ = last_lines(width, total, ENTRY)
    assert f"1034/{total}" in bar and "0:00:00 -:--:--" in bar and "…" not in bar


def test_speed_costs_and_the_last_validation_are_shown():
    _, now, costs = last_lines(120, 2000, EPOCH, ENTRY)
    assert now == "loss 2.0000, accuracy 0.125, 1,000,000 cycles, 16 sequences/s, 2 million cycles/s"
    assert costs == "intermediates 45%, backward products 30%, validation loss 1.5000"


def test_padding_is_shown_where_there_is_some():
    *_, costs = last_lines(120, 2000, ENTRY | {"padding": 0.125})
    assert costs == "intermediates 45%, backward products 30%, padding 12%"
    assert "padding" not in last_lines(120, 2000, ENTRY | {"padding": 0.0})[2]


def test_means_follow_the_last_iterations():
    _, now, _ = last_lines(120, 2000, ENTRY, ENTRY | {"loss": 1.0, "seconds": 1.5, "cycles": 0})
    assert now.startswith("loss 1.9000") and "13.3 sequences/s" in now and "cycles/s" not in now


def test_a_narrow_terminal_cuts_the_numbers_at_its_edge():
    _, now, _ = last_lines(40, 2000, ENTRY)
    assert now == "loss 2.0000, accuracy 0.125, 1,000,000 …"


def test_a_line_in_a_file_is_not_wrapped(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with ProgressReport(2000, 8) as report:
        report(ENTRY)
        report(EPOCH | {"split": "validation " + "x" * 80})
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and len(shown) > 100


def test_the_multiplications_of_both_passes_are_told_apart():
    counts = {"products": 45 + 20, "dense_products": 300, "backward_products": 20, "dense_backward_products": 200}
    usage = Usage(**counts, words=5, elements=2, real=1)
    assert usage.input_density == 0.45
    told = describe_saved(usage.summary() | {"cells_skipped": 0.25})
    assert "multiplications 21.7% (of the forward pass 45.0%, of the backward pass 10.0%), cells skipped 25.0%" in told
