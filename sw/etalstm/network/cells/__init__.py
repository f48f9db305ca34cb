"""Declarations of cells: matrices, element-wise operations, stored intermediates, local gradients.

``cell`` and ``operation`` are the language; ``lstm`` is the example to follow; ``CELLS`` lists the cells that a run may
name. A cell of another package joins them by :func:`register`, or by an entry point of the group :data:`GROUP`.
"""

from dataclasses import astuple
from importlib.metadata import EntryPoint, entry_points

from etalstm.network.cells.cell import Cell
from etalstm.network.cells.hlstm import HLSTM
from etalstm.network.cells.lstm import LSTM

CELLS = {cell.name: cell for cell in (LSTM, HLSTM)}  # and those that were registered
GROUP = "etalstm.network.cells"  # entry points: the name of a cell, and where its declaration is


def register(cell: Cell) -> Cell:
    """Let runs of this process name a cell; give the one that has the name then, of equal ones the first.

    Another process does not know of it, so a run with several needs an entry point. ``ValueError`` if another cell has
    the name.
    """
    known = CELLS.setdefault(cell.name, cell)
    if astuple(known) != astuple(cell):
        raise ValueError(f"there is another cell of the name {cell.name!r}")
    return known


def cell_names() -> list[str]:
    """Give the names of all cells, those of entry points included, which are not loaded."""
    return list(dict.fromkeys([*CELLS, *(found.name for found in entry_points(group=GROUP))]))


def cell_named(name: str) -> Cell:
    """Look up a cell; ``ValueError`` lists the known names, or says why an entry point gives none."""
    if name not in CELLS:
        for found in entry_points(group=GROUP, name=name):
            register(_loaded(found))
    if name not in CELLS:
        raise ValueError(f"cell must be one of {', '.join(cell_names())}, got {name!r}")
    return CELLS[name]


def _loaded(found: EntryPoint) -> Cell:
    try:
        cell = found.load()
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"cell {found.name} cannot be loaded from {found.value}: {error}") from error
    if not isinstance(cell, Cell) or cell.name != found.name:
        raise ValueError(f"{found.value} must be a Cell of the name {found.name!r}, got {cell!r:.60}")
    return cell
