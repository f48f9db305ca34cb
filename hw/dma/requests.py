"""Checks LOAD instructions and says what is to be read for them, and in which order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm.hw.codec.decompress import Extent
from etalstm.hw.contract import CHANNEL_BITS, KIND_BITS, STREAM_INDEX, Opcode, Status
from etalstm.hw.dma.bursts import Transfer
from etalstm.hw.dma.loop import Loop
from etalstm.hw.stream import Windows, instruction_layout

_AHEAD = 2  # streams whose index has been asked for


class Part(enum.Enum, shape=2):
    """What the beats of a transfer are."""

    VECTORS = 0
    INDEX = 1
    STREAM = 2


class LoadPlan(data.StructLayout):
    """What the lane side must know of a transfer; ``verdict`` is not IDLE if nothing is read for it.

    Members
    -------
    verdict, part, kind, memory, loop
    extent : of a stream
    """

    def __init__(self, word_bits: int):
        super().__init__(
            {
                "verdict": Status,
                "part": Part,
                "kind": KIND_BITS,
                "memory": 2,
                "loop": Loop(),
                "extent": Extent(word_bits),
            }
        )


class Index(data.StructLayout):
    """An index beat as it was read: its words, and whether it came with an error."""

    def __init__(self, word_bits: int):
        super().__init__({name: word_bits for name in STREAM_INDEX} | {"error": 1})


class Requests(wiring.Component):
    """Turns each instruction into a transfer and its plan; a compressed one into two, its index and its stream.

    An instruction is taken every 2 cycles. A stream is asked for 2 cycles after its index has come. The indices of up
    to two streams are asked for ahead of them, so that one is here when the stream before it has been asked for; other
    instructions wait until no stream is outstanding: plans are in the order of the instructions, but for those of
    indices, and so is what they refuse.

    Parameters
    ----------
    word_bits, beat_words, vector_beats : int
        Sizes of a word, a beat, a vector.
    address_bits, beats_bits : int
        Of the transfers.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.LOAD)))`
    number : :py:`In(CHANNEL_BITS)`
    windows : :py:`In(Windows(address_bits))`
    index : :py:`In(stream.Signature(Index(word_bits)))`
        The indices that were asked for, in order; always ready for them.
    transfers : :py:`Out(stream.Signature(Transfer(address_bits, beats_bits)))`
    plans : :py:`Out(stream.Signature(LoadPlan(word_bits)))`
        One for each transfer, in the same cycle, and one for each refusal.
    stop : :py:`In(1)`
        Offer nothing more.
    busy : :py:`Out(1)`
        An instruction is being looked at, or a stream has not been asked for yet.
    """

    def __init__(self, word_bits: int, beat_words: int, vector_beats: int, address_bits: int, beats_bits: int):
        self._word_bits, self._beat_words, self._vector_beats = word_bits, beat_words, vector_beats
        self._address_bits, self._beats_bits = address_bits, beats_bits
        self._shift = (word_bits * beat_words // 8).bit_length() - 1
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.LOAD))),
                "number": In(CHANNEL_BITS),
                "windows": In(Windows(address_bits)),
                "index": In(stream.Signature(Index(word_bits))),
                "transfers": Out(stream.Signature(Transfer(address_bits, beats_bits))),
                "plans": Out(stream.Signature(LoadPlan(word_bits))),
                "stop": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Instructions come before streams: an index read early is what hides its latency."""
        m = Module()
        plan = LoadPlan(self._word_bits)
        m.submodules.waiting = waiting = SyncFIFO(width=plan.size, depth=_AHEAD)
        own, stream_plan = Signal(plan), Signal(plan)
        # Each source: its plan is offered; its transfer.
        own_offers, own_transfer = self._instruction(m, own, waiting)
        stream_offers, stream_transfer = self._stream(m, stream_plan, waiting)
        plans, transfers = self.plans, self.transfers
        readable, offers, taken = Signal(), Signal(), Signal()
        m.d.comb += [
            plans.p.eq(Mux(own_offers, own, stream_plan)),
            transfers.p.eq(Mux(own_offers, own_transfer, stream_transfer)),
            readable.eq(plans.p.verdict == Status.IDLE),
            offers.eq((own_offers | stream_offers) & ~self.stop),
            transfers.valid.eq(offers & readable & plans.ready),
            plans.valid.eq(offers & (transfers.ready | ~readable)),
            taken.eq(plans.valid & plans.ready),
            self.i.ready.eq(taken & own_offers),
            waiting.w_en.eq(taken & own_offers & (own.part == Part.INDEX) & readable),
            waiting.r_en.eq((taken & ~own_offers) | self.stop),
        ]
        return m

    def _instruction(self, m, plan, waiting):
        """Check an instruction: its product in the first cycle, its window in the second."""
        base = self._base = Signal(self._address_bits, reset_less=True)
        beats = Signal(self._beats_bits, reset_less=True)
        elements = Signal(self._word_bits)
        prepared, inside, offers = Signal(), Signal(), Signal()
        transfer = Signal(Transfer(self._address_bits, self._beats_bits))
        instruction, windows = self.i.p, self.windows
        m.d.sync += base.eq(windows.base + self.number * windows.stride)
        m.d.sync += beats.eq(instruction.outer * instruction.inner * self._vector_beats)
        m.d.sync += prepared.eq(self.i.valid & ~self.i.ready & ~self.stop)
        m.d.comb += [
            transfer.address.eq(base + (instruction.address << self._shift)),
            transfer.beats.eq(Mux(instruction.compressed, 1, beats)),
            inside.eq(instruction.address + transfer.beats <= windows.stride >> self._shift),
            plan.verdict.eq(Mux(inside, Status.IDLE, Status.BAD_ADDRESS)),
            plan.part.eq(Mux(instruction.compressed, Part.INDEX, Part.VECTORS)),
            *(plan[name].eq(instruction[name]) for name in ("kind", "memory")),
            *(plan.loop[name].eq(instruction[name]) for name in Loop().members),
            elements.eq(beats * self._beat_words),
            plan.extent.eq(Cat(elements, Const(0, self._word_bits), instruction.bf16)),  # the index knows what is kept
            waiting.w_data.eq(plan),
        ]
        with m.If(beats == 0):
            m.d.comb += plan.verdict.eq(Status.BAD_FIELD)
        good_index = instruction.compressed & inside & (beats != 0)
        m.d.comb += offers.eq(prepared & Mux(good_index, waiting.w_rdy, ~waiting.r_rdy))
        m.d.comb += self.busy.eq(prepared | waiting.r_rdy)
        return offers, transfer

    def _stream(self, m, plan, waiting):
        """Check an index against the instruction and the window, then ask for its stream."""
        m.submodules.indices = indices = SyncFIFO(width=Index(self._word_bits).size, depth=_AHEAD)
        index = Index(self._word_bits)(indices.r_data)
        asked = LoadPlan(self._word_bits)(waiting.r_data)
        verdict, checked, there = Signal(Status, reset_less=True), Signal(), Signal()
        transfer = Signal(Transfer(self._address_bits, self._beats_bits))
        size = self.windows.stride >> self._shift
        wrong = (
            (index.beats == 0)
            | index.beats[self._beats_bits :].any()
            | (index.start + index.beats > size)
            | (index.elements != asked.extent.elements)
        )
        m.d.comb += [
            self.index.ready.eq(1),
            indices.w_data.eq(self.index.p),
            indices.w_en.eq(self.index.valid),
            indices.r_en.eq(waiting.r_en),
            there.eq(indices.r_rdy & waiting.r_rdy),
            plan.eq(asked),
            plan.part.eq(Part.STREAM),
            plan.verdict.eq(verdict),
            plan.extent.kept.eq(index.kept),
            transfer.address.eq(self._base + (index.start << self._shift)),
            transfer.beats.eq(index.beats),
        ]
        with m.If(there & ~checked):
            m.d.sync += verdict.eq(Mux(index.error, Status.READ_ERROR, Mux(wrong, Status.BAD_STREAM, Status.IDLE)))
        m.d.sync += checked.eq(there & ~waiting.r_en)
        return checked, transfer
