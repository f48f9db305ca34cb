"""Sequences the resets of the machine, and of the host's path to the memory."""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

HOLD_CYCLES = 64  # long enough for every clock of the board to see a reset
STOP_CYCLES = 16  # long enough for a stop to reach every clock of the board, and the registers behind it
DRAIN_CYCLES = 1 << 14  # 164 µs at 100 MHz: far more than the memory takes to answer everything


class ResetSequencer(wiring.Component):
    """Keeps the machine in reset until clocks and memory are ready, and resets it in order.

    From reset: wait until ``locked`` and ``calibrated``, then ``HOLD_CYCLES`` more, then let the machine run. A
    request, or the loss of the host's link, first stops the memory ports and waits until they are quiet, at most
    ``DRAIN_CYCLES``; then the machine is reset. A memory that is too hot (``trip``) or a lost clock stops the ports
    too, and resets the machine ``STOP_CYCLES`` later; after a trip it stays in reset until this domain is reset.

    The reset of the machine reaches the queues before the ports asynchronously. So ``hold`` never rises before ``stop``
    has reached every port. Both come from registers.

    Members
    -------
    locked, calibrated, trip : :py:`In(1)`   clocks run; the memory is ready; the memory is too hot
    request : :py:`In(1)`                    reset the machine, at least one cycle
    quiet : :py:`In(1)`                      nothing is in flight at the memory ports
    stop : :py:`Out(1)`                      let nothing of the machine into the memory
    hold : :py:`Out(1)`                      keep the machine in reset
    tripped : :py:`Out(1)`                   the memory was too hot
    """

    def __init__(self):
        super().__init__(
            {
                "locked": In(1),
                "calibrated": In(1),
                "trip": In(1),
                "request": In(1),
                "quiet": In(1),
                "stop": Out(1, init=1),
                "hold": Out(1, init=1),
                "tripped": Out(1),
            }
        )

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
                # the stopped ports take late answers of the memory
                with m.If(~ready | self.request):
                    m.d.sync += count.eq(0)
                with m.Elif(count == HOLD_CYCLES):
                    m.d.sync += [self.hold.eq(0), self.stop.eq(0)]
                    m.next = "running"
            with m.State("running"):
                m.d.sync += count.eq(0)
                with m.If(~ready | self.request):
                    m.d.sync += self.stop.eq(1)
                    m.next = "draining"
            with m.State("draining"):
                with m.If((count >= STOP_CYCLES) & (~ready | self.quiet | (count == DRAIN_CYCLES))):
                    m.d.sync += [self.hold.eq(1), count.eq(0)]
                    m.next = "held"
        return m


class Gate(wiring.Component):
    """Closes a path to the memory in order: first stops the port, then resets the logic in front of it.

    From reset both are set. When ``up`` is low, even for one cycle, ``stop`` rises, and ``hold`` ``STOP_CYCLES`` later.
    Both stay for at least ``HOLD_CYCLES`` more, and until ``up`` is high. They fall together. Both come from registers.

    Members
    -------
    up : :py:`In(1)`     the path may be open
    stop : :py:`Out(1)`  let nothing more into the memory
    hold : :py:`Out(1)`  keep the logic in front of the port in reset
    """

    def __init__(self):
        super().__init__({"up": In(1), "stop": Out(1, init=1), "hold": Out(1, init=1)})

    def elaborate(self, platform):
        """Three states: closed, open, stopping."""
        m = Module()
        count = Signal(range(HOLD_CYCLES + 1))
        with m.If(count != HOLD_CYCLES):
            m.d.sync += count.eq(count + 1)
        with m.FSM():
            with m.State("closed"):
                with m.If(self.up & (count == HOLD_CYCLES)):
                    m.d.sync += [self.hold.eq(0), self.stop.eq(0)]
                    m.next = "open"
            with m.State("open"):
                m.d.sync += count.eq(0)
                with m.If(~self.up):
                    m.d.sync += self.stop.eq(1)
                    m.next = "stopping"
            with m.State("stopping"):
                with m.If(count == STOP_CYCLES):
                    m.d.sync += [self.hold.eq(1), count.eq(0)]
                    m.next = "closed"
        return m
