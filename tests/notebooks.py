"""Executes notebooks of ``examples/``."""

import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.extras import hide_all_but

EXAMPLES = Path(__file__).parent.parent / "examples"


def execute(path: Path, folder: Path, *extras: str) -> str:
    """Run every cell in a folder and give what was printed; a cell that fails raises ``CellExecutionError``.

    Besides a kernel only what the package with some `extras` requires can be imported.
    """
    notebook = nbformat.read(path, as_version=4)
    environment = os.environ | {"PYTHONPATH": hide_all_but(set(extras), folder / "hidden", also=("ipykernel",))}
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute(env=environment)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
