"""Executes STORE and TRANSPOSE: vectors from the lane memories of a channel into memory."""

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import AXI4Write
from etalstm_hw.axi.writer import Writer
from etalstm_hw.codec.buffered import BufferedCompressor
from etalstm_hw.contract import (
    COUNT_BITS,
    INSTRUCTION_BITS,
    KIND_BITS,
    OWN_WINDOW,
    PARAMETERS,
    FloatFormat,
    Memory,
    Opcode,
    Status,
)
from etalstm_hw.dma.log import Log
from etalstm_hw.dma.scatter import Scatter
from etalstm_hw.dma.transpose import Transposer
from etalstm_hw.dma.vectors import VectorReader
from etalstm_hw.dma.walker import LanePattern
from etalstm_hw.stream import Group, LaneRead, Windows, instruction_layout, vector_layout

OUTSTANDING = 32  # bursts without a response; single beats at full speed need the memory's latency


class StoreEngine(wiring.Component):
    """Executes STORE and TRANSPOSE instructions in order, one beat a cycle, compressed or not.

    ::

        i ─┬─ VectorReader ──┬─────────────────────────── data ── Writer ── axi
           │  read, vector   ├─ Transposer ───────────────┤         │
           │                 └─ Compressor ──────────────┐│         │
           ├─────────────────────────────────────────── Log ────────┤
           └─ Scatter ───────────────────────────────── transfers ──┘

    An instruction is taken 3 cycles after it was offered at the soonest; then its vectors are read while those before
    it are still written, and are written while the responses to those before it are still missing.
    Each vector is read once. Stalls of ``read`` and of the port stall the engine; nothing is lost. A stream's
    vectors are read and compressed while the one before it is still written; an instruction without `compressed` is
    taken only when the index beat of the stream before it was handed to the port.

    Errors are precise: instructions before the refused one complete (with ``done``). Of a TRANSPOSE the lanes before
    the one that reaches beyond the window are written, of a stream the bursts before the one outside its log; no later
    beat is. Then, as under ``drain``, no new burst begins, those that have begun end with strobes of 0, and the engine
    waits for its reset, which may come when ``busy`` has gone. When ``drain`` is set, ``read.valid`` may fall without a
    transfer.

    Parameters
    ----------
    format : FloatFormat
        Number format of a word.
    lanes, beat_words : int
        Words of a vector and of a memory beat; ``beat_words`` divides ``lanes``, both are powers of two.
    address_bits : int
        Bits of a byte address.
    outstanding, ahead : int
        Of the :class:`Writer`: bursts without a response, and addresses ahead of their data.
    depth : int
        Beats read ahead.
    compressor_words : int
        Elements that the compressor takes in a cycle, if a beat has more.

    Members
    -------
    i : :py:`In(stream.Signature(INSTRUCTION_BITS))`
        A STORE or a TRANSPOSE whose waits have been observed.
    group : :py:`In(Group(address_bits))`
        This channel's; constant while the engine is busy, as ``windows``.
    windows : :py:`In(Windows(address_bits))`
        Constant while the engine is busy.
    parameters : :py:`In(data.ArrayLayout(format.width, PARAMETERS))`
        Thresholds; constant while the engine is busy.
    read : :py:`Out(stream.Signature(LaneRead()))`
        Requests to SCRATCH and SUMS.
    vector : :py:`In(vector_layout(format, lanes))`
        What was asked for, one cycle after the request was taken.
    axi : :py:`Out(AXI4Write(address_bits, beat_bits))`
    done : :py:`Out(1)`
        Set for a cycle, one cycle after the response to the instruction's last burst: other managers see all of it.
    beats, kind : :py:`Out(1)`, :py:`Out(KIND_BITS)`
        A beat was handed to the port in this cycle, and what it counts as.
    drain : :py:`In(1)`
    busy : :py:`Out(1)`
        An instruction is being looked at, or was taken and is neither done nor dropped.
    status : :py:`Out(Status)`
        IDLE, or sticky until reset: BAD_FIELD (a count of 0, `rows` or `lanes` more than there are, a memory that
        cannot be read), BAD_ADDRESS (outside the window, or no such channel), OVERFLOW (a stream would pass the end of
        its log), WRITE_ERROR.
    """

    def __init__(
        self,
        format: FloatFormat,
        lanes: int,
        beat_words: int,
        address_bits: int,
        *,
        outstanding: int = OUTSTANDING,
        ahead: int = 8,
        depth: int = 16,
        compressor_words: int = 8,
    ):
        if lanes % beat_words:
            raise ValueError(f"beat_words must divide lanes ({lanes}), got {beat_words}")
        self._format, self._lanes, self._beat_words = format, lanes, beat_words
        self._vector_beats, self._beat_bits = lanes // beat_words, beat_words * format.width
        self._beats_bits = 2 * COUNT_BITS + (self._vector_beats - 1).bit_length()
        self._address_bits = address_bits
        self._writer, self._depth = {"outstanding": outstanding, "ahead": ahead}, depth
        self._compressor_words = compressor_words
        super().__init__(
            {
                "i": In(stream.Signature(INSTRUCTION_BITS)),
                "windows": In(Windows(address_bits)),
                "group": In(Group(address_bits)),
                "parameters": In(data.ArrayLayout(format.width, PARAMETERS)),
                "read": Out(stream.Signature(LaneRead())),
                "vector": In(vector_layout(format, lanes)),
                "axi": Out(AXI4Write(address_bits, self._beat_bits)),
                "done": Out(1),
                "beats": Out(1),
                "kind": Out(KIND_BITS),
                "drain": In(1),
                "busy": Out(1),
                "status": Out(Status),
            }
        )

    @staticmethod
    def capacity(outstanding: int = OUTSTANDING) -> int:
        """Give how many instructions the engine can have taken that are not ``done``.

        Every instruction has a burst of its own, so ``outstanding`` of them wait for a response. One more is cut into
        bursts, one is in the scatter, one in the log, and one more is taken in the cycle before a ``done``.
        """
        return outstanding + 4

    def elaborate(self, platform):
        """Everything but the writer is simply reset when the engine stops: it owes nothing to the port."""
        m = Module()
        drain = Signal()
        sizes = (self._address_bits, self._beat_bits, self._beats_bits)
        transposer = Transposer(self._format.width, self._beat_words, self._vector_beats)
        vectors = VectorReader(self._format, self._lanes, self._beat_words, depth=self._depth)
        scatter = Scatter(*sizes)
        m.submodules.transposer = ResetInserter(drain)(transposer)
        m.submodules.vectors = ResetInserter(drain)(vectors)
        m.submodules.scatter = ResetInserter(drain)(scatter)
        log = Log(self._format.width, self._beat_words, self._address_bits, self._beats_bits)
        m.submodules.log = ResetInserter(drain)(log)
        m.submodules.writer = writer = Writer(*sizes, **self._writer)
        wiring.connect(m, writer.axi, wiring.flipped(self.axi))
        m.d.comb += [
            drain.eq(self.drain | (self.status != Status.IDLE)),
            writer.drain.eq(drain),
            self.done.eq(writer.done),
            self.beats.eq(writer.beats),
            self.kind.eq(writer.kind),
            self.read.p.eq(vectors.read.p),
            self.read.valid.eq(vectors.read.valid & ~drain),
            vectors.read.ready.eq(self.read.ready),  # a drain resets the reader, whatever it is told
            vectors.vector.eq(self.vector),
        ]
        elements = self._compress(m, vectors.o.p, log, drain)
        self._route(m, vectors, transposer, elements, log, writer)
        self._address(m, scatter, log, writer)
        self._take(m, vectors, scatter, log, writer, drain)
        return m

    def _compress(self, m, beat, log, drain):
        """Compress beats; give the stream that takes them."""
        compressor = BufferedCompressor(self._format, self._beat_words, self._compressor_words)
        m.submodules.compressor = ResetInserter(drain)(compressor)
        wiring.connect(m, compressor.o, log.beats)
        m.d.comb += [
            compressor.i.p.data.eq(beat.data),
            compressor.i.p.last.eq(beat.last),
            compressor.bf16.eq(beat.route.bf16),
            compressor.threshold.eq(beat.route.threshold),
            compressor.parameters.eq(self.parameters),
        ]
        return compressor.i

    def _route(self, m, vectors, transposer, elements, log, writer):
        """Beats go straight to the writer or on a detour; the straight way waits until the transposer is empty.

        No beat that follows a stream is read before the stream is written: :meth:`_take` sees to that.
        """
        beat = vectors.o.p
        straight, transpose, compress = Signal(), beat.route.transpose, beat.route.compress
        m.d.comb += [
            straight.eq(~transpose & ~compress & ~transposer.busy),
            transposer.i.p.data.eq(beat.data),
            transposer.i.p.lanes.eq(beat.lanes),
            transposer.i.p.last.eq(beat.last),
            transposer.i.valid.eq(vectors.o.valid & transpose),
            elements.valid.eq(vectors.o.valid & compress),
            writer.data.payload.eq(beat.data),
            writer.data.valid.eq(
                transposer.o.valid | (log.data.valid & ~transposer.busy) | (vectors.o.valid & straight)
            ),
            transposer.o.ready.eq(writer.data.ready),
            log.data.ready.eq(writer.data.ready & ~transposer.busy),
            vectors.o.ready.eq(writer.data.ready & straight),
        ]
        with m.If(transposer.busy):
            m.d.comb += writer.data.payload.eq(transposer.o.p.as_value())
        with m.Elif(log.data.p.indexing):
            m.d.comb += writer.data.payload.eq(log.data.p.index.as_value())
        with m.Elif(log.data.valid):
            m.d.comb += writer.data.payload.eq(log.data.p.data)
        with m.If(transpose):
            m.d.comb += vectors.o.ready.eq(transposer.i.ready)
        with m.Elif(compress):
            m.d.comb += vectors.o.ready.eq(elements.ready)

    def _address(self, m, scatter, log, writer):
        """Transfers come from the scatter or from the log. Each waits for the other, so never from both."""
        m.d.comb += [
            log.hold.eq(scatter.busy),
            writer.i.valid.eq(scatter.o.valid | log.transfers.valid),
            writer.i.p.eq(Mux(log.busy & ~scatter.busy, log.transfers.p, scatter.o.p)),
            scatter.o.ready.eq(writer.i.ready),
            log.transfers.ready.eq(writer.i.ready),
        ]

    def _take(self, m, vectors, scatter, log, writer, drain):
        """Work out products and check fields; say what is to be read, and where it is to be written."""
        store, square = (
            fields(self.i.payload[: fields.size])
            for fields in (instruction_layout(Opcode.STORE), instruction_layout(Opcode.TRANSPOSE))
        )
        beats_of_lane = (square.rows + self._beat_words - 1) >> (self._beat_words.bit_length() - 1)
        transpose, compress, elsewhere = Signal(), Signal(), Signal()
        beats = Signal(self._beats_bits, reset_less=True)
        skip = Signal(self._address_bits, reset_less=True)  # from the first window to the target's
        size = self.windows.size >> (self._beat_bits // 8).bit_length() - 1

        m.d.comb += compress.eq((store.opcode != Opcode.TRANSPOSE) & store.compressed)
        m.d.comb += [
            transpose.eq(store.opcode == Opcode.TRANSPOSE),
            elsewhere.eq(transpose & (square.target != OWN_WINDOW)),
        ]
        m.d.sync += [
            beats.eq(Mux(transpose, beats_of_lane, store.outer * store.inner * self._vector_beats)),
            skip.eq((self.group.first + Mux(elsewhere, square.target, self.group.position)) * self.windows.stride),
        ]
        bad_field, bad_target = self._check(m, store, square, transpose, elsewhere, compress, size)
        self._describe(m, vectors.i.p, scatter.i.p, store, square, transpose)
        m.d.comb += [
            vectors.i.p.route.transpose.eq(transpose),
            vectors.i.p.route.compress.eq(compress),
            vectors.i.p.route.bf16.eq(store.bf16),
            vectors.i.p.route.threshold.eq(store.threshold),
            *(log.i.p[name].eq(store[name]) for name in ("address", "kind", "log", "first", "start", "end")),
            log.i.p.window.eq(self.windows.base + skip),
            log.i.p.elements.eq(beats * self._beat_words),
            scatter.i.p.window.eq(self.windows.base + skip),
            scatter.i.p.beats.eq(beats),
            scatter.size.eq(size),
        ]
        refused = self._hand_over(m, vectors, scatter, log, writer, drain, compress, bad_field | bad_target)
        self._refuse(m, scatter, log, writer, refused, bad_field)

    def _hand_over(self, m, vectors, scatter, log, writer, drain, compress, bad):
        """Hand the instruction to the reader of vectors, and to scatter or log; give whether it is refused instead.

        The instruction stays at the input until both have it, so nothing of it is copied here. It is `prepared` a cycle
        after it has come, when its products are there. From then on either side takes it as soon as it can, in any
        order: `to_read` and `to_write` say that it has still to, `read` and `posted` that it does in this cycle.
        """
        prepared, settled, to_read, to_write = (Signal() for _ in range(4))
        read, posted = Signal(), Signal()
        refused = Signal()
        good = prepared & ~refused
        m.d.comb += [
            refused.eq(prepared & bad),
            vectors.i.valid.eq(good & to_read & (compress | ~log.busy)),
            scatter.i.valid.eq(good & to_write & ~compress & ~log.busy),
            log.i.valid.eq(good & to_write & compress),
            read.eq(vectors.i.valid & vectors.i.ready),
            posted.eq((scatter.i.valid & scatter.i.ready) | (log.i.valid & log.i.ready)),
            settled.eq(good & (~to_read | read) & (~to_write | posted) & ~drain),
            self.i.ready.eq(settled),
            self.busy.eq(prepared | scatter.busy | log.busy | writer.busy),
        ]
        with m.If(drain | settled | ~self.i.valid):
            m.d.sync += [prepared.eq(0), to_read.eq(1), to_write.eq(1)]
        with m.Else():
            m.d.sync += prepared.eq(1)
            with m.If(read):
                m.d.sync += to_read.eq(0)
            with m.If(posted):
                m.d.sync += to_write.eq(0)
        return refused

    def _check(self, m, store, square, transpose, elsewhere, compress, size):
        """Check the instruction: was a field out of range, and did the target lie outside the window?

        The answers are a cycle late, as `prepared` is: so no compare lies before the hand-over.
        """
        bad_field, bad_target = Signal(reset_less=True), Signal(reset_less=True)
        with m.If(transpose):
            m.d.sync += bad_field.eq(
                (square.outer == 0)
                | (square.rows == 0)
                | (square.rows > self._lanes)
                | (square.lanes == 0)
                | (square.lanes > self._lanes)
            )
            m.d.sync += bad_target.eq(elsewhere & (square.target >= self.group.size))
        with m.Else():
            readable = (store.memory == Memory.SCRATCH) | (store.memory == Memory.SUMS)
            m.d.sync += bad_field.eq((store.outer == 0) | (store.inner == 0) | ~readable)
            m.d.sync += bad_target.eq(compress & ((store.address >= size) | (store.end > size)))
        return bad_field, bad_target

    def _refuse(self, m, scatter, log, writer, refused, bad_field):
        """Stop with a status; a refusal waits for the instructions before it."""
        with m.If(self.status != Status.IDLE):
            pass
        with m.Elif(writer.error):
            m.d.sync += self.status.eq(Status.WRITE_ERROR)
        with m.Elif(~writer.busy & scatter.violation):
            m.d.sync += self.status.eq(Status.BAD_ADDRESS)
        with m.Elif(~writer.busy & log.violation):
            m.d.sync += self.status.eq(Status.OVERFLOW)
        with m.Elif(~writer.busy & ~scatter.busy & ~log.busy & refused):
            m.d.sync += self.status.eq(Mux(bad_field, Status.BAD_FIELD, Status.BAD_ADDRESS))

    def _describe(self, m, read, pattern, store, square, transpose):
        """What to read and where to write it, by opcode."""
        names = LanePattern().members
        with m.If(transpose):
            m.d.comb += [
                read.memory.eq(Memory.SCRATCH),
                read.lanes.eq(square.lanes),
                *(read.pattern[name].eq(square[name]) for name in names if name != "inner"),
                read.pattern.inner.eq(square.rows),
                pattern.offset.eq(square.address + self.group.position * square.channel_beats),
                *(pattern[name].eq(square[name]) for name in ("kind", "outer", "lanes", "outer_beats", "lane_beats")),
            ]
        with m.Else():
            m.d.comb += [
                read.memory.eq(store.memory),
                read.lanes.eq(self._lanes),
                *(read.pattern[name].eq(store[name]) for name in names),
                pattern.offset.eq(store.address),
                pattern.kind.eq(store.kind),
                pattern.outer.eq(1),
                pattern.lanes.eq(1),
            ]
