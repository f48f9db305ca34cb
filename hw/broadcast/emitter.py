"""Sends the nonzero scalars of a block, in canonical order."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw import contract
from etalstm.hw.broadcast.blocks import BlockLayout
from etalstm.hw.contract import FloatFormat
from etalstm.hw.stream import Scalar


class ScalarEmitter(wiring.Component):
    """Walks through a block and sends what is not zero, one scalar a cycle at most.

    One word a cycle is looked at; a zero costs that cycle and nothing else. Two pipeline stages: the buffer's read, and
    the output register. A stalled output stalls both.

    Which sums have begun is kept in a bit for each inner index: a scalar that is the first of its sums says so, and
    after the last block with ``finish`` the sums that never began are sent as ``empty``.

    Parameters
    ----------
    format : FloatFormat
    lanes, beat_words : int
        Words of a vector and of a beat.
    words : int
        Size of one buffer in words.

    Members
    -------
    i : :py:`In(stream.Signature(BlockLayout()))`      blocks that lie in the buffer
    release : :py:`Out(1)`                             the block is sent, its bank is free
    read_address, read_enable, read_data               the buffer's read port
    o : :py:`Out(stream.Signature(Scalar(format)))`    scalars
    seen, skipped : :py:`Out(1)`                       a word was looked at; it was zero
    busy : :py:`Out(1)`                                something is still to be sent
    """

    def __init__(self, format: FloatFormat, *, lanes, beat_words, words):
        self._format, self._lanes, self._beat_words = format, lanes, beat_words
        self._rows = words // beat_words
        self._sums = max(words // lanes, 4 * lanes)
        super().__init__(
            {
                "i": In(stream.Signature(BlockLayout())),
                "release": Out(1),
                "read_address": Out(range(2 * self._rows)),
                "read_enable": Out(1),
                "read_data": In(data.ArrayLayout(format.width, beat_words)),
                "o": Out(stream.Signature(Scalar(format))),
                "seen": Out(1),
                "skipped": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Walk, read, output."""
        m = Module()
        offset = contract.LANE_ADDRESS_BITS
        place = data.StructLayout(
            {"outer": offset, "inner": offset, "index": range(self._sums), "word": range(self._beat_words), "last": 1}
        )
        block, walking, advance = Signal(BlockLayout()), Signal(), Signal()
        here = Signal(place)
        read, read_valid = Signal(place), Signal()
        out, out_valid = Signal(Scalar(self._format)), Signal()
        sweeping, sweep = Signal(), Signal(range(self._sums))

        m.d.comb += [
            advance.eq(~out_valid | self.o.ready),
            self.o.valid.eq(out_valid),
            self.o.payload.eq(out),
            self.busy.eq(walking | read_valid | sweeping | out_valid | self.i.valid),
            # The bits of the sums are cleared with a block's start, when those of the block before are done with.
            self.i.ready.eq(~walking & ~read_valid & ~sweeping),
        ]
        self._walk(m, block, walking, advance, here)

        zero = Signal()
        word = Array(self.read_data)[read.word]
        m.d.comb += [
            zero.eq(word[self._format.mantissa : self._format.width - 1] == 0),
            self.seen.eq(advance & read_valid),
            self.skipped.eq(advance & read_valid & zero),
        ]
        with m.If(advance):
            m.d.sync += [read_valid.eq(walking), read.eq(here)]

        sums = Signal(range(self._sums + 1))
        m.d.sync += sums.eq(Mux(block.batch_outer, block.gates * block.lanes, block.batch))
        begun, count = Signal(self._sums), Signal(range(self._sums + 1))
        begins = ~zero & ~begun.bit_select(read.index, 1)
        with m.If(self.i.valid & self.i.ready & self.i.payload.start):
            m.d.sync += [begun.eq(0), count.eq(0)]

        with m.If(advance):
            m.d.sync += [out_valid.eq(0), out.empty.eq(0), out.null.eq(0), out.last.eq(0)]
            with m.If(read_valid):
                m.d.sync += [
                    out_valid.eq(~zero),
                    out.value.eq(word),
                    out.outer.eq(read.outer),
                    out.inner.eq(read.inner),
                    out.first.eq(begins),
                    begun.eq(begun | (~zero << read.index)),
                    count.eq(count + begins),
                ]
                with m.If(read.last & block.finish & (count + begins != sums)):
                    m.d.sync += [sweeping.eq(1), sweep.eq(0)]
                with m.Elif(read.last & block.last):
                    m.d.sync += [out_valid.eq(1), out.last.eq(1), out.null.eq(zero)]
            with m.Elif(sweeping):
                swept = begun.bit_select(sweep, 1)
                ends = sweep == sums - 1
                m.d.sync += [
                    out_valid.eq(~swept | ends),
                    out.empty.eq(~swept),
                    out.null.eq(swept),
                    out.last.eq(ends),
                    out.inner.eq(Mux(sweep == 0, 0, out.inner + block.tiles)),
                    sweep.eq(sweep + 1),
                    sweeping.eq(~ends),
                ]
        return m

    def _walk(self, m, block, walking, advance, here):
        """Counters that go through the block, and the address of the word they are at."""
        lane, gate, batch = Signal(6), Signal(3), Signal(contract.COUNT_BITS)
        vector_beats = self._lanes // self._beat_words
        gate_row, batch_row = Signal(range(2 * self._rows)), Signal(range(2 * self._rows))
        row = (gate_row + batch_row + (lane >> (self._beat_words - 1).bit_length()))[: (self._rows - 1).bit_length()]
        outer, inner, index = Signal.like(here.outer), Signal.like(here.inner), Signal.like(here.index)

        gate_ends = gate == block.gates - 1
        row_ends, batch_ends, inner_ends = Signal(), Signal(), Signal()
        m.d.comb += [
            row_ends.eq(gate_ends & (lane == block.lane + block.lanes - 1)),
            batch_ends.eq(batch == block.batch - 1),
            inner_ends.eq(Mux(block.batch_outer, row_ends, batch_ends)),
            here.outer.eq(outer),
            here.inner.eq(inner),
            here.index.eq(index),
            here.word.eq(lane),
            here.last.eq(row_ends & batch_ends),
            self.read_address.eq(Cat(row, block.bank)),
            self.read_enable.eq(advance),
            self.release.eq(walking & advance & here.last),
        ]
        with m.If(walking & advance):
            m.d.sync += [
                inner.eq(Mux(inner_ends, 0, inner + block.tiles)),
                index.eq(Mux(inner_ends, 0, index + 1)),
                walking.eq(~here.last),
            ]
            with m.If(inner_ends):
                m.d.sync += outer.eq(outer + block.tiles)
            with m.If(~block.batch_outer | row_ends):
                m.d.sync += [
                    batch.eq(Mux(batch_ends, 0, batch + 1)),
                    batch_row.eq(Mux(batch_ends, 0, batch_row + vector_beats)),
                ]
            with m.If(block.batch_outer | batch_ends):
                m.d.sync += [
                    gate.eq(Mux(gate_ends, 0, gate + 1)),
                    gate_row.eq(Mux(gate_ends, 0, gate_row + block.batch * vector_beats)),
                    lane.eq(Mux(row_ends, block.lane, lane + gate_ends)),
                ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [block.eq(self.i.payload), walking.eq(1), lane.eq(self.i.payload.lane)]
            m.d.sync += [counter.eq(0) for counter in (gate, batch, gate_row, batch_row, inner, index)]
            with m.If(self.i.payload.fresh):
                m.d.sync += outer.eq(0)
