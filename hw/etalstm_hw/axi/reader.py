"""Reads transfers from an AXI port as one stream of beats."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO, SyncFIFOBuffered
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import BURST_BEATS, INCR, AXI4Read
from etalstm_hw.axi.bursts import Bursts, Transfer


class ReadBeat(data.StructLayout):
    """A beat that was read.

    Members
    -------
    data : its bytes, little-endian
    error : it came with SLVERR or DECERR
    last : the last of its transfer
    """

    def __init__(self, data_bits: int):
        super().__init__({"data": data_bits, "error": 1, "last": 1})


class Reader(wiring.Component):
    """Turns transfers into a stream of beats, requesting ahead of time what it has room for.

    Addresses go out 2 cycles after their transfer is taken, at one burst a cycle, while data of earlier ones still
    arrive; data come out 2 cycles after they arrived, one beat a cycle. A burst is requested only when the FIFO has
    room for all of it, so a stalled output stops requests, never ``rready``. One ID: data arrive in order.

    While ``drain`` is set nothing new is requested and what arrives is dropped, ``o.valid`` falling at once. It
    may be released, or the reader be reset, when ``busy`` has gone: data of a request made before a reset would be
    taken for those of one made after it.

    Parameters
    ----------
    address_bits, data_bits : int
        Sizes of the memory port.
    beats_bits : int
        Bits of a transfer's number of beats.
    depth : int
        Beats of the FIFO, at least 16: what is in flight or waiting. At full speed at least the memory's latency.
    outstanding : int
        Bursts in flight.

    Members
    -------
    i : :py:`In(stream.Signature(Transfer(address_bits, beats_bits)))`
        What to read.
    o : :py:`Out(stream.Signature(ReadBeat(data_bits)))`
        The beats, ``last`` with each transfer's last.
    axi : :py:`Out(AXI4Read(address_bits, data_bits))`
    drain : :py:`In(1)`
    busy : :py:`Out(1)`
        A transfer was taken and not all of its beats have been handed out or dropped.
    error : :py:`Out(1)`
        A beat came with an error; sticky until reset.
    """

    def __init__(self, address_bits: int, data_bits: int, beats_bits: int, *, depth: int = 128, outstanding: int = 8):
        if depth < BURST_BEATS:
            raise ValueError(f"depth must hold a burst of {BURST_BEATS} beats, got {depth}")
        self._sizes = (address_bits, data_bits, beats_bits)
        self._depth, self._outstanding = depth, outstanding
        super().__init__(
            {
                "i": In(stream.Signature(Transfer(address_bits, beats_bits))),
                "o": Out(stream.Signature(ReadBeat(data_bits))),
                "axi": Out(AXI4Read(address_bits, data_bits)),
                "drain": In(1),
                "busy": Out(1),
                "error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Requests on the left, data on the right; `free` counts the beats that may still be requested."""
        m = Module()
        beat = ReadBeat(self._sizes[1])
        m.submodules.bursts = bursts = Bursts(*self._sizes)
        # The FIFO counts its output register as an entry: its memory has `depth` of them.
        m.submodules.fifo = fifo = SyncFIFOBuffered(width=beat.size, depth=self._depth + 1)
        m.submodules.ends = ends = SyncFIFO(width=1, depth=self._outstanding)
        axi, burst = self.axi, bursts.o.p

        free = Signal(range(self._depth + 1), init=self._depth)
        request, popped = Signal(), Signal()
        wiring.connect(m, wiring.flipped(self.i), bursts.i)
        m.d.comb += [
            bursts.clear.eq(self.drain),
            request.eq(
                bursts.o.valid & ends.w_rdy & (free > burst.length) & (~axi.arvalid | axi.arready) & ~self.drain
            ),
            bursts.o.ready.eq(request),
            ends.w_en.eq(request),
            ends.w_data.eq(burst.last),
            axi.arsize.eq((self._sizes[1] // 8).bit_length() - 1),
            axi.arburst.eq(INCR),
            popped.eq(fifo.r_rdy & fifo.r_en),
        ]
        with m.If(request):
            m.d.sync += [axi.araddr.eq(burst.address), axi.arlen.eq(burst.length), axi.arvalid.eq(1)]
        with m.Elif(axi.arready):
            m.d.sync += axi.arvalid.eq(0)
        m.d.sync += free.eq(free - Mux(request, burst.length + 1, 0) + popped)

        arrived = beat(fifo.w_data)
        m.d.comb += [
            axi.rready.eq(fifo.w_rdy),
            fifo.w_en.eq(axi.rvalid),
            arrived.data.eq(axi.rdata),
            arrived.error.eq(axi.rresp[1]),
            arrived.last.eq(axi.rlast & ends.r_data),
            ends.r_en.eq(axi.rvalid & axi.rready & axi.rlast),
            Cat(self.o.p).eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy & ~self.drain),
            fifo.r_en.eq(self.o.ready | self.drain),
            self.busy.eq(bursts.o.valid | (free != self._depth)),
        ]
        with m.If(axi.rvalid & axi.rready & axi.rresp[1]):
            m.d.sync += self.error.eq(1)
        return m
