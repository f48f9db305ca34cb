"""Isolates a memory port from its manager without leaving half a transaction in the memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from etalstm_boards.crossing import channels_of
from etalstm_hw.elastic import Elastic

COUNT_BITS = 10  # bursts in flight: far more than FIFOs and memory take
AHEAD = 32  # write bursts whose addresses are written before their data


class Isolator(wiring.Component):
    """Passes a bus through; on request, completes the transactions in flight by itself and starts no others.

    While ``stop`` is set, no address enters. Write data that an address has promised are made up, with no byte enabled.
    A memory with check bits writes them all the same: an interrupted write may leave any bytes at its addresses.
    Answers are taken and dropped. ``quiet`` tells that nothing is in flight any more. The manager may be reset, even
    asynchronously, while ``stop`` is set: the signals to the memory come from registers here. Addresses and write data
    are delayed by a cycle, answers are not; a beat passes in every cycle. The first beat of a write burst leaves three
    cycles after its address entered, or later.

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
        """Count bursts that are not answered, and write bursts whose data are not written."""
        m = Module()
        port = self.port
        begins = self._register(m, "ar", ~self.stop)
        quiet = self._answers(m, "r", begins, port.rvalid & port.rready & port.rlast)
        if "awvalid" in self._bus.members:
            m.submodules.lengths = lengths = SyncFIFOBuffered(width=len(port.awlen), depth=AHEAD)
            m.submodules.next_length = length = Elastic(len(port.awlen))  # or a beat's path would end in the FIFO
            begins = self._register(m, "aw", ~self.stop & lengths.w_rdy)
            m.d.comb += [lengths.w_data.eq(self.manager.awlen), lengths.w_en.eq(begins)]
            m.d.comb += [length.i.p.eq(lengths.r_data), length.i.valid.eq(lengths.r_rdy)]
            m.d.comb += lengths.r_en.eq(length.i.ready)
            quiet &= self._answers(m, "b", begins, port.bvalid & port.bready)  # that is after a burst's last beat
            self._data(m, length.o)
        m.d.comb += self.quiet.eq(self.stop & quiet)
        return m

    def _register(self, m, channel, go):
        """Pass a channel through a register while `go`; give a signal of each transfer into it."""
        valid, ready = f"{channel}valid", f"{channel}ready"
        port, manager = self.port, self.manager
        enters = Signal(name=f"{channel}_enters")
        m.d.comb += [
            getattr(manager, ready).eq(go & (~getattr(port, valid) | getattr(port, ready))),
            enters.eq(getattr(manager, valid) & getattr(manager, ready)),
        ]
        with m.If(getattr(port, ready)):
            m.d.sync += getattr(port, valid).eq(0)
        with m.If(enters):
            m.d.sync += getattr(port, valid).eq(1)
            m.d.sync += [getattr(port, name).eq(getattr(manager, name)) for name in channels_of(self._bus)[channel]]
        return enters

    def _answers(self, m, channel, begins, ends):
        """Pass answers on, or take them while stopped; give whether no burst waits for one."""
        port, manager = self.port, self.manager
        valid, ready = f"{channel}valid", f"{channel}ready"
        count = Signal(COUNT_BITS, name=f"{channel}_count")
        begun, ended = (Signal(name=f"{channel}_{name}") for name in ("begun", "ended"))
        m.d.sync += [begun.eq(begins), ended.eq(ends), count.eq(count + begun - ended)]  # few levels of logic
        m.d.comb += [
            getattr(port, ready).eq(getattr(manager, ready) | self.stop),
            getattr(manager, valid).eq(getattr(port, valid) & ~self.stop),
            *(getattr(manager, name).eq(getattr(port, name)) for name in channels_of(self._bus)[channel]),
        ]
        return (count == 0) & ~begun

    def _data(self, m, length):
        """Give every burst its beats, after its address: the manager's, or made-up ones while stopped."""
        port = self.port
        left, middle = Signal(len(port.awlen)), Signal()  # beats after this one, inside of a burst
        last, made_up = Signal(), Signal()
        beat = self._register(m, "w", ~self.stop & length.valid) | made_up
        m.d.comb += [
            last.eq(Mux(middle, left, length.p) == 0),
            made_up.eq(self.stop & length.valid & (~port.wvalid | port.wready)),
            length.ready.eq(beat & last),
        ]
        with m.If(made_up):
            m.d.sync += [port.wvalid.eq(1), port.wstrb.eq(0), port.wlast.eq(last)]
        with m.If(beat):
            m.d.sync += [middle.eq(~last), left.eq(Mux(middle, left, length.p) - 1)]
