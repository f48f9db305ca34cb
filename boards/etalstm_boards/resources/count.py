"""Counts the resources that the primitives of a netlist take."""

from collections.abc import Iterable
from fractions import Fraction

from etalstm_boards.part import Resources
from etalstm_boards.resources.synthesis import Cell

_LUTS = {
    **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
    "INV": 1,  # a LUT at worst; mostly it is merged into a neighbour
    "SRL16E": 1,
    "SRLC32E": 1,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
}
_OTHERS = {
    **{name: Resources(ff=1) for name in ("FDRE", "FDSE", "FDCE", "FDPE")},
    "DSP48E2": Resources(dsp=1),
    "RAMB18E2": Resources(bram=Fraction(1, 2)),
    "RAMB36E2": Resources(bram=1),
    "URAM288": Resources(uram=1),
    # Part of the slices whose LUTs feed them.
    **{name: Resources() for name in ("CARRY4", "CARRY8", "MUXF7", "MUXF8", "MUXF9")},
}
COST = {name: Resources(lut=luts) for name, luts in _LUTS.items()} | _OTHERS
"""The resources of each primitive."""


def count(cells: Iterable[Cell], stubs: Iterable[str]) -> Resources:
    """Add up the primitives of a unit; its stubs are none.

    Raises
    ------
    ValueError
        If there is a primitive that :data:`COST` does not know.
    """
    total, stubs = Resources(), frozenset(stubs)
    for cell in cells:
        if cell.type in stubs:
            continue
        if cell.type not in COST:
            raise ValueError(f"primitive {cell.type} of {cell.name} is unknown, expected one of: {', '.join(COST)}")
        total += COST[cell.type]
    return total
