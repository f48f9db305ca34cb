"""Cuts the path of a stream's ``ready``."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class Elastic(wiring.Component):
    """Passes a stream on in the same cycle; ``ready`` comes from a register.

    A payload that is not taken at once moves into a register. So ``i.ready`` says whether that register is empty, and
    depends on nothing of this cycle. One payload a cycle, no latency. Reset drops the payload.

    Parameters
    ----------
    shape : ShapeLike
        Of the payload.

    Members
    -------
    i : :py:`In(stream.Signature(shape))`
    o : :py:`Out(stream.Signature(shape))`
    full : :py:`Out(1)`                  a payload is in the register
    """

    def __init__(self, shape):
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "full": Out(1)})

    def elaborate(self, platform):
        """The register comes before the input."""
        m = Module()
        given, taken = Value.cast(self.i.p), Value.cast(self.o.p)
        stored = Signal(len(given), reset_less=True)
        m.d.comb += [
            self.i.ready.eq(~self.full),
            self.o.valid.eq(self.full | self.i.valid),
            taken.eq(Mux(self.full, stored, given)),
        ]
        m.d.sync += self.full.eq(self.o.valid & ~self.o.ready)
        with m.If(~self.full):
            m.d.sync += stored.eq(given)
        return m
