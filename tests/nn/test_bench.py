"""``eta-lstm bench torch`` measures."""

import json

import numpy as np
import pytest

from etalstm.cli.main import run

SMALL = ["--hidden", "4", "--batch", "3", "--steps", "5", "--longest", "6", "--runs", "2"]


def test_the_figures_are_there(capsys):
    assert run(["bench", "torch", *SMALL, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert set(figures) == {
        "session_seconds", "bare_seconds", "module_seconds", "stock_seconds",
        "bare_overhead", "module_overhead", "of_stock", "packed_over_real_steps",
    }  # fmt: skip
    assert all(np.isfinite(value) for value in figures.values())


def test_they_are_told_in_words(capsys):
    assert run(["bench", "torch", *SMALL]) == 0
    assert "a packed batch of 4 to 6 steps takes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "message"), [("--longest=3", "longest must be at least 4, got 3"), ("--runs=0", "runs must be above 0")]
)
def test_sizes_that_are_none_are_refused(option, message, capsys):
    assert run(["bench", "torch", option]) == 2
    assert message in capsys.readouterr().err
