"""Walks through the groups of a block in the order in which they are sent."""

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
        """Counters that go from group to group."""
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
        with m.If(self.masks.enable & by_batch):
            m.d.sync += [lane.eq(Cat(C(0, shift), beat + 1)), index.eq(index + block.gates * sizes.beat_words)]
            with m.If(lane_ends):
                m.d.sync += [
                    lane.eq(block.lane),
                    index.eq(block.index),
                    outer.eq(lane_offset(outer + block.row_vectors)),
                    batch.eq(batch + 1),
                    batch_row.eq(batch_row + sizes.vector_beats),
                ]
        with m.Elif(self.masks.enable):
            m.d.sync += [
                index.eq(index + sizes.chunk),
                batch.eq(batch + sizes.chunk),
                batch_row.eq(batch_row + sizes.chunk * sizes.vector_beats),
                slot.eq(slot + 1),
            ]
            with m.If(batch_ends):
                m.d.sync += [
                    index.eq(block.index),
                    batch.eq(0),
                    batch_row.eq(0),
                    outer.eq(lane_offset(outer + block.row_vectors)),
                    gate.eq(gate + 1),
                    gate_row.eq(gate_row + block.batch * sizes.vector_beats),
                ]
                with m.If(gate_ends):
                    m.d.sync += [gate.eq(0), gate_row.eq(0), slot.eq(0), lane.eq(lane + 1)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [counter.eq(0) for counter in (gate, batch, slot, gate_row, batch_row)]
            m.d.sync += [lane.eq(self.i.p.lane), outer.eq(self.i.p.outer), index.eq(self.i.p.index)]
