"""When the machine runs, and when it is held."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

HOLD_CYCLES = 64  # long enough for every clock of the board to see a reset
DRAIN_CYCLES = 1 << 14  # 164 µs at 100 MHz: far above what the memory takes to answer everything


class ResetSequencer(wiring.Component):
    """Holds the machine until clocks and memory are ready, and takes it down in order.

    From reset: wait until ``locked`` and ``calibrated``, hold for ``HOLD_CYCLES`` more, run. A request, or the loss of
    the host's link, first stops the memory ports and waits until they are quiet, at most ``DRAIN_CYCLES``; then the
    machine is held again. A memory that is too hot (``trip``) or a lost clock holds it at once; after a trip it stays
    so until this domain is reset.

    Members
    -------
    locked, calibrated, trip : :py:`In(1)`   clocks run; the memory is ready; the memory is too hot
    request : :py:`In(1)`                    reset the machine, at least one cycle
    quiet : :py:`In(1)`                      nothing is under way at the memory ports
    stop : :py:`Out(1)`                      let nothing of the machine into the memory
    hold : :py:`Out(1)`                      keep the machine in reset
    tripped : :py:`Out(1)`                   the memory was too hot
    """

    locked: In(1)
    calibrated: In(1)
    trip: In(1)
    request: In(1)
    quiet: In(1)
    stop: Out(1)
    hold: Out(1, init=1)
    tripped: Out(1)

    def elaborate(self, platform):
        """Three states: held, running, draining."""
        m = Module()
        ready, count = Signal(), Signal(range(DRAIN_CYCLES + 1))
        m.d.comb += ready.eq(self.locked & self.calibrated & ~self.trip & ~self.tripped)
        with m.If(self.trip):
            m.d.sync += self.tripped.eq(1)
        m.d.sync += count.eq(count + 1)
        with m.FSM():
            with m.State("held"):
                m.d.comb += self.stop.eq(1)  # also takes what the memory answers late
                m.d.sync += self.hold.eq(1)
                with m.If(~ready | self.request):
                    m.d.sync += count.eq(0)
                with m.Elif(count == HOLD_CYCLES):
                    m.d.sync += self.hold.eq(0)
                    m.next = "running"
            with m.State("running"):
                m.d.sync += count.eq(0)
                with m.If(~ready):
                    m.d.sync += self.hold.eq(1)
                    m.next = "held"
                with m.Elif(self.request):
                    m.next = "draining"
            with m.State("draining"):
                m.d.comb += self.stop.eq(1)
                with m.If(~ready | self.quiet | (count == DRAIN_CYCLES)):
                    m.d.sync += [self.hold.eq(1), count.eq(0)]
                    m.next = "held"
        return m
