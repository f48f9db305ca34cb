"""Walks through the groups of a block in the order in which they are sent."""

from typing import Any, NamedTuple

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw import contract
from etalstm_hw.broadcast.blocks import BlockLayout
from etalstm_hw.broadcast.masks import GroupSizes, MaskRead
from etalstm_hw.stream import LANE_OFFSET_BITS, lane_offset


class GroupLayout(data.StructLayout):
    """A group of words that share all but one of their indices.

    Members
    -------
    bank : its block's
    row, word : beat of the block where bit 0 is; by rows, its place in the beat
    outer : offset of all of them
    index : inner index of bit 0
    first : the first group of its block that is delivered
    void : the block has nothing to send
    """

    def __init__(self, sizes: GroupSizes):
        super().__init__(
            {
                "bank": 1,
                "row": range(sizes.rows),
                "word": range(sizes.beat_words),
                "outer": LANE_OFFSET_BITS,
                "index": range(sizes.sums),
                "first": 1,
                "void": 1,
            }
        )


class _At(NamedTuple):
    """Signals that say where the walk is in its block.

    Members
    -------
    lane, gate, batch : of the group, the first ones where it has several
    slot : by rows, of the masks
    gate_row, batch_row : what gate and batch add to the number of the beat
    outer, index : see :class:`GroupLayout`
    """

    lane: Any
    gate: Any
    batch: Any
    slot: Any
    gate_row: Any
    batch_row: Any
    outer: Any
    index: Any


