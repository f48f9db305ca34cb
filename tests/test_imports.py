"""What the contracts in ``pyproject.toml`` cannot see: modules that are named in strings, and what is really loaded."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("etalstm", "etalstm_hw", "etalstm_sim", "etalstm_boards")


def names_in_strings():
    """Every string in the sources that is the name of a module, as `import_module` is given."""
    for folder in ("sw", "hw", "sim", "boards", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                called = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
                if called and isinstance(node.args[0], ast.Constant):
                    yield node.args[0].value, path


@pytest.mark.parametrize("name", sorted({name for name, _ in names_in_strings() if name.split(".")[0] in PACKAGES}))
def test_a_module_that_is_imported_by_its_name_is_there(name):
    package, *inner = name.split(".")
    place = Path(importlib.util.find_spec(package).origin).parent.joinpath(*inner)
    assert place.with_suffix(".py").is_file() or (place / "__init__.py").is_file(), f"there is no module {name}"


def test_the_golden_device_runs_without_amaranth():
    program = "import sys, etalstm.device, etalstm.golden, etalstm.plan; sys.exit('amaranth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
