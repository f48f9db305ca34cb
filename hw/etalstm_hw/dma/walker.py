"""The two nested loops in which LOAD, STORE and TRANSPOSE run through lane addresses."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import COUNT_BITS, LANE_ADDRESS_BITS


class LanePattern(data.StructLayout):
    """``lane_address + outer·outer_stride + inner·inner_stride``, inner fastest; counts are at least 1."""

    def __init__(self):
        super().__init__(
            {
                "lane_address": LANE_ADDRESS_BITS,
                "outer": COUNT_BITS,
                "inner": COUNT_BITS,
                "outer_stride": LANE_ADDRESS_BITS,
                "inner_stride": LANE_ADDRESS_BITS,
            }
        )


class LaneWalker(wiring.Component):
    """Walks through a pattern's addresses, one for each cycle in which ``step`` is set.

    ``start`` loads a pattern; its first address is there a cycle later. It may be set in the cycle of the last step.

    Members
    -------
    pattern : :py:`In(LanePattern())`
    start, step : :py:`In(1)`
    address : :py:`Out(LANE_ADDRESS_BITS)`
    ends_inner, ends : :py:`Out(1)`
        This address is the last of its inner loop, of all.
    """

    def __init__(self):
        super().__init__(
            {
                "pattern": In(LanePattern()),
                "start": In(1),
                "step": In(1),
                "address": Out(LANE_ADDRESS_BITS),
                "ends_inner": Out(1),
                "ends": Out(1),
            }
        )

    def elaborate(self, platform):
        """Additions only: `turn` is the address at which this turn of the outer loop began."""
        m = Module()
        inner_size, inner_left, outer_left = (Signal(COUNT_BITS, reset_less=True) for _ in range(3))
        inner_stride, outer_stride = (Signal(LANE_ADDRESS_BITS, reset_less=True) for _ in range(2))
        turn, address = (Signal(LANE_ADDRESS_BITS, reset_less=True) for _ in range(2))
        next_turn = Signal(LANE_ADDRESS_BITS)
        m.d.comb += [
            next_turn.eq(turn + outer_stride),
            self.address.eq(address),
            self.ends_inner.eq(inner_left == 1),
            self.ends.eq(self.ends_inner & (outer_left == 1)),
        ]
        with m.If(self.step):
            with m.If(self.ends_inner):
                m.d.sync += [
                    address.eq(next_turn),
                    turn.eq(next_turn),
                    inner_left.eq(inner_size),
                    outer_left.eq(outer_left - 1),
                ]
            with m.Else():
                m.d.sync += [address.eq(address + inner_stride), inner_left.eq(inner_left - 1)]
        with m.If(self.start):
            m.d.sync += [
                address.eq(self.pattern.lane_address),
                turn.eq(self.pattern.lane_address),
                inner_size.eq(self.pattern.inner),
                inner_left.eq(self.pattern.inner),
                outer_left.eq(self.pattern.outer),
                inner_stride.eq(self.pattern.inner_stride),
                outer_stride.eq(self.pattern.outer_stride),
            ]
        return m
