"""Walks through the patches of a block in the order in which they are sent."""

from typing import Any, NamedTuple

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw import contract
from etalstm_hw.broadcast.blocks import BlockLayout
from etalstm_hw.broadcast.masks import MaskRead, PatchSizes
from etalstm_hw.stream import LANE_OFFSET_BITS, lane_offset


class PatchLayout(data.StructLayout):
    """The words of one mask: they differ in one of lane, gate and sequence, or in lane and gate.

    Members
    -------
    bank : its block's
    line, word : beat of the block where bit 0 is; by rows, its number in the beat
    outer : offset of all of them
    inner : number of the sum of bit 0
    first : the first patch of its block that is delivered
    null : the block has nothing to send
    """

    def __init__(self, sizes: PatchSizes):
        super().__init__(
            {
                "bank": 1,
                "line": range(sizes.lines),
                "word": range(sizes.beat_words),
                "outer": LANE_OFFSET_BITS,
                "inner": range(sizes.sums),
                "first": 1,
                "null": 1,
            }
        )


class _Position(NamedTuple):
    """Signals that say where the walk is in its block.

    Members
    -------
    lane, gate, batch : of the patch, the first ones where it has several
    slot : by rows, of the masks
    gate_line, batch_line : what gate and batch add to the number of the beat
    outer, inner : see :class:`PatchLayout`
    """

    lane: Any
    gate: Any
    batch: Any
    slot: Any
    gate_line: Any
    batch_line: Any
    outer: Any
    inner: Any


