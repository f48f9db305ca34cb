"""The notebooks run, and are committed as they are to be read."""

import itertools
import re

import nbformat
import pytest

from tests.notebooks import EXAMPLES, execute

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


def test_the_first_run_learns(tmp_path):
    lines = execute(EXAMPLES / "first_run.ipynb", tmp_path).splitlines()
    curves = [float(line.split()[1]) for line in lines if "█" in line]
    golden, sim = curves[:6], curves[6:]
    assert golden == sim and golden[-1] < golden[0], curves
    assert lines[-1].endswith(" cycles")


def test_where_the_cycles_go_has_every_cycle(tmp_path):
    lines = execute(EXAMPLES / "where_the_cycles_go.ipynb", tmp_path).splitlines()
    ends = [n for n, line in enumerate(lines) if line.startswith("all ")]
    assert len(ends) == 3
    kinds = [float(line.split()[1].replace(",", "")) for line in lines[: ends[0]]]
    assert sum(kinds) == pytest.approx(float(lines[ends[0]].split()[1].replace(",", "")), abs=len(kinds))
    assert float(re.match(r"([\d.]+) of the cycles", lines[ends[2] + 1])[1]) < 0.9


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_short_cells_with_a_sentence_before_each_and_no_outputs(path):
    cells = nbformat.read(path, as_version=4).cells
    for before, cell in itertools.pairwise(cells):
        if cell.cell_type == "code":
            assert before.cell_type == "markdown" and before.source.rstrip().endswith("."), cell.source
            assert not cell.outputs and cell.execution_count is None, cell.source
            assert len(cell.source.splitlines()) <= 20, cell.source
