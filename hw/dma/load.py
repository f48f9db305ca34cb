"""Executes LOAD: vectors from memory into the lane memories of a channel."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm.hw.axi import AXI4Read
from etalstm.hw.contract import CHANNEL_BITS, COUNT_BITS, KIND_BITS, FloatFormat, Opcode, Status
from etalstm.hw.dma.loop import LaneLoop, Loop
from etalstm.hw.dma.reader import Reader
from etalstm.hw.stream import LaneWrite, Windows, instruction_layout


class LoadPlan(data.StructLayout):
    """What the lane side must know of an instruction; ``verdict`` is not IDLE if nothing is read for it."""

    def __init__(self):
        super().__init__({"verdict": Status, "kind": KIND_BITS, "memory": 2, "loop": Loop()})


class LoadEngine(wiring.Component):
    """Executes LOAD instructions in order, one beat a cycle.

    An instruction is taken every 2 cycles, its first address goes out 2 cycles later, and each beat becomes a write 2
    cycles after it arrived. Up to ``instructions`` are taken ahead of the one whose data arrive, so that the memory's
    latency is seen once, not once for each instruction. A stalled ``write`` stops requests, never the data channel.

    Errors are precise: instructions before the refused one complete (with ``done``), it and those after it do not.
    Then, as under ``abort``, nothing more is requested or written, outstanding data are dropped, and the engine waits
    for its reset, which may come when ``busy`` has gone. When ``abort`` is set, ``write.valid`` may fall without a
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

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.LOAD)))`
        Waits have been observed already; ``opcode`` is not looked at.
    number : :py:`In(CHANNEL_BITS)`
        Which window this engine reads from; constant.
    windows : :py:`In(Windows(address_bits))`
        Constant from 2 cycles before the first instruction to the end of the last.
    write : :py:`Out(stream.Signature(LaneWrite(format, lanes)))`
        One write for each beat, its words in the lanes that ``enable`` names.
    axi : :py:`Out(AXI4Read(address_bits, beat_bits))`
    done : :py:`Out(1)`
        Set for a cycle, one cycle after the last write of an instruction was taken.
    beats, kind : :py:`Out(1)`, :py:`Out(KIND_BITS)`
        A beat was written in this cycle, and what it counts as.
    abort : :py:`In(1)`
    busy : :py:`Out(1)`
        An instruction was taken and is neither done nor dropped.
    status : :py:`Out(Status)`
        IDLE, or sticky until reset: BAD_FIELD (a count of 0), BAD_ADDRESS (not all of it lies in the window; nothing of
        it is read), READ_ERROR.
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
        instructions: int = 4,
    ):
        if lanes % beat_words:
            raise ValueError(f"beat_words must divide lanes ({lanes}), got {beat_words}")
        self._lanes, self._vector_beats = lanes, lanes // beat_words
        self._beat_bits = beat_words * format.width
        self._beats_bits = 2 * COUNT_BITS + (self._vector_beats - 1).bit_length()
        self._address_bits, self._instructions = address_bits, instructions
        self._reader = {"depth": depth, "outstanding": outstanding}
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.LOAD))),
                "windows": In(Windows(address_bits)),
                "number": In(CHANNEL_BITS),
                "write": Out(stream.Signature(LaneWrite(format, lanes))),
                "axi": Out(AXI4Read(address_bits, self._beat_bits)),
                "done": Out(1),
                "beats": Out(1),
                "kind": Out(KIND_BITS),
                "abort": In(1),
                "busy": Out(1),
                "status": Out(Status),
            }
        )

    def elaborate(self, platform):
        """The memory side takes instructions and requests; the lane side follows with their plans."""
        m = Module()
        plan = LoadPlan()
        m.submodules.reader = reader = Reader(self._address_bits, self._beat_bits, self._beats_bits, **self._reader)
        m.submodules.plans = plans = SyncFIFO(width=plan.size, depth=self._instructions)
        stop, active, prepared = Signal(), Signal(), Signal()
        wiring.connect(m, reader.axi, wiring.flipped(self.axi))
        m.d.comb += [
            stop.eq(self.abort | (self.status != Status.IDLE)),
            reader.abort.eq(stop),
            self.busy.eq(prepared | plans.r_rdy | active | reader.busy),
        ]
        self._request(m, reader, plans, plan(plans.w_data), prepared, stop)
        self._forward(m, reader, plans, plan(plans.r_data), active, stop)
        return m

    def _request(self, m, reader, plans, planned, prepared, stop):
        """Check an instruction (its product in the first cycle, its window in the second) and request its beats."""
        shift = (self._beat_bits // 8).bit_length() - 1
        base = Signal(self._address_bits, reset_less=True)
        beats = Signal(self._beats_bits, reset_less=True)
        taken, inside = Signal(), Signal()
        instruction, windows = self.i.p, self.windows
        m.d.sync += base.eq(windows.base + self.number * windows.stride)
        m.d.comb += inside.eq(instruction.address + beats <= windows.stride >> shift)
        with m.If(inside):
            m.d.comb += planned.verdict.eq(Status.IDLE)
        with m.Else():
            m.d.comb += planned.verdict.eq(Status.BAD_ADDRESS)
        with m.If(beats == 0):
            m.d.comb += planned.verdict.eq(Status.BAD_FIELD)

        good = planned.verdict == Status.IDLE
        m.d.comb += [
            planned.kind.eq(instruction.kind),
            planned.memory.eq(instruction.memory),
            *(planned.loop[name].eq(instruction[name]) for name in Loop().members),
            reader.i.p.address.eq(base + (instruction.address << shift)),
            reader.i.p.beats.eq(beats),
            reader.i.valid.eq(prepared & plans.w_rdy & good & ~stop),
            taken.eq(prepared & plans.w_rdy & (reader.i.ready | ~good) & ~stop),
            self.i.ready.eq(taken),
            plans.w_en.eq(taken),
        ]
        m.d.sync += beats.eq(instruction.outer * instruction.inner * self._vector_beats)
        m.d.sync += prepared.eq(self.i.valid & ~taken & ~stop)

    def _forward(self, m, reader, plans, planned, active, stop):
        """Write each beat to the lanes it belongs to."""
        m.submodules.loop = loop = LaneLoop()
        beat, write = reader.o.p, self.write.p
        memory = Signal(2, reset_less=True)
        part = Signal(range(max(self._vector_beats, 2)), reset_less=True)
        taken, ending = Signal(), Signal()
        m.d.comb += [
            self.write.valid.eq(active & reader.o.valid & ~beat.error),
            reader.o.ready.eq(active & (self.write.ready | beat.error)),
            write.memory.eq(memory),
            write.address.eq(loop.address),
            Cat(write.data).eq(beat.data.replicate(self._vector_beats)),
            taken.eq(self.write.valid & self.write.ready),
            ending.eq(taken & beat.last),
            loop.loop.eq(planned.loop),
            self.beats.eq(taken),
        ]
        words = self._lanes // self._vector_beats
        for n in range(self._vector_beats):
            m.d.comb += write.enable[n * words : (n + 1) * words].eq((part == n).replicate(words))

        last_part = part == self._vector_beats - 1
        m.d.comb += loop.step.eq(taken & last_part)
        m.d.sync += self.done.eq(ending)
        with m.If(taken):
            m.d.sync += part.eq(Mux(last_part, 0, part + 1))

        with m.If(stop):
            m.d.comb += plans.r_en.eq(1)
            m.d.sync += active.eq(0)
        with m.Elif(active & reader.o.valid & beat.error):
            m.d.sync += self.status.eq(Status.READ_ERROR)
        with m.Elif(~active | ending):
            m.d.comb += [plans.r_en.eq(1), loop.start.eq(1)]
            m.d.sync += active.eq(plans.r_rdy & (planned.verdict == Status.IDLE))
            m.d.sync += [self.kind.eq(planned.kind), memory.eq(planned.memory), part.eq(0)]
            with m.If(plans.r_rdy):
                m.d.sync += self.status.eq(planned.verdict)
        return m
