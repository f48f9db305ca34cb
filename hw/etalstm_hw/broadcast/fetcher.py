"""Brings the blocks of CAST instructions into the buffers."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw import contract
from etalstm_hw.axi.bursts import Transfer
from etalstm_hw.axi.reader import ReadBeat
from etalstm_hw.broadcast.blocks import BlockLayout, BlockPlan
from etalstm_hw.broadcast.requests import BlockRequests
from etalstm_hw.codec.buffered import BufferedDecompressor
from etalstm_hw.codec.decompress import decompressor_ports
from etalstm_hw.contract import STREAM_INDEX, FloatFormat, Opcode, Status
from etalstm_hw.dma.indexed import BeatKind
from etalstm_hw.stream import Group, Windows, instruction_layout

_PLANS = 4  # transfers asked for ahead


class BlockFetcher(wiring.Component):
    """Turns CAST instructions into blocks that lie in one of two buffers.

    ::

        i ── BlockRequests ── command            (reader)             data ──┬─────────── write
                  │   index ──────────────────────────────────────────────── ┤              │
                  └── plans ─────────────────────────────────────────────── Decompressor ───┘

    Blocks are asked for ahead, up to four transfers or what the reader has room for, those of the next instruction
    too. A beat of words a cycle goes into the buffer, whether it was read or is made of a compressed stream. A buffer
    is filled again only after ``release``; between two blocks a cycle is lost, between two streams 4.

    Errors are precise: blocks of instructions before the refused one are handed over.

    Parameters
    ----------
    format : FloatFormat
    beat_words, vector_beats : int
        Words of a beat, beats of a vector.
    words : int
        Size of one buffer in words.
    address_bits : int
        Bits of a byte address.
    streams : bool
        Blocks may be streams; without, ``compressed`` of every instruction must be 0, and there is no decompressor.

    Members
    -------
    i : :py:`In(stream)`                 CAST instructions whose waits are over
    command : :py:`Out(stream.Signature(Transfer(...)))`     to the reader
    data : :py:`In(stream.Signature(ReadBeat(...)))`         from the reader
    o : :py:`Out(stream)`                blocks (:class:`BlockLayout`) that lie in a buffer
    release : :py:`In(1)`                the oldest block has been sent
    write : :py:`Out`                    address, data and enable of the buffers' write port
    hold : :py:`In(1)`                   write nothing in this cycle
    windows, group : :py:`In`            where the channels' windows are, and which group's are read
    block                                the block that is being written
    kind : :py:`Out(2)`                  what the beat that is taken counts as
    begun : :py:`Out(COMPLETED_BITS)`    how many instructions have had a block begun or refused
    status : :py:`Out(Status)`           BAD_ADDRESS, BAD_FIELD, READ_ERROR, or BAD_STREAM for an index beat or a stream
                                         that no compressed STORE writes; nothing is taken any more, until reset
    drain : :py:`In(1)`                  ask for nothing more
    busy : :py:`Out(1)`                  an instruction or a read is under way
    """

    def __init__(self, format: FloatFormat, *, beat_words, vector_beats, words, address_bits, streams=True):
        self._format, self._beat_words, self._streams = format, beat_words, streams
        self._words, self._lines, self._plan = words, words // beat_words, BlockPlan(words, format.width)
        self._shape = {
            "beat_words": beat_words, "vector_beats": vector_beats, "width": format.width, "words": words,
            "address_bits": address_bits,
        }  # fmt: skip
        beat_bits = beat_words * format.width
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.CAST))),
                "command": Out(stream.Signature(Transfer(address_bits, contract.ADDRESS_BITS))),
                "data": In(stream.Signature(ReadBeat(beat_bits))),
                "o": Out(stream.Signature(BlockLayout(words))),
                "release": In(1),
                "write_address": Out(range(2 * self._lines)),
                "write_data": Out(beat_bits),
                "write_enable": Out(1),
                "hold": In(1),
                "block": Out(BlockLayout(words)),
                "windows": In(Windows(address_bits)),
                "group": In(Group(address_bits)),
                "kind": Out(contract.KIND_BITS),
                "begun": Out(contract.COMPLETED_BITS),
                "status": Out(Status),
                "drain": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Plans wait in a FIFO for their beats; the one at hand says where these go."""
        m = Module()
        m.submodules.requests = requests = BlockRequests(**self._shape)
        m.submodules.plans = plans = SyncFIFO(width=self._plan.size, depth=_PLANS)
        decompressor = self._decompressor(m)
        connect(m, flipped(self.i), requests.i)
        connect(m, requests.transfers, flipped(self.command))
        plan, filling, streaming, free = self._plan(plans.r_data), Signal(), Signal(), Signal(2, init=2)
        here, indexing, begins = Signal(), Signal(), Signal()
        stopped = self.status != Status.IDLE
        m.d.comb += [
            requests.windows.eq(self.windows),
            requests.group.eq(self.group),
            requests.drain.eq(self.drain | stopped),
            plans.w_data.eq(requests.plans.p),
            plans.w_en.eq(requests.plans.valid),
            requests.plans.ready.eq(plans.w_rdy),
            here.eq(plans.r_rdy & ~filling & ~stopped & (plan.verdict == Status.IDLE)),
            indexing.eq(here & (plan.beat_kind == BeatKind.INDEX)),
            begins.eq(here & (plan.beat_kind != BeatKind.INDEX) & (free != 0)),
            requests.index.valid.eq(indexing & self.data.valid),
            requests.index.p.eq(self.data.p.data[: len(STREAM_INDEX) * self._format.width]),
            requests.index.p.error.eq(self.data.p.error),
            plans.r_en.eq(begins | requests.index.valid),
            decompressor.stream_size.valid.eq(begins & (plan.beat_kind == BeatKind.STREAM)),
            decompressor.stream_size.p.eq(plan.stream_size),
            self.busy.eq(requests.busy | plans.r_rdy | filling | (free != 2)),
        ]
        fill, handed, kind = self._fill(m, decompressor, begins, filling, streaming, indexing)
        m.d.comb += self.kind.eq(Mux(filling, kind, plan.kind))
        m.d.sync += free.eq(free + self.release - handed)
        with m.If(begins):
            m.d.sync += [self.block.eq(plan.block), self.block.bank.eq(fill), kind.eq(plan.kind)]
            m.d.sync += [filling.eq(1), streaming.eq(self._streams & (plan.beat_kind == BeatKind.STREAM))]
            m.d.sync += self.begun.eq(self.begun + plan.fresh)
        with m.If(self.data.valid & self.data.ready & self.data.p.error & filling):
            m.d.sync += self.status.eq(Status.READ_ERROR)
        with m.Elif(decompressor.error):
            m.d.sync += self.status.eq(Status.BAD_STREAM)
        with m.Elif(plans.r_rdy & ~filling & ~stopped & (plan.verdict != Status.IDLE)):
            m.d.sync += [self.status.eq(plan.verdict), self.begun.eq(self.begun + plan.fresh)]
        return m

    def _decompressor(self, m):
        """Make the decompressor; without streams only its ports, which nothing drives."""
        if not self._streams:
            return wiring.Signature(decompressor_ports(self._format, self._beat_words)).create()
        m.submodules.decompressor = decompressor = BufferedDecompressor(
            self._format, self._beat_words, self._beat_words, halves=False
        )
        return decompressor

    def _fill(self, m, decompressor, begins, filling, streaming, indexing):
        """Put beats into a buffer, one after the other; give its number, when it is handed over, and its kind."""
        line, fill, kind = Signal(range(self._lines)), Signal(), Signal.like(self.kind)
        full = Signal()  # all beats of the block are in, it could not be handed over with the last of them
        read = Signal()  # the last beat of the stream has been taken
        with m.If(begins):
            m.d.sync += read.eq(0)
        direct, handed, last = Signal(), self.o.valid & self.o.ready, Signal()
        reading = filling & streaming & ~read
        m.d.comb += [
            direct.eq(filling & ~streaming & ~full),
            decompressor.i.valid.eq(reading & self.data.valid),
            decompressor.i.p.data.eq(self.data.p.data),
            decompressor.i.p.last.eq(self.data.p.last),
            decompressor.o.ready.eq(~self.hold),
            self.data.ready.eq(indexing | (direct & ~self.hold) | (reading & decompressor.i.ready)),
            self.write_enable.eq(((direct & self.data.valid) | decompressor.o.valid) & ~self.hold),
            self.write_address.eq(Cat(line, fill)),
            self.write_data.eq(Mux(streaming, decompressor.o.p.data, self.data.p.data)),
            last.eq(Mux(streaming, decompressor.o.p.last, self.data.p.last)),
            self.o.valid.eq(full | (self.write_enable & last)),
            self.o.payload.eq(self.block),
        ]
        with m.If(decompressor.i.valid & decompressor.i.ready):
            m.d.sync += read.eq(self.data.p.last)
        with m.If(self.write_enable):
            m.d.sync += line.eq(line + 1)
            with m.If(last):
                m.d.sync += [line.eq(0), full.eq(1)]
        with m.If(handed):
            m.d.sync += [full.eq(0), filling.eq(0), fill.eq(~fill)]
        return fill, handed, kind
