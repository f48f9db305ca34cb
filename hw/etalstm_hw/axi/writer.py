"""Writes a stream of beats through an AXI port, as a stream of transfers says."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import BURST_BEATS, INCR, AXI4Write
from etalstm_hw.axi.bursts import Bursts, Transfer, WriteTag
from etalstm_hw.contract import KIND_BITS


class _Committed(data.StructLayout):
    """A burst whose address has gone out and whose data have not."""

    def __init__(self):
        super().__init__({"length": range(BURST_BEATS), "kind": KIND_BITS})


class Writer(wiring.Component):
    """Turns transfers and their beats into bursts.

    Addresses go out 2 cycles after their transfer is taken, at one burst a cycle (single beats too), data one beat a
    cycle, 1 cycle after they were taken and never before the address is offered. Addresses run at most ``ahead`` bursts
    ahead of data. A stalled port stalls both inputs. One ID: responses arrive in order.

    While ``drain`` is set no burst begins; those that have begun end with beats whose strobes are 0, taking no data.
    What these write is undefined: memory with check bits writes whole beats, whatever the strobes. ``drain`` may be
    released, or the writer be reset, when ``busy`` has gone.

    Parameters
    ----------
    address_bits, data_bits : int
        Sizes of the memory port.
    beats_bits : int
        Bits of a transfer's number of beats.
    outstanding : int
        Bursts without a response; single beats at full speed need the memory's latency.
    ahead : int
        Bursts whose address has gone out before their data.

    Members
    -------
    i : :py:`In(stream.Signature(Transfer(address_bits, beats_bits, WriteTag())))`
        Where to write; ``tag.final`` marks the last transfer of an instruction.
    data : :py:`In(stream.Signature(data_bits))`
        What to write there.
    axi : :py:`Out(AXI4Write(address_bits, data_bits))`
    done : :py:`Out(1)`
        Set for a cycle when the response to a ``final`` transfer, and so to all before it, has arrived. Not set any
        more after an error.
    beats, kind : :py:`Out(1)`, :py:`Out(KIND_BITS)`
        A beat was taken in this cycle, and what it counts as.
    drain : :py:`In(1)`
    busy : :py:`Out(1)`
        A transfer was taken and the response to it is missing.
    error : :py:`Out(1)`
        A response was SLVERR or DECERR; sticky until reset.
    """

    def __init__(self, address_bits: int, data_bits: int, beats_bits: int, *, outstanding: int = 32, ahead: int = 8):
        self._sizes = (address_bits, data_bits, beats_bits)
        self._outstanding, self._ahead = outstanding, ahead
        super().__init__(
            {
                "i": In(stream.Signature(Transfer(address_bits, beats_bits, WriteTag()))),
                "data": In(stream.Signature(data_bits)),
                "axi": Out(AXI4Write(address_bits, data_bits)),
                "done": Out(1),
                "beats": Out(1),
                "kind": Out(KIND_BITS),
                "drain": In(1),
                "busy": Out(1),
                "error": Out(1),
            }
        )

    def elaborate(self, platform):
        """Three channels, joined by what the address channel has committed the other two to."""
        m = Module()
        m.submodules.bursts = bursts = Bursts(*self._sizes, tag=WriteTag())
        m.submodules.commitments = commitments = SyncFIFO(width=_Committed().size, depth=self._ahead)
        m.submodules.finals = finals = SyncFIFO(width=1, depth=self._outstanding)
        wiring.connect(m, wiring.flipped(self.i), bursts.i)
        self._address(m, bursts, commitments, finals)
        self._data(m, commitments)
        self._response(m, finals)
        m.d.comb += self.busy.eq(bursts.o.valid | finals.r_rdy)
        return m

    def _address(self, m, bursts, commitments, finals):
        axi, burst = self.axi, bursts.o.p
        committed = _Committed()(commitments.w_data)
        begin = Signal()
        m.d.comb += [
            bursts.clear.eq(self.drain),
            begin.eq(bursts.o.valid & commitments.w_rdy & finals.w_rdy & (~axi.awvalid | axi.awready) & ~self.drain),
            bursts.o.ready.eq(begin),
            commitments.w_en.eq(begin),
            committed.length.eq(burst.length),
            committed.kind.eq(burst.tag.kind),
            finals.w_en.eq(begin),
            finals.w_data.eq(burst.last & burst.tag.final),
            axi.awsize.eq((self._sizes[1] // 8).bit_length() - 1),
            axi.awburst.eq(INCR),
        ]
        with m.If(begin):
            m.d.sync += [axi.awaddr.eq(burst.address), axi.awlen.eq(burst.length), axi.awvalid.eq(1)]
        with m.Elif(axi.awready):
            m.d.sync += axi.awvalid.eq(0)

    def _data(self, m, commitments):
        axi = self.axi
        committed = _Committed()(commitments.r_data)
        written = Signal(range(BURST_BEATS))
        room, load, last, strobe = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            room.eq(commitments.r_rdy & (~axi.wvalid | axi.wready)),
            load.eq(room & (self.data.valid | self.drain)),
            self.data.ready.eq(room & ~self.drain),
            last.eq(written == committed.length),
            commitments.r_en.eq(load & last),
            axi.wstrb.eq(strobe.replicate(len(axi.wstrb))),
            self.beats.eq(load & ~self.drain),
            self.kind.eq(committed.kind),
        ]
        # Registers, because what is offered must not change when `drain` is set.
        with m.If(load):
            m.d.sync += [
                axi.wvalid.eq(1),
                axi.wdata.eq(self.data.payload),
                axi.wlast.eq(last),
                strobe.eq(~self.drain),
                written.eq(Mux(last, 0, written + 1)),
            ]
        with m.Elif(axi.wready):
            m.d.sync += axi.wvalid.eq(0)

    def _response(self, m, finals):
        axi = self.axi
        m.d.comb += [axi.bready.eq(1), finals.r_en.eq(axi.bvalid)]
        m.d.sync += self.done.eq(axi.bvalid & finals.r_data & ~axi.bresp[1] & ~self.error & ~self.drain)
        with m.If(axi.bvalid & axi.bresp[1]):
            m.d.sync += self.error.eq(1)
