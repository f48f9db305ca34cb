"""The units of the integer machine in the sizes that the board is meant to have."""

from amaranth.lib import wiring

from etalstm_boards.dsp import DSP48E2PE
from etalstm_hw.contract import BINARY32
from etalstm_hw.integer.products import ProductEngine
from etalstm_hw.integer.sender import SequenceSender
from etalstm_hw.integer.sequences import Sizes
from etalstm_hw.integer.unit import IntegerUnit

LANES, PES = 8, 4
"""Lanes of a channel, which are also the words of a beat, and DSP slices of each lane."""

WEIGHT_ROWS = 4096
"""Rows of a channel's weights: as deep as an ultra RAM."""

SUMS = 64
"""Pairs of sums of each slice that wait for element-wise work: one for each sequence."""

SENT = Sizes(LANES, 1, 1024, SUMS)
"""Digits that are sent: 32,768 at a time, of at most as many sequences."""


def units() -> dict[str, wiring.Component]:
    """Make them: the engine of a channel's products, the sender of a group, and a unit that converts and quantises."""
    return {
        "products": ProductEngine(
            LANES, PES, depth=SUMS, elements=SENT.elements, weight_depth=WEIGHT_ROWS, pe=DSP48E2PE
        ),
        "sender": SequenceSender(SENT),
        "conversion": IntegerUnit(BINARY32),
    }
