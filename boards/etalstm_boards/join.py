"""Joins two buses onto one port of the memory, and registers what goes to a port and what comes from it."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from etalstm_boards.axi3 import AXI3, ID_BITS
from etalstm_boards.crossing import channels_of
from etalstm_hw.elastic import Elastic

SIDES = 2
SIDE_ID_BITS = ID_BITS - 1
AHEAD = 32  # write bursts whose addresses go out before their data; as many as an isolator lets through
_ADDRESS = ("addr", "len", "size", "burst")


class Slice(wiring.Component):
    """Passes a bus on, each channel a cycle later, a transfer a cycle.

    Every output comes from a register, ``valid`` and ``ready`` too, so no path leads from one side to the other.

    Parameters
    ----------
    bus : wiring.Signature
        An AXI3, AXI4 or AXI4Read manager.

    Members
    -------
    manager : :py:`In(bus)`
    port : :py:`Out(bus)`
    """

    def __init__(self, bus: wiring.Signature):
        self._bus = bus
        super().__init__({"manager": In(bus), "port": Out(bus)})

    def elaborate(self, platform):
        """For each channel a register for a transfer that cannot go on, and one for the output."""
        m = Module()
        for channel, payload in channels_of(self._bus).items():
            forward = self._bus.members[f"{channel}valid"].flow is Out
            source, sink = (self.manager, self.port) if forward else (self.port, self.manager)
            given, shown = (Cat(getattr(bus, name) for name in payload) for bus in (source, sink))
            valid, ready = (getattr(sink, f"{channel}{name}") for name in ("valid", "ready"))
            m.submodules[channel] = elastic = Elastic(len(given))
            moves, register = Signal(name=f"{channel}_moves"), Signal(len(given), name=channel, reset_less=True)
            m.d.comb += [
                elastic.i.p.eq(given),
                elastic.i.valid.eq(getattr(source, f"{channel}valid")),
                getattr(source, f"{channel}ready").eq(elastic.i.ready),
                moves.eq(~valid | ready),
                elastic.o.ready.eq(moves),
                shown.eq(register),
            ]
            with m.If(moves):
                m.d.sync += [valid.eq(elastic.o.valid), register.eq(elastic.o.p)]
        return m


class Joiner(wiring.Component):
    """Joins two buses onto one port, on which the highest bit of the ID names the side.

    Addresses are served in turn while both sides have some, one a cycle. Write data go out in the order of their
    addresses: a side that is slow to give write data stalls the other side's writes. Reads of the two sides may be
    answered in any order. An answer waits until its side takes it, and the answers behind it wait too: a side that is
    slow to take answers stalls the other side's. So neither side may wait for the other with a burst in flight.

    Each channel is delayed by the cycle of a :class:`Slice`; the first write data of a burst come at least two cycles
    after its address. All outputs of the port come from registers.

    Members
    -------
    sides : :py:`In(AXI3()).array(2)`
        With IDs of :data:`SIDE_ID_BITS` bits.
    port : :py:`Out(AXI3())`
    """

    def __init__(self):
        super().__init__({"sides": In(AXI3()).array(SIDES), "port": Out(AXI3())})

    def elaborate(self, platform):
        """What the slice does not take is offered again, perhaps from the other side; the slice does not mind."""
        m = Module()
        m.submodules.slice = outside = Slice(AXI3())
        wiring.connect(m, outside.port, wiring.flipped(self.port))
        m.submodules.order = order = SyncFIFOBuffered(width=1, depth=AHEAD)
        room = Signal()
        m.d.sync += room.eq(order.w_level < AHEAD - 1)  # a cycle late, in which one more may come
        self._addresses(m, outside.manager, "ar", 1)
        taken, choice = self._addresses(m, outside.manager, "aw", room)
        m.d.comb += [order.w_en.eq(taken), order.w_data.eq(choice)]
        self._write_data(m, outside.manager, order)
        for channel in ("r", "b"):
            self._answers(m, outside.manager, channel)
        return m

    def _addresses(self, m, port, channel, room):
        """Offer an address, of the other side than the last one if both have some; tell when it is taken, and whose."""
        valid, ready = f"{channel}valid", f"{channel}ready"
        offers = Cat(getattr(side, valid) for side in self.sides)
        taken, choice, last = (Signal(name=f"{channel}_{name}") for name in ("taken", "choice", "last"))
        m.d.comb += [
            choice.eq(Mux(offers.all(), ~last, offers[1])),
            getattr(port, valid).eq(offers.any() & room),
            taken.eq(getattr(port, valid) & getattr(port, ready)),
            getattr(port, f"{channel}id").eq(Cat(self._chosen(channel, "id", choice)[:SIDE_ID_BITS], choice)),
            *(getattr(port, channel + name).eq(self._chosen(channel, name, choice)) for name in _ADDRESS),
            *(getattr(side, ready).eq(taken & (choice == n)) for n, side in enumerate(self.sides)),
        ]
        with m.If(taken):
            m.d.sync += last.eq(choice)
        return taken, choice

    def _write_data(self, m, port, order):
        """Pass the data of the side whose address is the oldest without them."""
        choice = order.r_data
        m.d.comb += [
            port.wvalid.eq(self._chosen("w", "valid", choice) & order.r_rdy),
            *(getattr(port, f"w{name}").eq(self._chosen("w", name, choice)) for name in ("data", "strb", "last")),
            *(side.wready.eq(port.wready & order.r_rdy & (choice == n)) for n, side in enumerate(self.sides)),
            order.r_en.eq(port.wvalid & port.wready & port.wlast),
        ]

    def _answers(self, m, port, channel):
        """Pass an answer to the side that its ID names."""
        number, valid, ready = (getattr(port, f"{channel}{name}") for name in ("id", "valid", "ready"))
        choice = number[-1]
        others = [name for name in channels_of(AXI3())[channel] if name != f"{channel}id"]
        m.d.comb += ready.eq(self._chosen(channel, "ready", choice))
        for n, side in enumerate(self.sides):
            m.d.comb += [
                *(getattr(side, name).eq(getattr(port, name)) for name in others),
                getattr(side, f"{channel}id").eq(number[:SIDE_ID_BITS]),
                getattr(side, f"{channel}valid").eq(valid & (choice == n)),
            ]

    def _chosen(self, channel, name, choice):
        return Mux(choice, *(getattr(side, channel + name) for side in reversed(list(self.sides))))
