"""The examples run as their first lines say."""

import importlib.util
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    """Import a script."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_train_on_card_gives_the_reference_weights_on_the_simulated_machine(capsys):
    script = example("train_on_card")
    assert script.main(["sim", "--preset", "sim", "--iterations", "60", "--check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("iteration 50: loss 0.") and lines[-1] == "the weights are the reference's, bit for bit"


def test_train_on_card_learns():
    assert example("train_on_card").train("golden", "sim", 300)[1] >= 0.85


def test_train_on_card_names_what_is_missing(capsys):
    assert example("train_on_card").main(["xdma:99"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("train_on_card: ") and "xdma" in error and error.count("\n") == 1
