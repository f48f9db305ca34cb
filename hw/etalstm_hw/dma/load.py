"""Executes LOAD: vectors from memory into the lane memories of a channel."""

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import AXI4Read
from etalstm_hw.axi.reader import Reader
from etalstm_hw.codec.buffered import BufferedDecompressor
from etalstm_hw.contract import COUNT_BITS, KIND_BITS, STREAM_INDEX, FloatFormat, Opcode, Status
from etalstm_hw.dma.indexed import BeatKind
from etalstm_hw.dma.requests import LoadPlan, Requests
from etalstm_hw.dma.walker import LaneWalker
from etalstm_hw.stream import Group, LaneWrite, Windows, instruction_layout


class LoadEngine(wiring.Component):
    """Executes LOAD instructions in order, one beat a cycle; of a stream as many elements as are decompressed.

    ::

        i ── Requests ── Reader ──┬──────────────────────────────────┬── write
                │          axi    └─ Decompressor ───────────────────┘
                └─────── plans ──── LaneWalker

    An instruction is taken every 2 cycles, its first address goes out 2 cycles later, and each beat becomes a write 2
    cycles after it arrived. Up to ``instructions`` are taken ahead of the one whose data arrive. So the latency of the
    memory is seen once, however few rows an instruction has. Of compressed LOADs two are taken ahead, and their index
    beats. A stalled ``write`` stops requests, never the data channel. Between two streams at most 12 cycles are lost.

    Errors are precise: instructions before the refused one complete (with ``done``), it and those after it do not.
    Then, as under ``drain``, nothing more is requested or written, outstanding data are dropped, and the engine waits
    for its reset, which may come when ``busy`` has gone. When ``drain`` is set, ``write.valid`` may fall without a
    transfer.

    Parameters
    ----------
    format : FloatFormat
        Number format of a word.
    lanes, beat_words : int
        Words of a vector and of a memory beat; ``beat_words`` divides ``lanes``.
    address_bits : int
        Bits of a byte address.
    depth, outstanding : int
        Of the :class:`Reader`: beats of its FIFO and bursts in flight.
    instructions : int
        Instructions whose data may be on the way.
    decompressor_words : int
        Elements of a stream that are decompressed in a cycle, at most a beat.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.LOAD)))`
        Waits have been observed already; ``opcode`` is not looked at.
    group : :py:`In(Group(address_bits))`
        Which window is this engine's; constant as ``windows``.
    windows : :py:`In(Windows(address_bits))`
        Constant from 3 cycles before the first instruction to the end of the last.
    write : :py:`Out(stream.Signature(LaneWrite(format, lanes, beat_words)))`
        One write for each beat.
    axi : :py:`Out(AXI4Read(address_bits, beat_bits))`
    done : :py:`Out(1)`
        Set for a cycle, one cycle after the last write of an instruction without ``more`` was taken.
    beats, kind : :py:`Out(1)`, :py:`Out(KIND_BITS)`
        A beat of memory was used in this cycle, and what it counts as.
    drain : :py:`In(1)`
    busy : :py:`Out(1)`
        An instruction was taken and is neither done nor dropped.
    status : :py:`Out(Status)`
        IDLE, or sticky until reset: BAD_FIELD (a count of 0, a group that is not there), BAD_ADDRESS (not all of it
        lies in the window; nothing of it is read), READ_ERROR, BAD_STREAM (an index beat that does not fit the
        instruction or the window, and nothing more was read; or a stream that no compressed STORE writes, of which some
        elements may have been written).
    """

    def __init__(
        self,
        format: FloatFormat,
        lanes: int,
        beat_words: int,
        address_bits: int,
        *,
        depth: int = 128,
        outstanding: int = 8,
        instructions: int = 8,
        decompressor_words: int = 8,
    ):
        if lanes % beat_words:
            raise ValueError(f"beat_words must divide lanes ({lanes}), got {beat_words}")
        self._lanes, self._vector_beats = lanes, lanes // beat_words
        self._format, self._beat_words, self._beat_bits = format, beat_words, beat_words * format.width
        self._beats_bits = 2 * COUNT_BITS + self._vector_beats.bit_length()  # a stream may be longer than its elements
        self._address_bits, self._instructions = address_bits, instructions
        self._decompressor_words = decompressor_words
        self._reader = {"depth": depth, "outstanding": outstanding}
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.LOAD))),
                "windows": In(Windows(address_bits)),
                "group": In(Group(address_bits)),
                "write": Out(stream.Signature(LaneWrite(format, lanes, beat_words))),
                "axi": Out(AXI4Read(address_bits, self._beat_bits)),
                "done": Out(1),
                "beats": Out(1),
                "kind": Out(KIND_BITS),
                "drain": In(1),
                "busy": Out(1),
                "status": Out(Status),
            }
        )

    def elaborate(self, platform):
        """The memory side takes instructions and requests; the lane side follows with their plans."""
        m = Module()
        plan = LoadPlan(self._format.width)
        sizes = (self._vector_beats, self._address_bits, self._beats_bits)
        m.submodules.requests = requests = Requests(self._format.width, self._beat_words, *sizes)
        m.submodules.reader = reader = Reader(self._address_bits, self._beat_bits, self._beats_bits, **self._reader)
        m.submodules.plans = plans = SyncFIFO(width=plan.size, depth=self._instructions)
        planned, drain, active, begin = plan(plans.r_data), Signal(), Signal(), Signal()
        wiring.connect(m, wiring.flipped(self.i), requests.i)
        wiring.connect(m, requests.transfers, reader.i)
        wiring.connect(m, reader.axi, wiring.flipped(self.axi))
        m.d.comb += [
            drain.eq(self.drain | (self.status != Status.IDLE)),
            requests.group.eq(self.group),
            requests.windows.eq(self.windows),
            requests.drain.eq(drain),
            plans.w_data.eq(requests.plans.p),
            plans.w_en.eq(requests.plans.valid),
            requests.plans.ready.eq(plans.w_rdy),
            reader.drain.eq(drain),
            self.busy.eq(requests.busy | plans.r_rdy | active | reader.busy),
        ]
        beat_kind = Signal(BeatKind, reset_less=True)
        vectors, index = active & (beat_kind == BeatKind.VECTORS), active & (beat_kind == BeatKind.INDEX)
        ready, reading, elements, bad_stream = self._decompress(m, reader.o, planned, begin, drain)
        ending = self._write(m, reader.o, elements, vectors, planned, begin)

        beat, failed = reader.o.p, Signal()
        m.d.comb += [
            failed.eq(reader.o.valid & beat.error & (vectors | reading)),
            reader.o.ready.eq(index | ready | (vectors & self.write.ready) | failed),
            requests.index.valid.eq(index & reader.o.valid),
            requests.index.p.eq(beat.data[: len(STREAM_INDEX) * self._format.width]),
            requests.index.p.error.eq(beat.error),
            self.beats.eq(reader.o.valid & reader.o.ready & ~beat.error),
        ]
        more = Signal(reset_less=True)
        m.d.sync += self.done.eq(ending & ~more)
        with m.If(drain):
            m.d.comb += plans.r_en.eq(1)
            m.d.sync += active.eq(0)
        with m.Elif(failed):
            m.d.sync += self.status.eq(Status.READ_ERROR)
        with m.Elif(bad_stream):
            m.d.sync += self.status.eq(Status.BAD_STREAM)
        with m.Elif(~active | ending | requests.index.valid):
            m.d.comb += [plans.r_en.eq(1), begin.eq(plans.r_rdy & (planned.verdict == Status.IDLE))]
            m.d.sync += active.eq(begin)
            with m.If(plans.r_rdy):
                m.d.sync += [self.status.eq(planned.verdict), self.kind.eq(planned.kind)]
                m.d.sync += [beat_kind.eq(planned.beat_kind), more.eq(planned.more)]
        return m

    def _decompress(self, m, beats, planned, begin, drain):
        """Take a stream's beats; give whether one is taken and whether more follow, its elements, and what is wrong."""
        decompressor = BufferedDecompressor(self._format, self._beat_words, self._decompressor_words)
        m.submodules.decompressor = ResetInserter(drain)(decompressor)
        reading = Signal()
        m.d.comb += [
            decompressor.i.p.data.eq(beats.p.data),
            decompressor.i.p.last.eq(beats.p.last),
            decompressor.i.valid.eq(beats.valid & reading & ~beats.p.error),
            decompressor.stream_size.valid.eq(begin & (planned.beat_kind == BeatKind.STREAM)),
            decompressor.stream_size.p.eq(planned.stream_size),
        ]
        with m.If(decompressor.stream_size.valid):
            m.d.sync += reading.eq(1)
        with m.If(drain | (decompressor.i.valid & decompressor.i.ready & beats.p.last)):
            m.d.sync += reading.eq(0)
        return reading & decompressor.i.ready, reading, decompressor.o, decompressor.error

    def _write(self, m, beats, elements, vectors, planned, begin):
        """Write each beat, read or decompressed, to the lanes it belongs to; give whether an instruction ends."""
        m.submodules.walker = walker = LaneWalker()
        write, beat = self.write.p, beats.p
        memory = Signal(2, reset_less=True)
        beat_number = Signal(range(max(self._vector_beats, 2)), reset_less=True)
        taken, ends_vector = Signal(), beat_number == self._vector_beats - 1
        m.d.comb += [
            self.write.valid.eq((vectors & beats.valid & ~beat.error) | elements.valid),
            elements.ready.eq(self.write.ready),
            write.memory.eq(memory),
            write.address.eq(walker.address),
            Cat(write.data).eq(Mux(vectors, beat.data, elements.p.data).replicate(self._vector_beats)),
            taken.eq(self.write.valid & self.write.ready),
            walker.pattern.eq(planned.pattern),
            walker.start.eq(begin),
            walker.step.eq(taken & ends_vector),
        ]
        m.d.comb += write.enable.eq(1 << beat_number)
        with m.If(taken):
            m.d.sync += beat_number.eq(Mux(ends_vector, 0, beat_number + 1))
        with m.If(begin):
            m.d.sync += [memory.eq(planned.memory), beat_number.eq(0)]
        return taken & Mux(vectors, beat.last, elements.p.last)
