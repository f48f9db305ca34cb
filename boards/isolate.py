"""Takes a memory port away from its manager without leaving the memory with half a transaction."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

COUNT_BITS = 10  # bursts under way: far above what the queues and the memory hold
AHEAD = 32  # write bursts whose addresses are out before their data


class Isolator(wiring.Component):
    """Passes a bus through; on request, ends what is under way on its own and lets nothing more out.

    While ``stop`` is set, no new address leaves. Write data that an address has promised are made up, with no byte
    enabled; answers are taken and dropped. ``quiet`` tells that nothing is under way any more: then the manager can be
    reset. Without ``stop`` every channel passes unchanged in
    the same cycle, but for write data, which follow their address by a cycle or more.

    Parameters
    ----------
    bus : wiring.Signature
        An AXI4 or AXI4Read manager.

    Members
    -------
    manager : :py:`In(bus)`
    port : :py:`Out(bus)`
    stop : :py:`In(1)`
    quiet : :py:`Out(1)`
    """

    def __init__(self, bus: wiring.Signature):
        self._bus = bus
        super().__init__({"manager": In(bus), "port": Out(bus), "stop": In(1), "quiet": Out(1)})

    def elaborate(self, platform):
        """Count bursts that are not answered, and write bursts whose data are not out."""
        m = Module()
        manager, port = self.manager, self.port
        for name, member in self._bus.members.items():
            source, sink = (manager, port) if member.flow is Out else (port, manager)
            m.d.comb += getattr(sink, name).eq(getattr(source, name))
        quiet = self._answers(m, "ar", "r", port.rvalid & port.rready & port.rlast, Const(1))[0]
        if "awvalid" in self._bus.members:
            m.submodules.lengths = lengths = SyncFIFO(width=len(port.awlen), depth=AHEAD)
            answered, begins = self._answers(m, "aw", "b", port.bvalid & port.bready, lengths.w_rdy)
            m.d.comb += [lengths.w_data.eq(port.awlen), lengths.w_en.eq(begins)]
            quiet &= answered & ~lengths.r_rdy
            self._finish_data(m, lengths)
        m.d.comb += self.quiet.eq(self.stop & quiet)
        return m

    def _answers(self, m, channel, answer, ends, room):
        """Hold addresses back while stopped; give whether no burst is under way, and whether one begins now."""
        valid, ready = f"{channel}valid", f"{channel}ready"
        port, manager = self.port, self.manager
        offered = Signal(name=f"{channel}_offered")  # in the cycle before, and not taken: must stay, says AXI
        goes = Signal(name=f"{channel}_goes")
        count = Signal(COUNT_BITS, name=f"{channel}_count")
        begins = getattr(port, valid) & ~offered
        m.d.comb += [
            goes.eq((~self.stop & room) | offered),
            getattr(port, valid).eq(getattr(manager, valid) & goes),
            getattr(manager, ready).eq(getattr(port, ready) & goes),
        ]
        m.d.sync += [
            offered.eq(getattr(port, valid) & ~getattr(port, ready)),
            count.eq(count + begins - ends),
        ]
        with m.If(self.stop):
            m.d.comb += [getattr(port, f"{answer}ready").eq(1), getattr(manager, f"{answer}valid").eq(0)]
        return (count == 0) & ~getattr(port, valid), begins

    def _finish_data(self, m, lengths):
        """Give every burst its beats: while stopped, made up ones."""
        manager, port = self.manager, self.port
        left = Signal(len(port.awlen))
        middle, offered = Signal(), Signal()  # of a burst, whose beats `left` counts; a real beat, not taken
        last, beat = Signal(), Signal()
        m.d.comb += [
            last.eq(Mux(middle, left, lengths.r_data) == 0),
            beat.eq(port.wvalid & port.wready),
            lengths.r_en.eq(beat & last),
        ]
        with m.If(beat):
            m.d.sync += [middle.eq(~last), left.eq(Mux(middle, left, lengths.r_data) - 1)]
        with m.If(~lengths.r_rdy):  # data never overtake their address, so that it is known what is owed
            m.d.comb += [port.wvalid.eq(0), manager.wready.eq(0)]
        with m.Elif(self.stop & ~offered):
            m.d.comb += [port.wvalid.eq(1), port.wstrb.eq(0), port.wlast.eq(last), manager.wready.eq(0)]
        m.d.sync += offered.eq(port.wvalid & ~port.wready & ~(self.stop & ~offered))
