"""Turns rising levels of the machine into interrupt requests to the host."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class Interrupt(wiring.Component):
    """Turns each rise of a level into one request to XDMA, even when rises follow each other quickly.

    XDMA wants a request to stay until XDMA has acknowledged it, and to fall before the next (AMD PG195). A rise before
    the last request's acknowledgement is remembered; several such rises make one request.

    Members
    -------
    level : :py:`In(1)`
        Of this clock domain.
    request : :py:`Out(1)`
    acknowledge : :py:`In(1)`
    """

    def __init__(self):
        super().__init__({"level": In(1), "request": Out(1), "acknowledge": In(1)})

    def elaborate(self, platform):
        """Wait, request until acknowledged, let the request fall when the level falls or the next rise waits."""
        m = Module()
        before, pending = Signal(), Signal()
        rise = self.level & ~before
        m.d.sync += before.eq(self.level)
        with m.If(rise):
            m.d.sync += pending.eq(1)
        with m.FSM():
            with m.State("idle"):
                with m.If(pending):
                    m.d.sync += pending.eq(rise)
                    m.next = "ask"
            with m.State("ask"):
                m.d.comb += self.request.eq(1)
                with m.If(self.acknowledge):
                    m.next = "hold"
            with m.State("hold"):
                m.d.comb += self.request.eq(1)
                with m.If(~self.level | pending):
                    m.next = "idle"
        return m
