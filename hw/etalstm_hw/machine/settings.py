"""What the host sets before a program: constant while the program runs, so its paths have more than a cycle."""

from amaranth.lib import data

from etalstm_hw.contract import BINARY32, PARAMETERS
from etalstm_hw.stream import Group, Slots, Windows

MARK = "quasi_static"
QUASI_STATIC = {MARK: "TRUE"}
"""Attribute of the registers whose paths have :data:`SETTLING_CYCLES`. A board's timing constraints find the mark.

A tool that loses the mark of a register only times its paths more strictly.
"""

SETTLING_CYCLES = 2
"""Cycles that a value takes from a marked register to the next register.

The bus of the registers takes a write every other cycle. So a setting has settled when the START after it is taken.
"""


class Settings(data.StructLayout):
    """Settings on their way to the channels of a branch.

    Members
    -------
    windows, parameters, slots : as the host has set them
    group : the one of the branch's first channel
    """

    def __init__(self, address_bits: int):
        super().__init__(
            {
                "windows": Windows(address_bits),
                "group": Group(address_bits),
                "parameters": data.ArrayLayout(BINARY32.width, PARAMETERS),
                "slots": Slots(),
            }
        )
