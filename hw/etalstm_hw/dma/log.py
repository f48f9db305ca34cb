"""Appends compressed streams to a channel's logs."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.axi.axi import BURST_BEATS
from etalstm_hw.axi.bursts import Transfer, WriteTag
from etalstm_hw.codec.compress import CompressedBeat
from etalstm_hw.contract import ADDRESS_BITS, KIND_BITS, LOG_BITS, STREAM_BITS, STREAM_INDEX
from etalstm_hw.dma.index import index_check


class StreamTarget(data.StructLayout):
    """Where a compressed stream is written.

    Members
    -------
    window : byte address of the channel's window
    address : of the index beat, in beats
    kind : what all its beats count as
    log : number of the log
    first : the log begins anew, at beat `start`
    start, end : beats of the window, `end` exclusive
    elements : of the stream
    """

    def __init__(self, address_bits: int, word_bits: int):
        super().__init__(
            {
                "window": address_bits,
                "address": ADDRESS_BITS,
                "kind": KIND_BITS,
                "log": LOG_BITS,
                "first": 1,
                "start": STREAM_BITS,
                "end": STREAM_BITS,
                "elements": word_bits,
            }
        )


class _Total(data.StructLayout):
    """What is known of a stream when its last beat is there: beats, and kept elements."""

    def __init__(self, word_bits: int):
        super().__init__({"beats": word_bits, "kept": word_bits})


class LogBeat(data.StructLayout):
    """A beat to be written: either one of a stream or an index, filled up with zeros. Who takes it chooses.

    Members
    -------
    data : of a stream
    index : words of an index
    indexing : the beat is the index
    """

    def __init__(self, word_bits: int, beat_words: int):
        index = data.StructLayout(dict.fromkeys(STREAM_INDEX, word_bits))
        super().__init__({"data": word_bits * beat_words, "index": index, "indexing": 1})


class Log(wiring.Component):
    """Collects streams, writes them one behind the other, and then an index beat for each.

    A beat a cycle is taken; 16 are collected before their burst is offered, so that its data never wait for more, and
    the next stream's are taken meanwhile. Bursts end at multiples of 16 beats, or with the stream. Between a
    stream's last beat and the next one's first lie at least 8 cycles. Stalls of ``transfers`` or ``data`` stall
    ``beats`` when ``depth`` of them wait.

    A burst that would pass ``end`` is never offered: ``violation`` rises instead and stays until reset. Reset also sets
    the logs back to beat 0.

    Parameters
    ----------
    word_bits, beat_words : int
        Sizes of a word and of a beat.
    address_bits, beats_bits : int
        Of the transfers.
    depth : int
        Beats of the FIFO, more than 16.

    Members
    -------
    i : :py:`In(stream.Signature(StreamTarget(address_bits, word_bits)))`
        Streams, in the order of their beats.
    beats : :py:`In(stream.Signature(CompressedBeat(word_bits, beat_words)))`
        May come before their stream is taken from ``i``.
    hold : :py:`In(1)`
        Do not begin a stream.
    transfers : :py:`Out(stream.Signature(Transfer(address_bits, beats_bits, WriteTag())))`
        Bursts; the index beat's is ``final``.
    data : :py:`Out(stream.Signature(LogBeat(word_bits, beat_words)))`
        Their beats, each no sooner than its transfer is offered.
    violation, busy : :py:`Out(1)`
        ``busy`` from the cycle after a stream is taken from ``i`` until its index beat is.
    """

    def __init__(self, word_bits: int, beat_words: int, address_bits: int, beats_bits: int, *, depth: int = 32):
        if depth <= BURST_BEATS:
            raise ValueError(f"depth must be more than a burst of {BURST_BEATS} beats, got {depth}")
        if beat_words < len(STREAM_INDEX):
            raise ValueError(f"a beat must hold the {len(STREAM_INDEX)} words of an index, got {beat_words}")
        self._word_bits, self._beat_words, self._depth = word_bits, beat_words, depth
        self._target = StreamTarget(address_bits, word_bits)
        self._shift = (word_bits * beat_words // 8).bit_length() - 1
        super().__init__(
            {
                "i": In(stream.Signature(self._target)),
                "beats": In(stream.Signature(CompressedBeat(word_bits, beat_words))),
                "hold": In(1),
                "transfers": Out(stream.Signature(Transfer(address_bits, beats_bits, WriteTag()))),
                "data": Out(stream.Signature(LogBeat(word_bits, beat_words))),
                "violation": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Collect the beats of all streams in a FIFO; send them off, stream by stream, in bursts and an index beat."""
        m = Module()
        m.submodules.beats = beats = SyncFIFO(width=self._word_bits * self._beat_words, depth=self._depth)
        total = _Total(self._word_bits)
        m.submodules.totals = totals = SyncFIFO(width=total.size, depth=2)
        entered = self._collect(m, beats, totals, total(totals.w_data))
        self._send(m, beats, totals, total(totals.r_data), entered)
        return m

    def _collect(self, m, beats, totals, total):
        """Fill the FIFO, and the total of each stream; give how many beats of the last one have gone in."""
        entered, taken, last = Signal(STREAM_BITS), Signal(), self.beats.p.last
        m.d.comb += [
            self.beats.ready.eq(beats.w_rdy & totals.w_rdy),
            taken.eq(self.beats.valid & self.beats.ready),
            beats.w_data.eq(self.beats.p.data),
            beats.w_en.eq(taken),
            total.beats.eq(entered + 1),
            total.kept.eq(self.beats.p.kept),
            totals.w_en.eq(taken & last),
        ]
        with m.If(taken):
            m.d.sync += entered.eq(Mux(last, 0, entered + 1))
        return entered

    def _send(self, m, beats, totals, total, entered):
        """Send a stream: LOOK and GATHER until a burst is there, BURST by burst; at the end the INDEX, and CONCLUDE."""
        job = Signal(self._target, reset_less=True)
        positions = Array(Signal(STREAM_BITS, name=f"position{n}") for n in range(1 << LOG_BITS))  # where logs end
        # Of the stream: where its next beat goes, where its first went, beats that were offered, beats that wait.
        position, begin, posted, there = (Signal(STREAM_BITS + 1, reset_less=True) for _ in range(4))
        # Of the burst to come: its beats; after it, its data that are still to be posted.
        burst, left = Signal(range(BURST_BEATS + 1), reset_less=True), Signal(range(2 * BURST_BEATS))
        complete = Signal(reset_less=True)  # the stream's last beat is there
        to_boundary, wanted, taken, indexing = Signal.like(burst), Signal(), Signal(), Signal()
        active, next_position = Signal(), Signal(STREAM_BITS + 1)
        m.d.comb += [
            to_boundary.eq(BURST_BEATS - position[: (BURST_BEATS - 1).bit_length()]),
            next_position.eq(position + burst),
            taken.eq(wanted & ~self.transfers.valid & (left == 0)),
            self.busy.eq(active | self.transfers.valid),
            self.data.p.data.eq(beats.r_data),
            self.data.valid.eq(left != 0),
            beats.r_en.eq(self.data.ready & (left != 0)),
        ]
        with m.If(beats.r_en):
            m.d.sync += left.eq(left - 1)
        self._index(m, job, begin, posted, total)
        self._offer(m, job, taken, indexing, position, burst)

        with m.FSM() as fsm:
            m.d.comb += active.eq(~fsm.ongoing("IDLE"))
            with m.State("IDLE"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.d.sync += job.eq(self.i.p)
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                for beat in (position, begin):
                    m.d.sync += beat.eq(Mux(job.first, job.start, positions[job.log]))
                m.d.sync += posted.eq(0)
                with m.If(~self.hold):
                    m.next = "LOOK"
            with m.State("LOOK"):
                m.d.sync += [complete.eq(totals.r_rdy), there.eq(Mux(totals.r_rdy, total.beats, entered) - posted)]
                m.next = "GATHER"
            with m.State("GATHER"):
                m.d.sync += burst.eq(Mux(there < to_boundary, there, to_boundary))
                with m.If(complete & (there == 0)):
                    m.next = "INDEX"
                with m.Elif(complete | (there >= to_boundary)):
                    m.next = "BURST"
                with m.Else():
                    m.next = "LOOK"
            with m.State("BURST"):
                inside = next_position <= job.end
                m.d.comb += [wanted.eq(inside), self.violation.eq(~inside & ~self.transfers.valid & (left == 0))]
                with m.If(taken):
                    m.d.sync += [position.eq(next_position), posted.eq(posted + burst), left.eq(burst)]
                    m.next = "LOOK"
            with m.State("INDEX"):
                m.d.comb += [indexing.eq(1), wanted.eq(1)]
                with m.If(taken):
                    m.d.sync += positions[job.log].eq(position)
                    m.next = "CONCLUDE"
            with m.State("CONCLUDE"):
                m.d.comb += self.data.p.indexing.eq(1)
                m.d.comb += [self.data.valid.eq(1), totals.r_en.eq(self.data.ready)]
                with m.If(self.data.ready):
                    m.next = "IDLE"

    def _index(self, m, job, begin, posted, total):
        """Write the index: where the stream begins, its beats, its kept elements, and the check over them."""
        index, check = self.data.p.index, Signal(self._word_bits, reset_less=True)
        m.d.comb += [
            index.start.eq(begin),
            index.beats.eq(posted),
            index.check.eq(check),
            index.kept.eq(total.kept),
        ]
        m.d.sync += check.eq(
            index_check(
                self._word_bits, start=begin, beats=posted, elements=job.elements, kept=total.kept, address=job.address
            )
        )  # a cycle after the last of them has come, a cycle before the index is written

    def _offer(self, m, job, taken, indexing, position, burst):
        """Offer a transfer from a register, so that nothing but its valid bit hangs on the port."""
        transfer = self.transfers.p
        with m.If(self.transfers.ready):
            m.d.sync += self.transfers.valid.eq(0)
        with m.If(taken):
            m.d.sync += [
                self.transfers.valid.eq(1),
                transfer.address.eq(job.window + (Mux(indexing, job.address, position) << self._shift)),
                transfer.beats.eq(Mux(indexing, 1, burst)),
                transfer.tag.kind.eq(job.kind),
                transfer.tag.final.eq(indexing),
            ]
