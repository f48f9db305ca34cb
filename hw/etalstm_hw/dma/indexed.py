"""Asks for vectors, and for compressed streams by way of their index beats."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.bursts import Transfer
from etalstm_hw.contract import ADDRESS_BITS, Status
from etalstm_hw.dma.index import Index, index_check

_AHEAD = 2  # streams whose index has been asked for


class BeatKind(enum.Enum, shape=2):  # type: ignore[call-arg] # Amaranth's metaclass takes it
    """What the beats of a transfer are."""

    VECTORS = 0
    INDEX = 1
    STREAM = 2


class Request(data.StructLayout):
    """Vectors, or the index beat of a stream.

    Members
    -------
    transfer : where they lie
    window : byte address of the window that the index counts from
    address : beat of the window where the transfer begins
    refused : the plan's verdict is not IDLE: a flag of its own, since the verdict is known last
    plan : goes with the transfer
    """

    def __init__(self, address_bits: int, beats_bits: int, plan: data.StructLayout):
        members = {"window": address_bits, "address": ADDRESS_BITS, "refused": 1, "plan": plan}
        super().__init__({"transfer": Transfer(address_bits, beats_bits), **members})


class IndexedReads(wiring.Component):
    """Turns each request into a transfer and its plan; that of an index into two, the index and its stream.

    A stream is asked for 2 cycles after its index has come. The indices of up to two streams are asked for ahead of
    them, so that one is here when the stream before it has been asked for; other requests, and those with a verdict,
    wait until no stream is outstanding: plans are in the order of the requests, but for those of indices, and so is
    what they refuse.

    Parameters
    ----------
    plan : StructLayout
        Has members ``verdict`` (a :class:`Status`; nothing is read for it unless it is IDLE), ``beat_kind`` (a
        :class:`BeatKind`) and ``stream_size`` (of the stream).
    word_bits, beat_words : int
        Sizes of a word and of a beat.
    address_bits, beats_bits : int
        Of the transfers.

    Members
    -------
    i : :py:`In(stream.Signature(Request(address_bits, beats_bits, plan)))`
    size : :py:`In(address_bits)`
        Of a window, in beats; constant.
    index : :py:`In(stream.Signature(Index(word_bits)))`
        The indices that were asked for, in order; always ready for them.
    transfers : :py:`Out(stream.Signature(Transfer(address_bits, beats_bits)))`
    plans : :py:`Out(stream.Signature(plan))`
        One for each transfer, in the same cycle, and one for each refusal. A stream whose index does not fit the
        request or the window is refused with BAD_STREAM.
    drain : :py:`In(1)`
        Offer nothing more.
    busy : :py:`Out(1)`
        A stream has not been asked for yet.
    """

    def __init__(self, plan: data.StructLayout, word_bits: int, beat_words: int, address_bits: int, beats_bits: int):
        self._plan, self._word_bits, self._beats_bits = plan, word_bits, beats_bits
        self._shift = (word_bits * beat_words // 8).bit_length() - 1
        self._waiting = data.StructLayout({"window": address_bits, "address": ADDRESS_BITS, "plan": plan})
        super().__init__(
            {
                "i": In(stream.Signature(Request(address_bits, beats_bits, plan))),
                "size": In(address_bits),
                "index": In(stream.Signature(Index(word_bits))),
                "transfers": Out(stream.Signature(Transfer(address_bits, beats_bits))),
                "plans": Out(stream.Signature(plan)),
                "drain": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Requests come before streams: an index read early is what hides its latency.

        Whether a request is refused, and whether a transfer is taken, is known late. So who is offered does not depend
        on it: a refused request that has to wait for streams lets them go first from its second cycle on.
        """
        m = Module()
        m.submodules.waiting = waiting = SyncFIFO(width=self._waiting.size, depth=_AHEAD)
        request, plans, transfers = self.i.p, self.plans, self.transfers
        stream_plan, stream_transfer = Signal(self._plan), Signal(transfers.p.shape())
        stream_offers = self._stream(m, stream_plan, stream_transfer, waiting)
        stream_readable, goes = stream_plan.verdict == Status.IDLE, plans.ready & ~self.drain
        indexed, alone, offers, known = (Signal() for _ in range(4))
        readable, moves, stream_moves = Signal(), Signal(), Signal()
        m.d.sync += known.eq(self.i.valid & ~self.i.ready & request.refused)
        m.d.comb += [
            indexed.eq(request.plan.beat_kind == BeatKind.INDEX),
            alone.eq(~waiting.r_rdy),
            offers.eq(self.i.valid & Mux(indexed & ~known, waiting.w_rdy, alone)),
            plans.p.eq(Mux(offers, request.plan, stream_plan)),
            transfers.p.eq(Mux(offers, request.transfer, stream_transfer)),
            readable.eq(Mux(offers, ~request.refused, stream_offers & stream_readable)),
            transfers.valid.eq(readable & goes),
            moves.eq(offers & Mux(request.refused, alone, transfers.ready)),
            stream_moves.eq(~offers & stream_offers & (transfers.ready | ~stream_readable)),
            plans.valid.eq(~self.drain & (moves | stream_moves)),
            self.i.ready.eq(goes & moves),
            self._waiting(waiting.w_data).window.eq(request.window),
            self._waiting(waiting.w_data).address.eq(request.address),
            self._waiting(waiting.w_data).plan.eq(request.plan),
            waiting.w_en.eq(goes & offers & indexed & transfers.ready & ~request.refused),
            waiting.r_en.eq((goes & stream_moves) | self.drain),
            self.busy.eq(waiting.r_rdy),
        ]
        return m

    def _stream(self, m, plan, transfer, waiting):
        """Check an index against its request and the window, then ask for its stream."""
        m.submodules.indices = indices = SyncFIFO(width=Index(self._word_bits).size, depth=_AHEAD)
        index, asked = Index(self._word_bits)(indices.r_data), self._waiting(waiting.r_data)
        verdict, checked, there = Signal(Status, reset_less=True), Signal(), Signal()
        check = index_check(
            self._word_bits, start=index.start, beats=index.beats, elements=asked.plan.stream_size.elements,
            kept=index.kept, address=asked.address,
        )  # fmt: skip
        wrong = (
            (index.beats == 0)
            | index.beats[self._beats_bits :].any()
            | (index.start + index.beats > self.size)
            | (index.check != check)
        )
        m.d.comb += [
            self.index.ready.eq(1),
            indices.w_data.eq(self.index.p),
            indices.w_en.eq(self.index.valid),
            indices.r_en.eq(waiting.r_en),
            there.eq(indices.r_rdy & waiting.r_rdy),
            plan.eq(asked.plan),
            plan.beat_kind.eq(BeatKind.STREAM),
            plan.verdict.eq(verdict),
            plan.stream_size.kept.eq(index.kept),
            transfer.address.eq(asked.window + (index.start << self._shift)),
            transfer.beats.eq(index.beats),
        ]
        with m.If(there & ~checked):
            m.d.sync += verdict.eq(Mux(index.error, Status.READ_ERROR, Mux(wrong, Status.BAD_STREAM, Status.IDLE)))
        m.d.sync += checked.eq(there & ~waiting.r_en)
        return checked
