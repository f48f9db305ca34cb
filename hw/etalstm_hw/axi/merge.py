"""Lets two readers use one read port."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import AXI4Read


class ReadMerge(wiring.Component):
    """Joins two readers onto a port without IDs, which answers in the order of the addresses.

    An address goes out 1 cycle after it was offered, one a cycle; the second reader's come first. Data pass in the same
    cycle. A reader that does not take its data stalls the other's: each should ask only for what it has room for.

    Parameters
    ----------
    address_bits, data_bits : int
        Sizes of all ports.
    outstanding : int
        Reads in flight at the port, both readers' together.

    Members
    -------
    readers : :py:`In(AXI4Read(address_bits, data_bits)).array(2)`
    port : :py:`Out(AXI4Read(address_bits, data_bits))`
    """

    def __init__(self, address_bits: int, data_bits: int, *, outstanding: int):
        self._outstanding = outstanding
        super().__init__(
            {
                "readers": In(AXI4Read(address_bits, data_bits)).array(2),
                "port": Out(AXI4Read(address_bits, data_bits)),
            }
        )

    def elaborate(self, platform):
        """A register for the address, a FIFO for whose data come next."""
        m = Module()
        port, readers = self.port, self.readers
        m.submodules.order = order = SyncFIFO(width=1, depth=self._outstanding)
        choice, free = Signal(), Signal()
        m.d.comb += [
            choice.eq(readers[1].arvalid),
            free.eq(order.w_rdy & (~port.arvalid | port.arready)),
            order.w_data.eq(choice),
            order.w_en.eq(free & (readers[0].arvalid | readers[1].arvalid)),
            readers[0].arready.eq(free & ~choice),
            readers[1].arready.eq(free),
        ]
        with m.If(order.w_en):
            m.d.sync += port.arvalid.eq(1)
            for name in ("araddr", "arlen", "arsize", "arburst"):
                m.d.sync += getattr(port, name).eq(Mux(choice, *(getattr(reader, name) for reader in readers[::-1])))
        with m.Elif(port.arready):
            m.d.sync += port.arvalid.eq(0)
        for n, reader in enumerate(readers):
            m.d.comb += reader.rvalid.eq(port.rvalid & (order.r_data == n))
            m.d.comb += [getattr(reader, name).eq(getattr(port, name)) for name in ("rdata", "rresp", "rlast")]
        m.d.comb += port.rready.eq(Array(reader.rready for reader in readers)[order.r_data])
        m.d.comb += order.r_en.eq(port.rvalid & port.rready & port.rlast)
        return m
