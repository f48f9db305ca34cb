"""Sends the nonzero scalars of a block, in canonical order."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.broadcast.blocks import BlockLayout
from etalstm_hw.broadcast.masks import GroupSizes, MaskRead
from etalstm_hw.broadcast.walker import GroupLayout, GroupWalker
from etalstm_hw.contract import MOST_GATES, FloatFormat
from etalstm_hw.stream import LANE_OFFSET_BITS, Scalar, lane_offset

_PART = 32  # begun sums that are searched at once


def lowest(m, bits, name):
    """Find the lowest bit that is set: as a mask, and as its number."""
    mask, number = Signal(len(bits), name=f"{name}_mask"), Signal(range(len(bits)), name=name)
    m.d.comb += mask.eq(bits & -bits)
    for digit in range(len(number)):
        m.d.comb += number[digit].eq((mask & sum(1 << n for n in range(len(bits)) if n >> digit & 1)).any())
    return mask, number


class ScalarEmitter(wiring.Component):
    """Sends what is not zero of each block, one scalar a cycle.

    The masks tell where the next scalar is, and how many are left. A zero costs nothing, an empty group of them (32
    words at most) a cycle, and that only when the scalars before it have been sent. Zeros behind a block's last scalar
    cost one cycle in all. A block that lies in the buffer by then follows without any other gap; one without a scalar
    costs one cycle. With nothing under way, a block's first scalar is there five cycles after the block was offered.
    The last block's last scalar carries ``last``; only if that block has none is there an end without a scalar.

    Zeros are sent only where the masks name them: as ``empty`` scalars, which take their time and are no terms.

    Three pipeline stages after the mask: the buffer's address, its data, the output register. A stalled output stalls
    all three; groups without scalars are passed over meanwhile.

    Which sums have begun is kept in a bit for each inner index: a scalar that is the first of its sums says so. A block
    with ``start`` clears all bits. After a block with ``finish`` the sums that never began are sent as ``first`` and
    ``empty``, one a cycle, after one idle cycle.

    Parameters
    ----------
    format : FloatFormat
    lanes, beat_words : int
        Words of a vector and of a beat.
    words : int
        Size of one buffer in words.

    Members
    -------
    i : :py:`In(stream.Signature(BlockLayout(...)))`   blocks that lie in the buffer
    release : :py:`Out(1)`                             the block is sent, its bank is free
    read_address, read_enable, read_data               the buffer's read port
    masks : :py:`Out(MaskRead(...))`                   the masks' read port
    o : :py:`Out(stream.Signature(Scalar(format)))`    scalars
    busy : :py:`Out(1)`                                something is still to be sent
    """

    def __init__(self, format: FloatFormat, *, lanes, beat_words, words):
        self._format = format
        self._sizes = sizes = GroupSizes(lanes, beat_words, words)
        super().__init__(
            {
                "i": In(stream.Signature(BlockLayout(sizes.words))),
                "release": Out(1),
                "read_address": Out(range(2 * sizes.rows)),
                "read_enable": Out(1),
                "read_data": In(data.ArrayLayout(format.width, beat_words)),
                "masks": Out(MaskRead(sizes)),
                "o": Out(stream.Signature(Scalar(format))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Walk; pick; read; send. Each stage has a register with a valid bit; all move together, with `flow`.
        ::

            walker ─┬────────► picked ────────► read ────► out ─► o
                    └─ held ─┘   │ address        ▲ swept
                                 └─► buffer ─► read_data

        `held` is what is left of a group after its first scalar, `picked` a bit of a group, `read` a scalar whose word
        the buffer shows. While `swept` is set, `read` gets the sums that never began, and `flow` stands still.
        """
        m = Module()
        m.submodules.walker = walker = GroupWalker(self._sizes)
        connect(m, flipped(self.i), walker.i)
        connect(m, walker.masks, flipped(self.masks))
        blocks = Array(Signal(BlockLayout(self._sizes.words), name=f"block{bank}") for bank in range(2))
        nonzero = Array(Signal.like(self.masks.nonzero, name=f"nonzero{bank}") for bank in range(2))
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [blocks[self.i.p.bank].eq(self.i.p), nonzero[self.i.p.bank].eq(self.masks.nonzero)]
        flow, valid = Signal(), {stage: Signal(name=stage) for stage in ("held", "picked", "read", "swept", "out")}
        picked = self._pick(m, walker, blocks, nonzero, valid, flow)
        read = self._read(m, picked, blocks, valid, flow)
        self._send(m, read, blocks, valid, flow)
        m.d.comb += self.busy.eq(walker.busy | Cat(*valid.values()).any())
        return m

    def _pick(self, m, walker, blocks, nonzero, valid, flow):
        """Take a scalar from the walker's group and hold what is left of it; a block's last is known by their count."""
        sizes, holds = self._sizes, valid["held"]
        layout = GroupLayout(sizes)
        held, group = Signal(layout), Signal(layout)
        held_mask, mask = Signal(sizes.mask_bits), Signal(sizes.mask_bits)
        remaining, left = Signal(range(sizes.words + 1)), Signal(range(sizes.words + 1))
        there = holds | walker.o.valid
        lowest_mask, bit = lowest(m, mask, "bit")
        alone, leaves, ends = mask == lowest_mask, Signal(), Signal()
        m.d.comb += [
            group.eq(Mux(holds, held, walker.o.p)),
            mask.eq(Mux(holds, held_mask, self.masks.mask)),
            left.eq(Mux(~holds & group.first, nonzero[group.bank], remaining)),
            ends.eq(left <= 1),
            leaves.eq(flow & there),
            walker.o.ready.eq(~holds),
            walker.stop.eq(leaves & ends),
            walker.stop_bank.eq(group.bank),
        ]
        with m.If(there):
            m.d.sync += [
                held.eq(group),
                held.first.eq(group.first & ~leaves),
                held_mask.eq(Mux(leaves, mask & ~lowest_mask, mask)),
                holds.eq(~(leaves & alone)),
                remaining.eq(left - leaves),
            ]
        names = ("starts", "ends", "none")
        picked = Signal(data.StructLayout({"bit": len(bit), "group": layout, **dict.fromkeys(names, 1)}))
        with m.If(flow):
            m.d.sync += [
                valid["picked"].eq(there),
                picked.bit.eq(bit),
                picked.group.eq(group),
                picked.starts.eq(group.first & blocks[group.bank].start),
                picked.ends.eq(ends),
                picked.none.eq(group.void),
            ]
        return picked

    def _read(self, m, picked, blocks, valid, flow):
        """Ask the buffer for the word, and find the scalar's index."""
        sizes, group = self._sizes, picked.group
        flags = dict.fromkeys(("bank", "starts", "ends", "none", "empty"), 1)
        places = {"word": range(sizes.beat_words), "outer": LANE_OFFSET_BITS, "index": range(sizes.sums)}
        read = Signal(data.StructLayout(places | flags))
        block, gate_bits = blocks[group.bank], (MOST_GATES - 1).bit_length()
        gate, word = picked.bit[:gate_bits], picked.bit[gate_bits:]
        row, index = Signal(range(sizes.rows)), Signal(range(sizes.sums))
        m.d.comb += [
            row.eq(group.row + Mux(block.batch_outer, gate * block.batch, picked.bit) * sizes.vector_beats),
            index.eq(group.index + Mux(block.batch_outer, word * block.gates + gate, picked.bit)),
            self.read_address.eq(Cat(row, group.bank)),
            self.read_enable.eq(flow),
        ]
        with m.If(flow):
            m.d.sync += [
                valid["read"].eq(valid["picked"]),
                read.word.eq(Mux(block.batch_outer, word, group.word)),
                read.outer.eq(group.outer),
                read.index.eq(index),
                read.bank.eq(group.bank),
                read.empty.eq(0),
                *(read[name].eq(picked[name]) for name in ("starts", "ends", "none")),
            ]
        return read

    def _send(self, m, read, blocks, valid, flow):
        """Fill the output register; after the last scalar, with the sums that never began."""
        sizes, block = self._sizes, blocks[read.bank]
        out, advance, hold = Signal(Scalar(self._format)), Signal(), Signal()
        read_valid, out_valid, sweeping = valid["read"], valid["out"], valid["swept"]
        width = min(_PART, sizes.sums)
        begun = Array(Signal(width, name=f"begun{n}") for n in range(sizes.sums // width))
        count, count_after = Signal(range(sizes.sums + 1)), Signal(range(sizes.sums + 1))
        begins, ends, zero = Signal(), Signal(), Signal()
        word = Signal(self._format.width)
        place, part = read.index[: (width - 1).bit_length()], read.index[(width - 1).bit_length() :]
        m.d.comb += [
            word.eq(Array(self.read_data)[read.word]),
            zero.eq(~word[self._format.mantissa : self._format.width - 1].any()),
            begins.eq(
                read_valid & ~read.none & ~read.empty & ~zero & (read.starts | ~begun[part].bit_select(place, 1))
            ),
            count_after.eq(Mux(read.starts, 0, count) + begins),
            hold.eq(read_valid & read.ends & block.finish & ~read.empty & (count_after != block.sums)),
            advance.eq(~out_valid | self.o.ready),
            flow.eq(advance & ~hold & ~sweeping),
            ends.eq(read.ends & block.last & ~hold),
            self.release.eq(advance & read_valid & read.ends & ~hold),
            self.o.valid.eq(out_valid),
            self.o.p.eq(out),
        ]
        with m.If(advance):
            m.d.sync += [
                out_valid.eq(read_valid & (~read.none | ends)),
                out.value.eq(word),
                out.outer.eq(read.outer),
                out.inner.eq(lane_offset(read.index * block.tiles)),
                out.tiles.eq(block.tiles),
                out.narrow.eq(block.narrow),
                out.first.eq(begins | read.empty),
                out.empty.eq(read.empty | zero),
                out.null.eq(read.none),
                out.last.eq(ends),
            ]
            with m.If(read_valid & ~read.empty):
                m.d.sync += count.eq(count_after)
                with m.If(read.starts):
                    m.d.sync += [some.eq(0) for some in begun]
                with m.If(begins):
                    m.d.sync += begun[part].eq(Mux(read.starts, 0, begun[part]) | 1 << place)
            with m.If(hold):
                m.d.sync += [sweeping.eq(1), read_valid.eq(0)]
        self._sweep(m, begun, count, count + 1 == block.sums, read, valid, advance)

    @staticmethod
    def _sweep(m, begun, count, ends, read, valid, advance):
        """Put the sums that never began, lowest first, into the stage before the output."""
        part = Signal(range(max(2, len(begun))))  # Verilog has no signals of no bits
        for n in reversed(range(len(begun))):
            with m.If(~begun[n].all()):
                m.d.comb += part.eq(n)
        unbegun = Signal(len(begun[0]))
        m.d.comb += unbegun.eq(~begun[part])
        mask, number = lowest(m, unbegun, "sweep")
        with m.If(advance & valid["swept"]):
            m.d.sync += [
                valid["read"].eq(1),
                valid["swept"].eq(~ends),
                read.index.eq(Cat(number, part)),
                read.starts.eq(0),
                read.none.eq(0),
                read.empty.eq(1),
                read.ends.eq(ends),
                begun[part].eq(begun[part] | mask),
                count.eq(count + 1),
            ]
