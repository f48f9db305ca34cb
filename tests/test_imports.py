"""What the contracts in ``pyproject.toml`` cannot see: modules that are named in strings, and what is really loaded."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("etalstm", "etalstm_hw", "etalstm_sim", "etalstm_boards")


def modules_in_strings():
    """Every string in the sources that looks like the whole name of a module of ours."""
    name = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
    for folder in ("sw", "hw", "sim", "boards"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and name.fullmatch(node.value):
                    yield node.value


@pytest.mark.parametrize("name", sorted(set(modules_in_strings())))
def test_a_module_that_is_named_in_a_string_is_there(name):
    package, *inner = name.split(".")
    place = Path(importlib.util.find_spec(package).origin).parent.joinpath(*inner)
    assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), f"there is no module {name}"


def test_no_module_is_named_piece_by_piece():
    """A name that is put together is found by no search, and by no check when the module moves."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("sw", "hw", "sim", "boards")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.JoinedStr)
        and isinstance(node.values[0], ast.Constant)
        and re.fullmatch(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)*\.", str(node.values[0].value))
    ]
    assert not found, f"modules named piece by piece: {found}"


def test_the_golden_device_runs_without_amaranth():
    program = "import sys, etalstm.device, etalstm.golden, etalstm.plan; sys.exit('amaranth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
