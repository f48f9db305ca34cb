"""The bridge from the host's DMA to the memory: from XDMA's wide AXI4 bus to bursts that a port of the memory takes."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_boards.axi3 import ADDRESS_BITS, DATA_BITS
from etalstm_hw.axi.axi import AXI4, BURST_BEATS, INCR

DMA_ADDRESS_BITS = 64
DMA_ID_BITS = 4
_AHEAD = 32  # bursts of the host in flight, each way
_BEAT_SIZE = (DATA_BITS // 8 - 1).bit_length()


class HostBridge(wiring.Component):
    """Splits the host's bursts into bursts of at most 16 beats of 256 bits, and joins the answers again.

    Reads are answered in the order of their addresses, and so are writes, with the worst answer of their parts. One
    beat of the memory's width passes per cycle each way. The host must use incrementing bursts of whole beats, as XDMA
    does (unused bytes of the first and last beat have no strobe). Address bits above the memory's are ignored.

    Parameters
    ----------
    data_bits : int
        Width of the host's bus, 256 or 512.

    Members
    -------
    host : :py:`In(AXI4(64, data_bits, 4))`
    port : :py:`Out(AXI4(33, 256))`
    """

    def __init__(self, data_bits: int):
        if data_bits not in (DATA_BITS, 2 * DATA_BITS):
            raise ValueError(f"the host's bus must have {DATA_BITS} or {2 * DATA_BITS} bits, got {data_bits}")
        self._parts = data_bits // DATA_BITS  # of a beat of the host
        self._host_beats = BURST_BEATS // self._parts  # of the host in a full burst
        super().__init__(
            {
                "host": In(AXI4(DMA_ADDRESS_BITS, data_bits, DMA_ID_BITS)),
                "port": Out(AXI4(ADDRESS_BITS, DATA_BITS)),
            }
        )

    def elaborate(self, platform):
        """Two splitters of addresses, and paths of read data, write data and write answers."""
        m = Module()
        self._read_data(m, self._split(m, "ar"))
        self._write_answers(m, self._split(m, "aw"))
        self._write_data(m)
        return m

    def _split(self, m, channel):
        """Turn one address of the host into several of the memory; give the FIFO of (ID, length - 1)."""
        host, port, name = self.host, self.port, channel
        order = SyncFIFO(width=DMA_ID_BITS + 8, depth=_AHEAD)
        m.submodules[f"{name}_order"] = order
        address = Signal(ADDRESS_BITS, name=f"{name}_address")
        left = Signal(9, name=f"{name}_left")  # beats of the host without an address yet
        taken, goes = Signal(name=f"{name}_taken"), Signal(name=f"{name}_goes")
        length = getattr(host, f"{name}len")
        beat_bytes = self._parts * DATA_BITS // 8
        beats = Signal(range(self._host_beats + 1), name=f"{name}_beats")
        m.d.comb += [
            taken.eq(getattr(host, f"{name}valid") & (left == 0) & order.w_rdy),
            getattr(host, f"{name}ready").eq((left == 0) & order.w_rdy),
            order.w_en.eq(taken),
            order.w_data.eq(Cat(length, getattr(host, f"{name}id"))),
            beats.eq(Mux(left > self._host_beats, self._host_beats, left)),
            getattr(port, f"{name}valid").eq(left != 0),
            getattr(port, f"{name}addr").eq(address),
            getattr(port, f"{name}len").eq(beats * self._parts - 1),
            getattr(port, f"{name}size").eq(_BEAT_SIZE),
            getattr(port, f"{name}burst").eq(INCR),
            goes.eq((left != 0) & getattr(port, f"{name}ready")),
        ]
        with m.If(taken):
            low = (beat_bytes - 1).bit_length()
            m.d.sync += [address.eq(getattr(host, f"{name}addr")[low:] << low), left.eq(length + 1)]
        with m.If(goes):
            m.d.sync += [address.eq(address + beats * beat_bytes), left.eq(left - beats)]
        return order

    def _read_data(self, m, order):
        """Join the parts of a host's beat; end a burst where the host's ends."""
        host, port = self.host, self.port
        part, beat = Signal(range(max(2, self._parts))), Signal(8)
        before = Signal(DATA_BITS, reset_less=True)
        worst = Signal(2)
        complete, moved = Signal(), Signal()
        m.d.comb += [
            complete.eq(part == self._parts - 1),
            host.rvalid.eq(port.rvalid & complete & order.r_rdy),
            port.rready.eq(order.r_rdy & (~complete | host.rready)),
            moved.eq(port.rvalid & port.rready),
            host.rdata.eq(Cat(before, port.rdata) if self._parts == 2 else port.rdata),
            host.rresp.eq(_worse(worst, port.rresp)),
            host.rid.eq(order.r_data[8:]),
            host.rlast.eq(beat == order.r_data[:8]),
            order.r_en.eq(host.rvalid & host.rready & host.rlast),
        ]
        with m.If(moved):
            m.d.sync += [
                part.eq(Mux(complete, 0, part + 1)),
                worst.eq(Mux(complete, 0, host.rresp)),
                before.eq(port.rdata),
            ]
            with m.If(complete):
                m.d.sync += beat.eq(Mux(host.rlast, 0, beat + 1))

    def _write_data(self, m):
        """Write a host's beat part by part; end bursts where the addresses were split."""
        host, port = self.host, self.port
        part, beat = Signal(range(max(2, self._parts))), Signal(range(self._host_beats))
        complete = Signal()
        m.d.comb += [
            complete.eq(part == self._parts - 1),
            port.wvalid.eq(host.wvalid),
            host.wready.eq(port.wready & complete),
            port.wdata.eq(host.wdata.word_select(part, DATA_BITS)),
            port.wstrb.eq(host.wstrb.word_select(part, DATA_BITS // 8)),
            port.wlast.eq(complete & (host.wlast | (beat == self._host_beats - 1))),
        ]
        with m.If(port.wvalid & port.wready):
            m.d.sync += part.eq(Mux(complete, 0, part + 1))
            with m.If(complete):
                m.d.sync += beat.eq(Mux(port.wlast, 0, beat + 1))

    def _write_answers(self, m, order):
        """Answer each burst of the host once, after all of the memory's bursts that it was split into."""
        host, port = self.host, self.port
        bursts, worst = Signal(8), Signal(2)  # answered already
        shift = (self._host_beats - 1).bit_length()
        final = Signal()
        m.d.comb += [
            final.eq(bursts == order.r_data[:8] >> shift),
            host.bvalid.eq(port.bvalid & final & order.r_rdy),
            port.bready.eq(order.r_rdy & (~final | host.bready)),
            host.bresp.eq(_worse(worst, port.bresp)),
            host.bid.eq(order.r_data[8:]),
            order.r_en.eq(host.bvalid & host.bready),
        ]
        with m.If(port.bvalid & port.bready):
            m.d.sync += [bursts.eq(Mux(final, 0, bursts + 1)), worst.eq(Mux(final, 0, host.bresp))]


def _worse(one, other):
    """The higher of two answers: DECERR over SLVERR over OKAY."""
    return Mux(one > other, one, other)
