"""The cell of docs/contributing/cell.md, as the page has it: the file in which a reader would declare it."""

from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "contributing" / "cell.md"
SOURCE = PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]

_MODULE = ModuleType("my_cells")
exec(compile(SOURCE, str(PAGE), "exec"), _MODULE.__dict__)
COUPLED = _MODULE.CIFG
