"""Executes CAST instructions up to the read: which blocks, where they lie, and whether they may be read."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw import contract
from etalstm_hw.axi.bursts import Transfer
from etalstm_hw.broadcast.blocks import CAST_FIELDS, BlockPlan
from etalstm_hw.contract import MOST_GATES, Opcode, Status
from etalstm_hw.dma.index import Index
from etalstm_hw.dma.indexed import BeatKind, IndexedReads
from etalstm_hw.stream import LANE_OFFSET_BITS, Group, Windows, instruction_layout, lane_offset

_SUM_BITS = contract.COUNT_BITS + 1  # of a number of sums before it is checked


class BlockRequests(wiring.Component):
    """Turns each block of each CAST into a transfer and its plan; a compressed one into two, its index and its stream.

    A block takes 3 cycles, and a cycle more between instructions. The order of transfers and plans is that of
    :class:`~etalstm_hw.dma.indexed.IndexedReads`. What cannot be read is a plan with a verdict; nothing follows it.

    Parameters
    ----------
    beat_words, vector_beats, width : int
        Words of a beat, beats of a vector, bits of a word.
    words : int
        Size of a buffer in words.
    address_bits : int
        Bits of a byte address.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.CAST)))`
        Instructions whose waits are over.
    windows : :py:`In(Windows(address_bits))`
    group : :py:`In(Group(address_bits))`
        The group whose windows are read.
    index : :py:`In(stream.Signature(Index(width)))`
        The indices that were asked for, in order.
    transfers : :py:`Out(stream.Signature(Transfer(address_bits, ADDRESS_BITS)))`
    plans : :py:`Out(stream.Signature(BlockPlan(words, width)))`
    drain : :py:`In(1)`
        Offer nothing more.
    busy : :py:`Out(1)`
        A block has not been asked for yet.
    """

    def __init__(self, *, beat_words, vector_beats, width, words, address_bits):
        self._beat_words, self._vector_beats = beat_words, vector_beats
        self._lanes, self._lines = beat_words * vector_beats, words // beat_words
        self._plan, self._most_sums = BlockPlan(words, width), contract.cast_sums(self._lanes, words)
        self._sizes = (width, beat_words, address_bits, contract.ADDRESS_BITS)
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.CAST))),
                "windows": In(Windows(address_bits)),
                "group": In(Group(address_bits)),
                "index": In(stream.Signature(Index(width))),
                "transfers": Out(stream.Signature(Transfer(address_bits, contract.ADDRESS_BITS))),
                "plans": Out(stream.Signature(self._plan)),
                "drain": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """One FSM walks through the blocks; products get a cycle of their own, and so do the checks."""
        m = Module()
        m.submodules.reads = reads = IndexedReads(self._plan, *self._sizes)
        connect(m, reads.transfers, flipped(self.transfers))
        connect(m, reads.plans, flipped(self.plans))
        connect(m, flipped(self.index), reads.index)
        cast = Signal(self.i.p.shape())
        inner, own_end = Signal(contract.COUNT_BITS), Signal(_SUM_BITS)
        sums, sums_before = Signal(_SUM_BITS), Signal(_SUM_BITS)  # since the last start
        words_before = cast.gates * cast.lane[: (self._beat_words - 1).bit_length()]  # of the first lane's beat
        remaining = Signal(contract.COUNT_BITS)
        channel, tile = Signal(contract.CHANNEL_BITS), Signal(contract.TILE_BITS)
        fresh, lanes, rows = Signal(), Signal(6), Signal(range(MOST_GATES * self._lanes + 1))
        outer, verdict = Signal(LANE_OFFSET_BITS), Signal(Status)
        row_vectors = Signal.like(cast.tiles)
        beats, offset = Signal(contract.ADDRESS_BITS), Signal(contract.ADDRESS_BITS + 1)
        window, shift = Signal(self.windows.base.shape()), (self._beat_words * self._sizes[0] // 8).bit_length() - 1
        last_tile, last_block = tile == cast.tiles_per_channel - 1, remaining == 1
        request = reads.i.p
        last_lane = Signal.like(request.plan.block.last_lane)
        m.d.comb += [
            reads.size.eq(self.windows.size >> shift),
            reads.drain.eq(self.drain),
            request.window.eq(window),
            request.address.eq(offset),
            request.transfer.address.eq(window + (offset << shift)),
            request.transfer.beats.eq(Mux(cast.compressed, 1, beats)),
            request.plan.verdict.eq(verdict),
            request.refused.eq(verdict != Status.IDLE),
            request.plan.beat_kind.eq(Mux(cast.compressed, BeatKind.INDEX, BeatKind.VECTORS)),
            request.plan.kind.eq(cast.kind),
            request.plan.stream_size.eq((beats * self._beat_words)[: self._sizes[0]]),  # the index knows what is kept
            request.plan.fresh.eq(fresh),
            own_end.eq(cast.first_sum + Mux(cast.batch_outer, rows, cast.batch)),
            sums_before.eq(Mux(cast.start & fresh, 0, sums)),
        ]
        self._describe(m, request.plan.block, cast, fresh, last_block, last_lane, outer, inner, sums)
        m.d.comb += request.plan.block.row_vectors.eq(row_vectors)

        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("TAKE") | self.i.valid | reads.busy)
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [cast.eq(self.i.p), fresh.eq(1), outer.eq(0)]
                m.d.sync += [remaining.eq(self.i.p.blocks), channel.eq(self.i.p.channel), tile.eq(self.i.p.tile)]
                m.d.sync += beats.eq(self.i.p.gates * self.i.p.batch * self._vector_beats)
                m.d.sync += row_vectors.eq(Mux(self.i.p.narrow, (self.i.p.tiles + 1) >> 1, self.i.p.tiles))
                with m.If(self.i.valid):
                    m.next = "LOCATE"
            with m.State("LOCATE"):
                m.d.sync += [
                    offset.eq(cast.address + tile * Mux(cast.compressed, self._vector_beats, beats)),
                    window.eq(self.windows.base + (self.group.first + channel) * self.windows.stride),
                    lanes.eq(Mux(last_tile, cast.last_lanes, cast.lanes)),
                    rows.eq(cast.gates * Mux(last_tile, cast.last_lanes, cast.lanes)),
                    inner.eq(cast.first_sum - Mux(cast.batch_outer, words_before, 0)),
                ]
                m.next = "CHECK"
            with m.State("CHECK"):
                end = offset + request.transfer.beats
                m.d.sync += [
                    verdict.eq(self._verdict(cast, beats, lanes, channel, own_end, end, reads.size)),
                    sums.eq(Mux(own_end > sums_before, own_end, sums_before)),
                    last_lane.eq(cast.lane + lanes - 1),
                ]
                m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += reads.i.valid.eq(1)
                with m.If(reads.i.ready):
                    m.d.sync += [
                        fresh.eq(0),
                        outer.eq(lane_offset(outer + Mux(cast.batch_outer, cast.batch, rows) * row_vectors)),
                        remaining.eq(remaining - 1),
                        tile.eq(Mux(last_tile, 0, tile + 1)),
                        channel.eq(channel + last_tile),
                    ]
                    m.next = "LOCATE"
                    with m.If(verdict != Status.IDLE):
                        m.next = "STOPPED"
                    with m.Elif(last_block):
                        m.next = "TAKE"
            with m.State("STOPPED"):
                pass
        return m

    def _describe(self, m, block, cast, fresh, last_block, last_lane, outer, inner, sums):
        """Fill in what is to be sent of a block."""
        m.d.comb += [
            *(block[name].eq(cast[name]) for name in ("lane", *CAST_FIELDS)),
            block.last_lane.eq(last_lane),
            block.outer.eq(outer),
            block.inner.eq(inner),
            block.sums.eq(sums),
            block.start.eq(cast.start & fresh),
            block.finish.eq(cast.finish & last_block),
            block.last.eq(last_block),
        ]

    def _verdict(self, cast, beats, lanes, channel, own_end, end, size):
        """Say why a block cannot be read, or IDLE."""
        counts = [cast[name] for name in ("gates", "batch", "blocks", "tiles_per_channel", "tiles")]
        bad_field = (
            Cat(count == 0 for count in [*counts, lanes]).any()
            | (beats > self._lines)
            | (cast.gates > MOST_GATES)
            | (cast.lane + lanes > self._lanes)
            | (own_end > self._most_sums)
        )
        bad_address = (channel >= self.group.size) | (end > size)
        return Mux(bad_field, Status.BAD_FIELD, Mux(bad_address, Status.BAD_ADDRESS, Status.IDLE))
