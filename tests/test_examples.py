"""The examples run as their first lines say."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras import hide_all_but

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    """Import a script."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_train_on_card_gives_the_reference_weights_on_the_simulated_machine_without_any_extra(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", hide_all_but(set(), tmp_path / "hidden"))
    command = [sys.executable, EXAMPLES / "train_on_card.py", "sim", "--iterations", "60", "--check"]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    assert lines[0].startswith("iteration 50: loss 0.") and lines[-1] == "the weights are the reference's, bit for bit"


def test_train_on_card_learns():
    assert example("train_on_card").train("golden", "sim", 300)[1] >= 0.85


@pytest.mark.parametrize(
    "arguments, preset",
    [
        ([], "vcu128"),
        (["xdma:1"], "vcu128"),
        (["sim"], "sim"),
        (["xdma:sim"], "sim"),
        (["golden"], "vcu128"),
        (["sim", "--preset", "test"], "test"),
    ],
)
def test_train_on_card_takes_a_small_preset_for_a_simulated_machine_unless_told(monkeypatch, arguments, preset):
    script, taken = example("train_on_card"), []
    monkeypatch.setattr(script, "train", lambda device, preset, *_: taken.append(preset) or (None, 1.0))
    assert script.main(arguments) == 0 and taken == [preset]


def test_train_on_card_names_what_is_missing(capsys):
    assert example("train_on_card").main(["xdma:99"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("train_on_card: ") and "xdma" in error and error.count("\n") == 1
