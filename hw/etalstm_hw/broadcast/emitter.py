"""Sends the nonzero scalars of a block, in canonical order."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.broadcast.blocks import BlockLayout
from etalstm_hw.broadcast.masks import MaskRead, PatchSizes
from etalstm_hw.broadcast.walker import PatchLayout, PatchWalker
from etalstm_hw.contract import MOST_GATES, FloatFormat
from etalstm_hw.stream import LANE_OFFSET_BITS, Scalar, lane_offset

_SEGMENT = 32  # begun sums that are searched at once


def lowest(m, bits, name):
    """Find the lowest bit that is set: as a mask, and as its number."""
    mask, number = Signal(len(bits), name=f"{name}_mask"), Signal(range(len(bits)), name=name)
    m.d.comb += mask.eq(bits & -bits)
    for digit in range(len(number)):
        m.d.comb += number[digit].eq((mask & sum(1 << n for n in range(len(bits)) if n >> digit & 1)).any())
    return mask, number


def any_and_several(bits):
    """Tell whether a bit is set, and whether several are: in halves, so that it takes few levels of logic."""
    if len(bits) == 1:
        return bits, Const(0)
    half = len(bits) // 2
    (lower, several_lower), (upper, several_upper) = any_and_several(bits[:half]), any_and_several(bits[half:])
    return lower | upper, several_lower | several_upper | (lower & upper)


class ScalarEmitter(wiring.Component):
    """Sends what is not zero of each block, one scalar a cycle.

    The masks tell where the next scalar is, and how many are left. A zero costs nothing. A patch of zeros (32
    words at most) costs a cycle, and that only when the scalars before it have been sent. Zeros behind a block's last
    scalar cost one cycle in all. A block in the buffer by then follows without another gap. A block without a scalar
    costs one cycle. With nothing under way, a block's first scalar is there five cycles after the block was offered.
    The last block's last scalar carries ``last``; only if that block has none is there an end without a scalar.

    Zeros are sent only where the masks name them: as ``empty`` scalars, which take their time and are no terms.

    Three pipeline stages after the mask: the buffer's address, its data, the output register. A stalled output stalls
    all three; patches without scalars are passed over meanwhile.

    Which sums have begun is kept in a bit for each sum: a scalar that is the first of its sums says so. A block
    with ``start`` clears all bits. After a block with ``finish`` the sums that never began are sent as ``begins`` and
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
        self._sizes = sizes = PatchSizes(lanes, beat_words, words)
        super().__init__(
            {
                "i": In(stream.Signature(BlockLayout(sizes.words))),
                "release": Out(1),
                "read_address": Out(range(2 * sizes.lines)),
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
                    └─ rest ─┘   │ address        ▲ swept
                                 └─► buffer ─► read_data

        `rest` is what is left of a patch after its first scalar, `picked` a bit of a patch, `read` a scalar whose word
        the buffer shows. While `swept` is set, `read` gets the sums that never began, and `flow` stands still.
        """
        m = Module()
        m.submodules.walker = walker = PatchWalker(self._sizes)
        connect(m, flipped(self.i), walker.i)
        connect(m, walker.masks, flipped(self.masks))
        blocks = Array(Signal(BlockLayout(self._sizes.words), name=f"block{bank}") for bank in range(2))
        nonzero = Array(Signal.like(self.masks.nonzero, name=f"nonzero{bank}") for bank in range(2))
        with m.If(self.i.valid):  # `ready` comes too late, and nothing of this bank is being sent
            m.d.sync += [blocks[self.i.p.bank].eq(self.i.p), nonzero[self.i.p.bank].eq(self.masks.nonzero)]
        flow, valid = Signal(), {stage: Signal(name=stage) for stage in ("rest", "picked", "read", "swept", "out")}
        picked = self._pick(m, walker, blocks, nonzero, valid, flow)
        read = self._read(m, picked, blocks, valid, flow)
        self._send(m, read, blocks, valid, flow)
        m.d.comb += self.busy.eq(walker.busy | Cat(*valid.values()).any())
        return m

    def _pick(self, m, walker, blocks, nonzero, valid, flow):
        """Take a scalar from the walker's patch and store the rest of it; the count tells a block's last scalar."""
        sizes, has_rest = self._sizes, valid["rest"]
        layout = PatchLayout(sizes)
        rest, patch = Signal(layout), Signal(layout)
        rest_mask, mask = Signal(sizes.mask_bits), Signal(sizes.mask_bits)
        remaining, left = Signal(range(sizes.words + 1)), Signal(range(sizes.words + 1))
        there, new = has_rest | walker.o.valid, Signal(range(sizes.words + 1))
        lowest_mask, bit = lowest(m, mask, "bit")
        several, leaves, ends = any_and_several(mask)[1], Signal(), Signal()
        rest_ends, new_ends = remaining <= 1, new <= 1
        m.d.comb += [
            patch.eq(Mux(has_rest, rest, walker.o.p)),
            mask.eq(Mux(has_rest, rest_mask, self.masks.mask)),
            new.eq(Mux(walker.o.p.first, nonzero[walker.o.p.bank], remaining)),
            left.eq(Mux(has_rest, remaining, new)),
            ends.eq(Mux(has_rest, rest_ends, new_ends)),
            leaves.eq(flow & there),
            walker.o.ready.eq(~has_rest),
            # Whether the block's last scalar leaves is known late, so the walker does not wait for it.
            walker.stop.eq(has_rest & rest_ends),
            walker.stop_bank.eq(rest.bank),
            walker.ends.eq(~has_rest & new_ends),
        ]
        with m.If(there):
            m.d.sync += [
                rest.eq(patch),
                rest.first.eq(patch.first & ~leaves),
                rest_mask.eq(Mux(leaves, mask & ~lowest_mask, mask)),
                has_rest.eq(~leaves | several),
                remaining.eq(left - leaves),
            ]
        names = ("starts", "ends", "null")
        picked = Signal(data.StructLayout({"bit": len(bit), "patch": layout, **dict.fromkeys(names, 1)}))
        with m.If(flow):
            m.d.sync += [
                valid["picked"].eq(there),
                picked.bit.eq(bit),
                picked.patch.eq(patch),
                picked.starts.eq(patch.first & blocks[patch.bank].start),
                picked.ends.eq(ends),
                picked.null.eq(patch.null),
            ]
        return picked

    def _read(self, m, picked, blocks, valid, flow):
        """Ask the buffer for the word, and find the scalar's sum."""
        sizes, patch = self._sizes, picked.patch
        flags = dict.fromkeys(("bank", "starts", "ends", "null", "empty"), 1)
        numbers = {"word": range(sizes.beat_words), "outer": LANE_OFFSET_BITS, "inner": range(sizes.sums)}
        read = Signal(data.StructLayout(numbers | flags))
        block, gate_bits = blocks[patch.bank], (MOST_GATES - 1).bit_length()
        gate, word = picked.bit[:gate_bits], picked.bit[gate_bits:]
        line, inner = Signal(range(sizes.lines)), Signal(range(sizes.sums))
        m.d.comb += [
            line.eq(patch.line + Mux(block.batch_outer, gate * block.batch, picked.bit) * sizes.vector_beats),
            inner.eq(patch.inner + Mux(block.batch_outer, word * block.gates + gate, picked.bit)),
            self.read_address.eq(Cat(line, patch.bank)),
            self.read_enable.eq(flow),
        ]
        with m.If(flow):
            m.d.sync += [
                valid["read"].eq(valid["picked"]),
                read.word.eq(Mux(block.batch_outer, word, patch.word)),
                read.outer.eq(patch.outer),
                read.inner.eq(inner),
                read.bank.eq(patch.bank),
                read.empty.eq(0),
                *(read[name].eq(picked[name]) for name in ("starts", "ends", "null")),
            ]
        return read

    def _send(self, m, read, blocks, valid, flow):
        """Fill the output register; after the last scalar, with the sums that never began."""
        sizes, block = self._sizes, blocks[read.bank]
        out, advance, sweeps = Signal(Scalar(self._format)), Signal(), Signal()
        read_valid, out_valid, sweeping = valid["read"], valid["out"], valid["swept"]
        width = min(_SEGMENT, sizes.sums)
        begun = Array(Signal(width, name=f"begun{n}") for n in range(sizes.sums // width))
        full = Array(Signal(name=f"full{n}") for n in range(len(begun)))  # all of them have begun
        # Whether this sum begins is known late. So the count and the one after it are there before, and what follows.
        count, after = Signal(range(sizes.sums + 2)), Signal(range(sizes.sums + 2), init=1)
        count_here, after_here, may_sweep = Signal.like(count), Signal.like(count), Signal()
        lacks, goes_on = Signal(2), Signal(2)  # without and with this sum
        begins, ends, zero = Signal(), Signal(), Signal()
        word = Signal(self._format.width)
        # Which word it is is known sooner than whether it is zero.
        zeros = Array(~one[self._format.mantissa : self._format.width - 1].any() for one in self.read_data)
        bit, segment = read.inner[: (width - 1).bit_length()], read.inner[(width - 1).bit_length() :]
        m.d.comb += [
            word.eq(Array(self.read_data)[read.word]),
            zero.eq(zeros[read.word]),
            begins.eq(
                read_valid & ~read.null & ~read.empty & ~zero & (read.starts | ~begun[segment].bit_select(bit, 1))
            ),
            count_here.eq(Mux(read.starts, 0, count)),
            after_here.eq(Mux(read.starts, 1, after)),
            lacks.eq(Cat(count_here != block.sums, after_here != block.sums)),
            may_sweep.eq(read_valid & read.ends & block.finish & ~read.empty),
            goes_on.eq(Mux(advance & ~sweeping, ~(lacks & may_sweep.replicate(2)), 0)),
            sweeps.eq(may_sweep & Mux(begins, lacks[1], lacks[0])),
            advance.eq(~out_valid | self.o.ready),
            flow.eq(Mux(begins, goes_on[1], goes_on[0])),
            ends.eq(read.ends & block.last & ~sweeps),
            self.release.eq(advance & read_valid & read.ends & ~sweeps),
            self.o.valid.eq(out_valid),
            self.o.p.eq(out),
        ]
        with m.If(advance):
            m.d.sync += [
                out_valid.eq(read_valid & (~read.null | ends)),
                out.value.eq(word),
                out.outer.eq(read.outer),
                out.inner.eq(lane_offset(read.inner * block.tiles)),
                out.tiles.eq(block.tiles),
                out.narrow.eq(block.narrow),
                out.begins.eq(begins | read.empty),
                out.empty.eq(read.empty | zero),
                out.null.eq(read.null),
                out.last.eq(ends),
            ]
            with m.If(read_valid & ~read.empty):
                m.d.sync += [count.eq(Mux(begins, after_here, count_here)), after.eq(after_here + begins)]
                with m.If(read.starts):
                    m.d.sync += [some.eq(0) for some in (*begun, *full)]
                with m.If(begins):
                    now = [Mux(read.starts, 0, some) | 1 << bit for some in begun]
                    m.d.sync += [
                        begun[segment].eq(Array(now)[segment]),
                        full[segment].eq(Array(some.all() for some in now)[segment]),
                    ]
            with m.If(sweeps):
                m.d.sync += [sweeping.eq(1), read_valid.eq(0)]
        self._sweep(m, begun, full, (count, after), after == block.sums, read, valid, advance)

    @staticmethod
    def _sweep(m, begun, full, counts, ends, read, valid, advance):
        """Put the sums that never began, lowest first, into the stage before the output."""
        segment = Signal(range(max(2, len(begun))))  # Verilog has no signals of no bits
        for n in reversed(range(len(begun))):
            with m.If(~full[n]):
                m.d.comb += segment.eq(n)
        unbegun = Signal(len(begun[0]))
        m.d.comb += unbegun.eq(~begun[segment])
        mask, number = lowest(m, unbegun, "sweep")
        with m.If(advance & valid["swept"]):
            m.d.sync += [
                valid["read"].eq(1),
                valid["swept"].eq(~ends),
                read.inner.eq(Cat(number, segment)),
                read.starts.eq(0),
                read.null.eq(0),
                read.empty.eq(1),
                read.ends.eq(ends),
                begun[segment].eq(begun[segment] | mask),
                full[segment].eq(~any_and_several(unbegun)[1]),
                *(counted.eq(counted + 1) for counted in counts),
            ]
