"""Files are read and written as UTF-8 whatever the locale, and what a terminal cannot show is no error."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from etalstm.host.checkout import ROOT

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SOURCES = [path for root in ("sw", "hw", "sim", "boards") for path in (ROOT / root).rglob("*.py")]


def of_the_locale(path: Path):
    """Calls that read or write text and name no encoding; ruff's rule knows only what is surely a ``Path``."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Call) or "encoding" in {keyword.arg for keyword in node.keywords}:
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        mode = node.args[-1].value if node.args and isinstance(node.args[-1], ast.Constant) else None
        opens = name == "open" and isinstance(mode, str) and set(mode) <= set("rwax+")
        texts = name in ("run", "Popen", "check_output") and any(keyword.arg == "text" for keyword in node.keywords)
        if (name, len(node.args)) in (("read_text", 0), ("write_text", 1)) or opens or texts:
            yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_every_text_has_an_encoding():
    assert [line for path in SOURCES for line in of_the_locale(path)] == []


@pytest.mark.parametrize(
    "call", ["p.read_text()", "p.write_text(x)", "p.open('a')", "run(c, text=True)", "open(p, 'w')"]
)
def test_a_text_without_one_would_be_found(tmp_path, monkeypatch, call):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    (tmp_path / "one.py").write_text(call)
    assert [*of_the_locale(tmp_path / "one.py")] == ["one.py:1"]


def test_a_run_where_the_locale_is_ascii(tmp_path):
    (tmp_path / "ü.csv").write_text("text,label\n" + "".join(f"größe {n},{'äß'[n % 2]}\n" for n in range(40)), "utf-8")
    command = [sys.executable, "-m", "etalstm", "train", "--task", "classify", "--data", "ü.csv", "--out", "läuft"]
    done = subprocess.run(
        [*command, "--hidden", "4", "--batch", "4", "--epochs", "1"],
        cwd=tmp_path, env=os.environ | ASCII, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "läuft" in {path.name for path in tmp_path.iterdir()}
