"""Registers between the middle of the machine and its channels, which lie all over the chip.

What goes to all channels, and what comes back from them, passes a tree of registers: a trunk to each branch of at most
``FAN_OUT`` channels, then a leaf at each channel. Either way takes ``distance.STAGES`` cycles for every channel.
Nothing waits in the tree: a receiver says early that it runs out of room, and takes what is still under way.
"""

from collections.abc import Mapping
from types import MappingProxyType

from amaranth.hdl import Module, Signal

FAN_OUT = 8
"""Branches of the trunk, and channels of a branch, that a register drives."""

_KEPT = {"keep": "true", "shreg_extract": "no"}
_NONE: Mapping[str, str] = MappingProxyType({})


def delayed(
    m: Module, value, stages: int, *, name: str, reset_less: bool = False, init=None, attrs: Mapping[str, str] = _NONE
):
    """Give a value ``stages`` cycles of ``sync`` later; the registers also have the attributes `attrs`.

    The registers are kept: no tool makes a shift register of them, or one leaf of the equal leaves of a branch.
    """
    for stage in range(stages):
        marks = {**_KEPT, **attrs}
        register = Signal(value.shape(), name=f"{name}{stage}", reset_less=reset_less, init=init, attrs=marks)
        m.d.sync += register.eq(value)
        value = register
    return value


def lingering(m: Module, level, cycles: int, *, name: str):
    """Give a level that stays for ``cycles`` cycles after another one has gone."""
    left = Signal(range(cycles + 1), name=name)
    with m.If(level):
        m.d.sync += left.eq(cycles)
    with m.Elif(left != 0):
        m.d.sync += left.eq(left - 1)
    return level | (left != 0)
