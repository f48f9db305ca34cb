"""Lets several managers use one memory port."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import AXI4


class PortArbiter(wiring.Component):
    """Joins managers without IDs onto one port, on which the ID names the manager.

    Addresses are served in turn (round-robin), one a cycle, 1 cycle after they were offered; data and responses pass in
    the same cycle. Write data go out in the order of their addresses, so a manager may only offer an address whose data
    do not wait for another manager. A manager that is slow to give write data stalls those behind it.

    Reads of different managers may be answered in any order. A manager must have room for all that it has asked for:
    ``rready`` and ``bready`` of the port are always set, those of the managers are not looked at.

    Parameters
    ----------
    address_bits, data_bits : int
        Sizes of all ports.
    managers : int
        How many, at least 2.
    outstanding : int
        Reads in flight at the port, all managers' together.
    ahead : int
        Write bursts whose address has gone out before their data.

    Members
    -------
    managers : :py:`In(AXI4(address_bits, data_bits)).array(managers)`
    port : :py:`Out(AXI4(address_bits, data_bits, id_bits))`
    """

    def __init__(self, address_bits: int, data_bits: int, managers: int, *, outstanding: int, ahead: int = 16):
        if managers < 2:
            raise ValueError(f"a shared port needs at least 2 managers, got {managers}")
        self._count, self._outstanding, self._ahead = managers, outstanding, ahead
        self._id_bits = (managers - 1).bit_length()
        super().__init__(
            {
                "managers": In(AXI4(address_bits, data_bits)).array(managers),
                "port": Out(AXI4(address_bits, data_bits, self._id_bits)),
            }
        )

    def elaborate(self, platform):
        """Two arbiters; everything else follows the ID or the order of the write addresses."""
        m = Module()
        m.submodules.later = later = SyncFIFO(width=self._id_bits, depth=self._ahead - 1)
        port, reads = self.port, Signal(range(self._outstanding + 1))
        _, requested = self._arbitrate(m, "ar", reads != self._outstanding)
        m.d.sync += reads.eq(reads + requested - (port.rvalid & port.rready & port.rlast))
        choice, taken = self._arbitrate(m, "aw", later.w_rdy)
        self._write_data(m, later, choice, taken)
        self._respond(m, "r", self.port.rid, ("rdata", "rresp", "rlast"))
        self._respond(m, "b", self.port.bid, ("bresp",))
        return m

    def _arbitrate(self, m, channel, enable):
        """Hand one manager's address to the port's register; give which one, and whether."""
        port, count = self.port, self._count
        valid, ready = getattr(port, f"{channel}valid"), getattr(port, f"{channel}ready")
        wanted = Cat(getattr(manager, f"{channel}valid") for manager in self.managers)
        last, choice = (Signal(self._id_bits, name=f"{channel}_{name}") for name in ("last", "choice"))
        taken = Signal(name=f"{channel}_taken")
        m.d.comb += taken.eq(wanted.any() & enable & (~valid | ready))
        with m.Switch(last):
            for previous in range(count):
                with m.Case(previous):
                    # Later assignments win: the manager after the previous one comes first.
                    for distance in reversed(range(1, count + 1)):
                        candidate = (previous + distance) % count
                        with m.If(wanted[candidate]):
                            m.d.comb += choice.eq(candidate)
        with m.If(taken):
            m.d.sync += [valid.eq(1), last.eq(choice), getattr(port, f"{channel}id").eq(choice)]
        with m.Elif(ready):
            m.d.sync += valid.eq(0)
        with m.Switch(choice):
            for n, manager in enumerate(self.managers):
                with m.Case(n):
                    m.d.comb += getattr(manager, f"{channel}ready").eq(taken)
                    with m.If(taken):
                        for name in ("addr", "len", "size", "burst"):
                            m.d.sync += getattr(port, channel + name).eq(getattr(manager, channel + name))
        return choice, taken

    def _write_data(self, m, later, choice, taken):
        """Pass the data of the manager whose address is the oldest without them.

        Which one that is lies in registers, as much logic of the manager hangs on it; the next ones are kept for later.
        """
        port, there, owner, ends = self.port, Signal(), Signal(self._id_bits), Signal()
        with m.If(there), m.Switch(owner):
            for n, manager in enumerate(self.managers):
                with m.Case(n):
                    m.d.comb += [port.wvalid.eq(manager.wvalid), manager.wready.eq(port.wready)]
                    for name in ("wdata", "wstrb", "wlast"):
                        m.d.comb += getattr(port, name).eq(getattr(manager, name))
        m.d.comb += [
            ends.eq(port.wvalid & port.wready & port.wlast),
            later.w_data.eq(choice),
            later.w_en.eq(taken & ((there & ~ends) | later.r_rdy)),
            later.r_en.eq(ends),
        ]
        with m.If(~there | ends):
            m.d.sync += [there.eq(later.r_rdy | taken), owner.eq(Mux(later.r_rdy, later.r_data, choice))]

    def _respond(self, m, channel, number, payload):
        """Pass what the memory answers to the manager that the ID names, which has room for it."""
        port = self.port
        for n, manager in enumerate(self.managers):
            m.d.comb += getattr(manager, f"{channel}valid").eq(getattr(port, f"{channel}valid") & (number == n))
            for name in payload:
                m.d.comb += getattr(manager, name).eq(getattr(port, name))
        m.d.comb += getattr(port, f"{channel}ready").eq(1)
