"""Declarations of cells: matrices, element-wise operations, stored intermediates, local gradients.

``cell`` and ``operation`` are the language; ``lstm`` is the example to follow; ``CELLS`` lists the cells that a run may
name.
"""

from etalstm.network.cells.cell import Cell
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM

CELLS = {cell.name: cell for cell in (LSTM, HLSTM)}


def cell_named(name: str) -> Cell:
    """Look up a cell; ``ValueError`` lists the known names."""
    if name not in CELLS:
        raise ValueError(f"cell must be one of {', '.join(CELLS)}, got {name!r}")
    return CELLS[name]
