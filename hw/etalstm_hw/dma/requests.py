"""Checks LOAD instructions and says what is to be read for them, and in which order."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.bursts import Transfer
from etalstm_hw.codec.decompress import StreamSize
from etalstm_hw.contract import ADDRESS_BITS, GROUP_BITS, KIND_BITS, Opcode, Status
from etalstm_hw.dma.index import Index
from etalstm_hw.dma.indexed import BeatKind, IndexedReads
from etalstm_hw.dma.walker import LanePattern
from etalstm_hw.stream import Group, Windows, instruction_layout


class LoadPlan(data.StructLayout):
    """What the lane side must know of a transfer; ``verdict`` is not IDLE if nothing is read for it.

    Members
    -------
    verdict, beat_kind, kind, memory, pattern, more
    stream_size : of a stream
    """

    def __init__(self, word_bits: int):
        super().__init__(
            {
                "verdict": Status,
                "beat_kind": BeatKind,
                "kind": KIND_BITS,
                "memory": 2,
                "more": 1,
                "pattern": LanePattern(),
                "stream_size": StreamSize(word_bits),
            }
        )


class Requests(wiring.Component):
    """Turns each instruction into a transfer and its plan; a compressed one into two, its index and its stream.

    An instruction is taken every 2 cycles; its order is that of :class:`~etalstm_hw.dma.indexed.IndexedReads`.

    Parameters
    ----------
    word_bits, beat_words, vector_beats : int
        Sizes of a word, a beat, a vector.
    address_bits, beats_bits : int
        Of the transfers.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.LOAD)))`
    group : :py:`In(Group(address_bits))`
    windows : :py:`In(Windows(address_bits))`
    index : :py:`In(stream.Signature(Index(word_bits)))`
        The indices that were asked for, in order; always ready for them.
    transfers : :py:`Out(stream.Signature(Transfer(address_bits, beats_bits)))`
    plans : :py:`Out(stream.Signature(LoadPlan(word_bits)))`
        One for each transfer, in the same cycle, and one for each refusal.
    drain : :py:`In(1)`
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
                "group": In(Group(address_bits)),
                "windows": In(Windows(address_bits)),
                "index": In(stream.Signature(Index(word_bits))),
                "transfers": Out(stream.Signature(Transfer(address_bits, beats_bits))),
                "plans": Out(stream.Signature(LoadPlan(word_bits))),
                "drain": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Check an instruction: products and window in the first cycle, whether it lies inside in the second."""
        m = Module()
        sizes = (self._word_bits, self._beat_words, self._address_bits, self._beats_bits)
        m.submodules.reads = reads = IndexedReads(LoadPlan(self._word_bits), *sizes)
        wiring.connect(m, reads.transfers, wiring.flipped(self.transfers))
        wiring.connect(m, reads.plans, wiring.flipped(self.plans))
        wiring.connect(m, wiring.flipped(self.index), reads.index)
        instruction, request, plan = self.i.p, reads.i.p, reads.i.p.plan
        base = Signal(self._address_bits, reset_less=True)
        beats = Signal(self._beats_bits, reset_less=True)
        prepared, inside, elements, bad_field = Signal(), Signal(), Signal(self._word_bits), Signal()
        no_group = Signal(reset_less=True)
        # Where the transfer ends, less the window's size, less 1: one sum of three numbers is a single carry chain. Its
        # sign says whether the transfer lies inside.
        beyond = Signal(max(ADDRESS_BITS + GROUP_BITS + 1, self._beats_bits, self._address_bits) + 2)
        position, number = Signal(self._address_bits, reset_less=True), Signal(GROUP_BITS)
        address = Signal(ADDRESS_BITS + GROUP_BITS + 1, reset_less=True)
        m.d.comb += number.eq(Mux(instruction.group == 0, self.group.number, instruction.group - 1))
        m.d.sync += [
            position.eq(self.windows.base + self.group.position * self.windows.stride),
            base.eq(position + number * self.group.pitch),
            address.eq(instruction.address + self.group.number * instruction.group_stride),
        ]
        m.d.sync += beats.eq(instruction.outer * instruction.inner * self._vector_beats)
        m.d.sync += no_group.eq(instruction.group > self.group.count)
        m.d.sync += prepared.eq(self.i.valid & ~self.i.ready & ~self.drain)
        m.d.comb += [
            reads.size.eq(self.windows.size >> self._shift),
            reads.drain.eq(self.drain),
            reads.i.valid.eq(prepared),
            self.i.ready.eq(reads.i.ready),
            self.busy.eq(prepared | reads.busy),
            request.window.eq(base),
            request.address.eq(address),
            request.transfer.address.eq(base + (address << self._shift)),
            request.transfer.beats.eq(Mux(instruction.compressed, 1, beats)),
            beyond.eq(address + request.transfer.beats + ~Cat(reads.size, Const(0, len(beyond) - len(reads.size)))),
            inside.eq(beyond[-1]),
            bad_field.eq((beats == 0) | no_group),
            request.refused.eq(bad_field | ~inside),
            plan.verdict.eq(Mux(bad_field, Status.BAD_FIELD, Mux(inside, Status.IDLE, Status.BAD_ADDRESS))),
            plan.beat_kind.eq(Mux(instruction.compressed, BeatKind.INDEX, BeatKind.VECTORS)),
            *(plan[name].eq(instruction[name]) for name in ("kind", "memory", "more")),
            *(plan.pattern[name].eq(instruction[name]) for name in LanePattern().members),
            elements.eq(beats * self._beat_words),
            # The index knows how many elements are kept.
            plan.stream_size.eq(Cat(elements, Const(0, self._word_bits), instruction.bf16)),
        ]
        return m
