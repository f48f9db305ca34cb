"""Executes notebooks of ``examples/``."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parent.parent / "examples"


def execute(path: Path, folder: Path) -> str:
    """Run every cell in a folder and give what was printed; a cell that fails raises ``CellExecutionError``."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