class GroupWalker(wiring.Component):
    """Delivers the groups of each block that have something to send, one a cycle; of a block without any, one.

    An empty group costs a cycle, but one in which the group before it may still be worked on. Masks are read ahead by
    a group; the first group of a block follows the last one of the block before without a gap.

    Parameters
    ----------
    sizes : GroupSizes

    Members
    -------
    i : :py:`In(stream.Signature(BlockLayout(...)))`   blocks
    o : :py:`Out(stream.Signature(GroupLayout(...)))`  groups; their masks are at the masks' read port
    masks : :py:`Out(MaskRead(sizes))`                 the masks' read port
    stop, stop_bank : :py:`In(1)`                      nothing more is to be sent of the block in this bank
    busy : :py:`Out(1)`                                a group is still to be delivered
    """

    def __init__(self, sizes: GroupSizes):
        self._sizes = sizes
        super().__init__(
            {
                "i": In(stream.Signature(BlockLayout(sizes.words))),
                "o": Out(stream.Signature(GroupLayout(sizes))),
                "masks": Out(MaskRead(sizes)),
                "stop": In(1),
                "stop_bank": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """A group is asked for, then its mask is there."""
        m = Module()
        block, walking, last = Signal(BlockLayout(self._sizes.words)), Signal(), Signal()
        group, here = Signal(GroupLayout(self._sizes)), Signal(GroupLayout(self._sizes))
        asked, first, void = Signal(), Signal(), Signal()

        stopped = self.stop & (self.stop_bank == block.bank)
        unwanted = (self.masks.mask == 0) & ~group.void
        m.d.comb += [
            self.o.valid.eq(asked & ~unwanted),
            self.o.p.eq(group),
            self.masks.enable.eq(walking & (~asked | unwanted | self.o.ready)),
            self.i.ready.eq(~walking | (self.masks.enable & last) | stopped),
            self.busy.eq(walking | asked | self.i.valid),
        ]
        with m.If(~asked | unwanted | self.o.ready):
            m.d.sync += asked.eq(walking)
        with m.If(self.masks.enable):
            m.d.sync += [group.eq(here), first.eq(0)]
            # what an unwanted first group leaves undone falls to the next one
            m.d.sync += group.first.eq(first | (asked & unwanted & group.first))
        self._walk(m, block, last, void, here)
        with m.If((self.masks.enable & last) | stopped):
            m.d.sync += walking.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [block.eq(self.i.p), walking.eq(1), first.eq(1), void.eq(self.masks.nonzero == 0)]
        return m

    def _walk(self, m, block, last, void, here):
        """Go from group to group, by batch or by rows; say where a group is and which one is the last."""
        sizes = self._sizes
        lane, gate, batch = Signal(6), Signal(3), Signal(contract.COUNT_BITS)
        slot, gate_row, batch_row = Signal(range(sizes.slots)), Signal.like(here.row), Signal.like(here.row)
        outer, index = Signal.like(here.outer), Signal.like(here.index)
        shift, by_batch = (sizes.beat_words - 1).bit_length(), block.batch_outer
        beat, word = lane >> shift, lane[:shift]

        lane_ends, gate_ends, batch_ends = Signal(), Signal(), Signal()
        last_lane = block.lane + block.lanes - 1
        row = (gate_row + batch_row + beat)[: len(here.row)]
        m.d.comb += [
            lane_ends.eq(Mux(by_batch, beat == last_lane >> shift, lane == last_lane)),
            gate_ends.eq(by_batch | (gate == block.gates - 1)),
            batch_ends.eq(batch + Mux(by_batch, 1, sizes.chunk) >= block.batch),
            last.eq((lane_ends & gate_ends & batch_ends) | void),
            here.row.eq(row),
            here.word.eq(word),
            here.outer.eq(outer),
            here.index.eq(index),
            here.bank.eq(block.bank),
            here.void.eq(void),
            self.masks.by_batch.eq(by_batch),
            self.masks.word.eq(word),
            self.masks.rows_address.eq(Cat(beat[: (sizes.vector_beats - 1).bit_length()], slot, block.bank)),
            self.masks.batch_address.eq(Cat(row, block.bank)),
        ]
        at = _At(lane, gate, batch, slot, gate_row, batch_row, outer, index)
        with m.If(self.masks.enable & by_batch):
            self._go_by_batch(m, block, at, beat, lane_ends)
        with m.Elif(self.masks.enable):
            self._go_by_rows(m, block, at, gate_ends, batch_ends)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [counter.eq(0) for counter in (gate, batch, slot, gate_row, batch_row)]
            m.d.sync += [lane.eq(self.i.p.lane), outer.eq(self.i.p.outer), index.eq(self.i.p.index)]

    def _go_by_batch(self, m, block, at, beat, lane_ends):
        """A group is a beat of lanes of one sequence, all gates. Go through the lanes; then take the next sequence."""
        sizes, shift = self._sizes, (self._sizes.beat_words - 1).bit_length()
        m.d.sync += [at.lane.eq(Cat(C(0, shift), beat + 1)), at.index.eq(at.index + block.gates * sizes.beat_words)]
        with m.If(lane_ends):
            m.d.sync += [
                at.lane.eq(block.lane),
                at.index.eq(block.index),
                at.outer.eq(lane_offset(at.outer + block.row_vectors)),
                at.batch.eq(at.batch + 1),
                at.batch_row.eq(at.batch_row + sizes.vector_beats),
            ]

    def _go_by_rows(self, m, block, at, gate_ends, batch_ends):
        """A group is a lane and gate of some sequences. Go through these, then take the next gate, then lane."""
        sizes = self._sizes
        m.d.sync += [
            at.index.eq(at.index + sizes.chunk),
            at.batch.eq(at.batch + sizes.chunk),
            at.batch_row.eq(at.batch_row + sizes.chunk * sizes.vector_beats),
            at.slot.eq(at.slot + 1),
        ]
        with m.If(batch_ends):
            m.d.sync += [
                at.index.eq(block.index),
                at.batch.eq(0),
                at.batch_row.eq(0),
                at.outer.eq(lane_offset(at.outer + block.row_vectors)),
                at.gate.eq(at.gate + 1),
                at.gate_row.eq(at.gate_row + block.batch * sizes.vector_beats),
            ]
            with m.If(gate_ends):
                m.d.sync += [at.gate.eq(0), at.gate_row.eq(0), at.slot.eq(0), at.lane.eq(at.lane + 1)]
