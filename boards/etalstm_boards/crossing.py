"""Takes an AXI bus from one clock to another."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import AsyncFIFO
from amaranth.lib.wiring import In, Out

DEPTH = 32  # a distributed RAM of less depth costs as much; this one hides the round trip of the pointers
CHANNELS = ("aw", "w", "b", "ar", "r")
_BEHIND = 2  # words that may come between the moment of a FIFO's level and the one at which `ready` tells of it


def channels_of(bus: wiring.Signature) -> dict[str, list[str]]:
    """List the payload signals of every channel that a bus has.

    Returns
    -------
    dict
        From "aw", "w", "b", "ar" or "r" to the names of its members, without valid and ready.
    """
    names = list(bus.members)
    return {
        channel: [n for n in names if n.startswith(channel) and n not in (f"{channel}valid", f"{channel}ready")]
        for channel in CHANNELS
        if f"{channel}valid" in names
    }


class Crossing(wiring.Component):
    """Carries every channel of a bus through a FIFO from one clock domain to another; nothing is lost or reordered.

    Throughput: a beat per cycle of the slower clock. Latency: some cycles of both clocks. No combinational path leads
    from one side to the other, so each may lie in a region of the chip of its own. What tells that a payload is taken
    comes from a register: a machine's ports have long paths behind it. Both domains must be reset together, for at
    least eight cycles of either clock.

    Parameters
    ----------
    bus : wiring.Signature
        An AXI4, AXI4Read or AXI4Lite manager.
    near, far : str
        Clock domain of the manager, and of the subordinate.

    Members
    -------
    manager : :py:`In(bus)`
        From the manager, in domain `near`.
    port : :py:`Out(bus)`
        To the subordinate, in domain `far`.
    """

    def __init__(self, bus: wiring.Signature, *, near: str, far: str):
        self._bus, self._near, self._far = bus, near, far
        super().__init__({"manager": In(bus), "port": Out(bus)})

    def elaborate(self, platform):
        """One FIFO for each channel, in the direction of its payload."""
        m = Module()
        for channel, payload in channels_of(self._bus).items():
            forward = self._bus.members[f"{channel}valid"].flow is Out
            sides = [(self.manager, self._near), (self.port, self._far)]
            (source, write), (sink, read) = sides if forward else reversed(sides)
            words = [getattr(source, name) for name in payload]
            fifo = AsyncFIFO(width=len(Cat(words)), depth=DEPTH, w_domain=write, r_domain=read)
            m.submodules[f"{channel}_fifo"] = fifo
            ready = Signal(name=f"{channel}_ready")
            m.d[write] += ready.eq(fifo.w_level < DEPTH - _BEHIND)
            m.d.comb += [
                fifo.w_data.eq(Cat(words)),
                fifo.w_en.eq(getattr(source, f"{channel}valid") & ready),
                getattr(source, f"{channel}ready").eq(ready),
                Cat(getattr(sink, name) for name in payload).eq(fifo.r_data),
                getattr(sink, f"{channel}valid").eq(fifo.r_rdy),
                fifo.r_en.eq(getattr(sink, f"{channel}ready")),
            ]
        return m
