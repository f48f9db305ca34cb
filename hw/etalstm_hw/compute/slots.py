"""Fixed slots of the PEs: what a machine with separate PEs for each kind of work would be like, on the same PEs."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import SLOTS
from etalstm_hw.stream import Slots


class SlotScheduler(wiring.Component):
    """Says in every cycle which work may use the PEs.

    Without slots, any. With them cycles are numbered 0 to ``SLOTS - 1`` again and again from reset on; numbers with
    their bits reversed, those below ``elementwise`` are for element-wise work, and the next ``forward`` and
    ``backward`` ones for MACs of either pass (a program runs one of them at a time). So the slots of each kind come
    evenly. One that its owner has no use for is lost.

    This is how the Static-Arch of η-LSTM is measured on this machine: n of 32 cycles of all PEs do as much as n of 32
    PEs in all cycles. What the model leaves out all favours the static machine: results come as early as if all PEs
    worked on them, the operands of all PEs serve each kind in turn, and no PEs are lost to the remainder of a
    division. The activation units are no PEs: both machines have them beside, and they are not divided.

    Members
    -------
    slots : :py:`In(Slots())`
        Constant from reset to reset.
    elementwise, forward, backward : :py:`Out(1)`
        Work of this kind may use the PEs in this cycle. In the first cycle after a reset, any may; there is none yet.
    """

    def __init__(self):
        super().__init__({"slots": In(Slots())} | {name: Out(1, init=1) for name in Slots().members})

    def elaborate(self, platform):
        """Compare the reversed count of the next cycle with the borders between the kinds of work."""
        m = Module()
        count, fixed = Signal(range(SLOTS), init=1), Signal()
        position = Cat(reversed(count))
        mac_position = position - self.slots.elementwise
        m.d.sync += count.eq(count + 1)
        m.d.comb += fixed.eq(self.slots.as_value().any())
        m.d.sync += [
            self.elementwise.eq(~fixed | (mac_position < 0)),
            self.forward.eq(~fixed | ((mac_position >= 0) & (mac_position < self.slots.forward))),
            self.backward.eq(~fixed | ((mac_position >= 0) & (mac_position < self.slots.backward))),
        ]
        return m
