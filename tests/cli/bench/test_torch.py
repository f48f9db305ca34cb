"""The benches of PyTorch without PyTorch; with it, see tests/nn."""

import importlib.util

import pytest

from etalstm.cli.main import run


@pytest.mark.parametrize(
    "words",
    [["bench", "torch"], ["research", "reduced"], ["research", "attention"], ["research", "layout"]],
    ids=" ".join,
)
def test_without_pytorch_the_extra_is_named(words, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(words) == 2
    assert capsys.readouterr().err == (
        "eta-lstm: PyTorch is not installed; install the extra: pip install 'etalstm[torch]'\n"
    )


@pytest.mark.parametrize(("missing", "name"), [("torch", "PyTorch"), ("sacrebleu", "sacrebleu")])
def test_translation_names_what_is_missing(missing, name, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None if module == missing else module)
    assert run(["research", "translate", "run", "folder", "text"]) == 2
    assert capsys.readouterr().err == (
        f"eta-lstm: {name} is not installed; install the extra: pip install 'etalstm[translate]'\n"
    )
