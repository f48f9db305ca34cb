"""``eta-lstm bench torch`` without PyTorch; with it, see tests/nn."""

import importlib.util

from etalstm.cli import run


def test_without_pytorch_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(["bench", "torch"]) == 2
    assert capsys.readouterr().err == (
        "eta-lstm: PyTorch is not installed; install the extra: pip install 'etalstm[torch]'\n"
    )