class PatchWalker(wiring.Component):
    """Delivers the patches of each block that have something to send, one a cycle; of a block without any, one.

    An empty patch costs a cycle, but one in which the patch before it may still be worked on. Masks are read ahead by
    a patch; the first patch of a block follows the last one of the block before without a gap.

    Parameters
    ----------
    sizes : PatchSizes

    Members
    -------
    i : :py:`In(stream.Signature(BlockLayout(...)))`   blocks
    o : :py:`Out(stream.Signature(PatchLayout(...)))`  patches; their masks are at the masks' read port
    masks : :py:`Out(MaskRead(sizes))`                 the masks' read port
    stop, stop_bank : :py:`In(1)`                      nothing more is to be sent of the block in this bank
    ends : :py:`In(1)`                                 nor of the block of the patch at ``o``, if there is one
    busy : :py:`Out(1)`                                a patch is still to be delivered
    """

    def __init__(self, sizes: PatchSizes):
        self._sizes = sizes
        super().__init__(
            {
                "i": In(stream.Signature(BlockLayout(sizes.words))),
                "o": Out(stream.Signature(PatchLayout(sizes))),
                "masks": Out(MaskRead(sizes)),
                "stop": In(1),
                "stop_bank": In(1),
                "ends": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """A patch is asked for, then its mask is there."""
        m = Module()
        block, walking, last = Signal(BlockLayout(self._sizes.words)), Signal(), Signal()
        patch, here = Signal(PatchLayout(self._sizes)), Signal(PatchLayout(self._sizes))
        asked, first, null = Signal(), Signal(), Signal()

        unwanted = self.masks.empty & ~patch.null
        # Whether the patch is unwanted is known late. So what follows in either case is known before.
        stopped = self.stop & (self.stop_bank == block.bank)
        ends, moves_on = asked & self.ends & (patch.bank == block.bank), ~asked | self.o.ready
        left = Signal()
        m.d.comb += [
            self.o.valid.eq(asked & ~unwanted),
            self.o.p.eq(patch),
            self.masks.enable.eq(walking & (unwanted | moves_on)),
            left.eq(Mux(unwanted, last, (last & moves_on) | ends) | stopped),
            self.i.ready.eq(~walking | left),
            self.busy.eq(walking | asked | self.i.valid),
        ]
        with m.If(unwanted | moves_on):
            m.d.sync += asked.eq(walking)
        with m.If(self.masks.enable):
            m.d.sync += [patch.eq(here), first.eq(0)]
            # an unwanted patch that is its block's first hands `first` on to the next one
            m.d.sync += patch.first.eq(first | (asked & unwanted & patch.first))
        self._walk(m, block, last, null, here)
        with m.If(left):
            m.d.sync += walking.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [block.eq(self.i.p), walking.eq(1), first.eq(1), null.eq(self.masks.none)]
        return m

    def _walk(self, m, block, last, null, here):
        """Go from patch to patch, by batch or by rows; say where a patch is and which one is the last."""
        sizes = self._sizes
        lane, gate, batch = Signal(6), Signal(3), Signal(contract.COUNT_BITS)
        slot, gate_line, batch_line = Signal(range(sizes.slots)), Signal.like(here.line), Signal.like(here.line)
        outer, inner = Signal.like(here.outer), Signal.like(here.inner)
        shift, by_batch = (sizes.beat_words - 1).bit_length(), block.batch_outer
        beat, word = lane >> shift, lane[:shift]

        lane_ends, gate_ends, batch_ends = Signal(), Signal(), Signal()
        line = (gate_line + batch_line + beat)[: len(here.line)]
        m.d.comb += [
            lane_ends.eq(Mux(by_batch, beat == block.last_lane >> shift, lane == block.last_lane)),
            gate_ends.eq(by_batch | (gate == block.gates - 1)),
            batch_ends.eq(batch + Mux(by_batch, 1, sizes.chunk) >= block.batch),
            last.eq((lane_ends & gate_ends & batch_ends) | null),
            here.line.eq(line),
            here.word.eq(word),
            here.outer.eq(outer),
            here.inner.eq(inner),
            here.bank.eq(block.bank),
            here.null.eq(null),
            self.masks.by_batch.eq(by_batch),
            self.masks.word.eq(word),
            self.masks.rows_address.eq(Cat(beat[: (sizes.vector_beats - 1).bit_length()], slot, block.bank)),
            self.masks.batch_address.eq(Cat(line, block.bank)),
        ]
        at = _Position(lane, gate, batch, slot, gate_line, batch_line, outer, inner)
        with m.If(self.masks.enable & by_batch):
            self._go_by_batch(m, block, at, beat, lane_ends)
        with m.Elif(self.masks.enable):
            self._go_by_rows(m, block, at, gate_ends, batch_ends)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [counter.eq(0) for counter in (gate, batch, slot, gate_line, batch_line)]
            m.d.sync += [lane.eq(self.i.p.lane), outer.eq(self.i.p.outer), inner.eq(self.i.p.inner)]

    def _go_by_batch(self, m, block, at, beat, lane_ends):
        """A patch is a beat of lanes of one sequence, all gates. Go through the lanes; then take the next sequence."""
        sizes, shift = self._sizes, (self._sizes.beat_words - 1).bit_length()
        m.d.sync += [at.lane.eq(Cat(C(0, shift), beat + 1)), at.inner.eq(at.inner + block.gates * sizes.beat_words)]
        with m.If(lane_ends):
            m.d.sync += [
                at.lane.eq(block.lane),
                at.inner.eq(block.inner),
                at.outer.eq(lane_offset(at.outer + block.row_vectors)),
                at.batch.eq(at.batch + 1),
                at.batch_line.eq(at.batch_line + sizes.vector_beats),
            ]

    def _go_by_rows(self, m, block, at, gate_ends, batch_ends):
        """A patch is a lane and gate of some sequences. Go through these, then take the next gate, then lane."""
        sizes = self._sizes
        m.d.sync += [
            at.inner.eq(at.inner + sizes.chunk),
            at.batch.eq(at.batch + sizes.chunk),
            at.batch_line.eq(at.batch_line + sizes.chunk * sizes.vector_beats),
            at.slot.eq(at.slot + 1),
        ]
        with m.If(batch_ends):
            m.d.sync += [
                at.inner.eq(block.inner),
                at.batch.eq(0),
                at.batch_line.eq(0),
                at.outer.eq(lane_offset(at.outer + block.row_vectors)),
                at.gate.eq(at.gate + 1),
                at.gate_line.eq(at.gate_line + block.batch * sizes.vector_beats),
            ]
            with m.If(gate_ends):
                m.d.sync += [at.gate.eq(0), at.gate_line.eq(0), at.slot.eq(0), at.lane.eq(at.lane + 1)]
