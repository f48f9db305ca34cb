"""The broadcaster where products are integers: SEND instructions in, digits out."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect

from etalstm_hw.broadcast.broadcaster import BlockBroadcaster
from etalstm_hw.config import Config
from etalstm_hw.contract import COUNT_BITS, Opcode, Status
from etalstm_hw.integer.sender import Digits, SequenceSender
from etalstm_hw.integer.sequences import Extent, Sizes
from etalstm_hw.stream import instruction_layout

_BYTE = 8
_AHEAD = 4  # arrays whose blocks may be asked for before the first of them is sent


def sizes_of(config: Config) -> Sizes:
    """Give the sizes of what a stream sends: its buffer, of as many sequences as it has sums for."""
    lines = config.broadcast_words // config.beat_words
    sequences = max(1, config.queue_depth // config.tile_sums)
    return Sizes(config.beat_words, config.vector_beats, lines, sequences, config.integer_ports)


class Dealt(data.StructLayout):
    """An :class:`Extent` of all sequences, and how many of them each stream gets: ``own``."""

    def __init__(self):
        super().__init__({"extent": Extent(), "own": COUNT_BITS})


class Distributor(wiring.Component):
    """Gives the beats of an array to streams: the first sequences to the first one, and so on.

    All streams get as many sequences. Where the last ones have none, they get some of zeros.

    Parameters
    ----------
    sizes : Sizes
        Of a stream.
    streams : int

    Members
    -------
    dealt : :py:`In(stream.Signature(Dealt()))`
        Before the beats of each array.
    beats : :py:`In(stream.Signature(sizes.beat))`
    extent0, beats0 … : :py:`Out(...)`
        The extent and the beats of each stream.
    busy : :py:`Out(1)`
        An array is not given to its end.
    """

    def __init__(self, sizes, streams):
        self._streams, self._vector_beats = streams, sizes.vector_beats
        given = {"extent": stream.Signature(Extent()), "beats": stream.Signature(sizes.beat)}
        super().__init__(
            {"dealt": In(stream.Signature(Dealt())), "beats": In(given["beats"]), "busy": Out(1)}
            | {f"{name}{n}": Out(shape) for name, shape in given.items() for n in range(streams)}
        )

    def elaborate(self, platform):
        """Count beats, the sequences of a stream, streams, planes and blocks."""
        m = Module()
        dealt = Signal(Dealt())
        extents, beats = ([getattr(self, f"{name}{n}") for n in range(self._streams)] for name in ("extent", "beats"))
        beat, turn = Signal(range(max(2, self._vector_beats))), Signal(range(max(2, self._streams)))
        sequence, all_sequences = Signal(COUNT_BITS), Signal(COUNT_BITS + 1)  # of the stream; of all
        plane, block = Signal(), Signal(COUNT_BITS)
        fills, gives, goes = Signal(), Signal(), Signal()  # `fills`: all sequences are given, what follows is zeros
        m.d.comb += [
            self.dealt.ready.eq(~self.busy & Cat(each.ready for each in extents).all()),
            gives.eq(self.busy & (fills | self.beats.valid)),
            self.beats.ready.eq(self.busy & ~fills & goes),
        ]
        for n, (of_stream, to) in enumerate(zip(extents, beats, strict=True)):
            m.d.comb += [
                of_stream.p.eq(self.dealt.p.extent),
                of_stream.p.sequences.eq(self.dealt.p.own),
                of_stream.valid.eq(self.dealt.valid & self.dealt.ready),
                to.p.eq(Mux(fills, 0, self.beats.p.as_value())),
                to.valid.eq(gives & (turn == n)),
            ]
            with m.If(turn == n):
                m.d.comb += goes.eq(to.ready)
        counters = (beat, sequence, all_sequences, turn, plane, block, fills)
        with m.If(self.dealt.valid & self.dealt.ready):
            m.d.sync += [dealt.eq(self.dealt.p), self.busy.eq(1), *(counter.eq(0) for counter in counters)]
        with m.If(gives & goes):
            self._count(m, dealt, *counters)
        return m

    def _count(self, m, dealt, beat, sequence, all_sequences, turn, plane, block, fills):
        """Go on by a beat."""
        m.d.sync += beat.eq(beat + 1)
        with m.If(beat == self._vector_beats - 1):
            m.d.sync += [beat.eq(0), sequence.eq(sequence + 1), all_sequences.eq(all_sequences + 1)]
            m.d.sync += fills.eq(all_sequences + 1 >= dealt.extent.sequences)
            with m.If(sequence + 1 == dealt.own):
                m.d.sync += [sequence.eq(0), turn.eq(turn + 1)]
                with m.If(turn == self._streams - 1):
                    m.d.sync += [turn.eq(0), all_sequences.eq(0), fills.eq(0), plane.eq(dealt.extent.wide & ~plane)]
                    with m.If(~dealt.extent.wide | plane):
                        m.d.sync += block.eq(block + 1)
                        with m.If(block + 1 == dealt.extent.blocks):
                            m.d.sync += self.busy.eq(0)


class ArrayCheck(wiring.Component):
    """Refuses SENDs whose array does not fit, or that send none; each takes four cycles.

    Parameters
    ----------
    sizes : Sizes
        Of a stream.
    streams : int

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.SEND)))`
    o : :py:`Out(stream.Signature(instruction_layout(Opcode.SEND)))`
        Those that fit.
    refused : :py:`Out(1)`
        The next one is refused, and nothing is taken any more. It is told a cycle late.
    busy : :py:`Out(1)`
        An instruction is here.
    """

    def __init__(self, sizes, streams):
        self._sizes, self._streams = sizes, streams
        layout = stream.Signature(instruction_layout(Opcode.SEND))
        super().__init__({"i": In(layout), "o": Out(layout), "refused": Out(1), "busy": Out(1)})

    def elaborate(self, platform):
        """Lines of a sequence, then those of the array, and whether all sequences belong to a stream.

        Factors that are too large are refused as such. So the product has few bits, and little logic decides on it.
        """
        m = Module()
        sizes, send = self._sizes, self.o.p
        lines = Signal(len(send.blocks) + sizes.vector_beats.bit_length() + 1)
        few_lines, few_own = lines[: sizes.lines.bit_length()], send.own[: sizes.sequences.bit_length()]
        total, dealt = Signal(len(few_lines) + len(few_own)), Signal(len(send.own) + self._streams.bit_length())
        bad, fits = Signal(), Signal()
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("TAKE") | self.i.valid)
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += send.eq(self.i.p)
                with m.If(self.i.valid):
                    m.next = "LINES"
            with m.State("LINES"):
                m.d.sync += [
                    lines.eq((send.blocks * sizes.vector_beats) << send.wide),
                    dealt.eq(send.own * self._streams),
                    bad.eq(send.own > sizes.sequences),
                ]
                m.next = "TOTAL"
            with m.State("TOTAL"):
                m.d.sync += total.eq(few_lines * few_own)
                m.d.sync += bad.eq(bad | (lines > sizes.lines) | (dealt < send.batch))
                m.next = "JUDGE"
            with m.State("JUDGE"):
                m.d.sync += fits.eq(~bad & (total <= sizes.lines))
                m.next = "OFFER"
            with m.State("OFFER"):
                m.d.comb += self.o.valid.eq(fits)
                m.d.sync += self.refused.eq(~fits)
                with m.If(self.o.valid & self.o.ready):
                    m.next = "TAKE"
        return m


class IntegerBroadcaster(BlockBroadcaster):
    """Executes SEND instructions in order: reads arrays ahead, sends their digits that are not zero.

    Arrays come by the ports in turn, and go to the two banks of each sender in turn.

    A stream whose channels have no room does not hold up the others: their engines take instructions together.
    ``send_zeros`` is not looked at: what is zero is never sent.

    Parameters
    ----------
    config : Config
    sender : callable
        Makes the sender of a stream for its :class:`Sizes`.
    """

    def __init__(self, config: Config, *, sender=SequenceSender):
        self._sizes, self._sender = sizes_of(config), sender
        streams = config.integer_streams
        blocks = config.broadcast_words << (streams - 1).bit_length()
        digits = Digits(self._sizes.elements, streams)
        super().__init__(config, Opcode.SEND, digits, block_words=blocks, counted=self._sizes.line_bytes)

    def _send(self, m, queue, fetchers):
        """Check, then tell a fetcher what to bring, and the senders what comes."""
        m.submodules.check = check = ArrayCheck(self._sizes, self.config.integer_streams)
        connect(m, queue.o, check.i)
        senders, turn = self._make_senders(m), Signal(range(len(fetchers)))
        m.d.sync += turn.eq(turn + (check.o.valid & check.o.ready))
        gives = [self._bring(m, number, fetcher, check, turn, senders) for number, fetcher in enumerate(fetchers)]
        m.d.comb += self.o.valid.eq(Cat(digit.valid for digit in self.o.p).any())
        self._count(m, fetchers)
        sending = Cat(*gives, *(sender.busy for sender in senders)).any()
        # Told a cycle late. The SEND before the refused one has reached its fetcher several cycles ago.
        idle = Signal()
        m.d.sync += idle.eq(~sending & ~Cat(one.busy | (one.status != Status.IDLE) for one in fetchers).any())
        with m.If(check.refused & idle):
            m.d.comb += [self._fault.eq(Status.BAD_FIELD), self._place.eq(sum(f.begun for f in fetchers))]
        return check.busy | sending

    def _make_senders(self, m):
        """Make the streams' senders, which send where there is room."""
        senders = [self._sender(self._sizes) for _ in range(self.config.integer_streams)]
        for n, sender in enumerate(senders):
            m.submodules[f"sender{n}"] = sender
            m.d.comb += [
                self.o.p[n].valid.eq(sender.o.valid & self.rooms[n]),
                self.o.p[n].sent.eq(sender.o.p),
                sender.o.ready.eq(self.rooms[n]),
            ]
        return senders

    def _bring(self, m, number, fetcher, check, turn, senders):
        """Have a port bring the arrays of its turns into its bank; give whether one is on its way."""
        config, extents = self.config, SyncFIFO(width=Dealt().size, depth=_AHEAD)
        # Whether the streams take a beat depends on the other ports, and is known late. So is whether there is a beat.
        # The FIFO passes on either a cycle later.
        beats = SyncFIFO(width=self._sizes.beat.size, depth=2)
        distributor = Distributor(self._sizes, config.integer_streams)
        m.submodules[f"extents{number}"], m.submodules[f"distributor{number}"] = extents, distributor
        m.submodules[f"beats{number}"] = beats
        send, dealt, own = check.o.p, Signal(Dealt(), name=f"dealt{number}"), turn == number
        whole = {"lanes": config.lanes, "last_lanes": config.lanes, "tiles": 1, "start": 1, "finish": 1}
        names = [name for name in fetcher.i.p.shape().members if name in send.shape().members]
        with m.If(own):
            m.d.comb += check.o.ready.eq(fetcher.i.ready & extents.w_rdy)
        m.d.comb += [
            *(fetcher.i.p[name].eq(send[name]) for name in names),
            *(fetcher.i.p[name].eq(value) for name, value in whole.items()),
            fetcher.i.p.gates.eq(Mux(send.wide, 2, 1)),
            fetcher.i.valid.eq(own & check.o.valid & extents.w_rdy),
            dealt.extent.sequences.eq(send.batch),
            *(dealt.extent[name].eq(send[name]) for name in ("blocks", "wide", "repeats")),
            dealt.own.eq(send.own),
            extents.w_data.eq(dealt),
            extents.w_en.eq(own & check.o.valid & fetcher.i.ready & extents.w_rdy),
            distributor.dealt.p.eq(extents.r_data),
            distributor.dealt.valid.eq(extents.r_rdy),
            extents.r_en.eq(distributor.dealt.ready),
            beats.w_data.eq(fetcher.write_data),
            beats.w_en.eq(fetcher.write_enable),
            fetcher.hold.eq(~beats.w_rdy),
            distributor.beats.p.as_value().eq(beats.r_data),
            distributor.beats.valid.eq(beats.r_rdy),
            beats.r_en.eq(distributor.beats.ready),
            fetcher.release.eq(fetcher.o.valid),
            fetcher.o.ready.eq(1),
        ]
        for n, sender in enumerate(senders):
            connect(m, getattr(distributor, f"extent{n}"), sender.extents[number])
            connect(m, getattr(distributor, f"beats{n}"), sender.beats[number])
        return extents.r_rdy | distributor.busy | beats.r_rdy

    def _count(self, m, fetchers):
        """Count the bytes that come, and those that are zero, in three cycles."""
        seen, skipped = [], []
        for fetcher in fetchers:
            zero, is_there = Signal(self._sizes.line_bytes), Signal()
            came, left_out = Signal(range(len(zero) + 1)), Signal(range(len(zero) + 1))
            m.d.sync += is_there.eq(fetcher.write_enable)
            m.d.sync += zero.eq(Cat(~fetcher.write_data.word_select(n, _BYTE).any() for n in range(len(zero))))
            m.d.sync += [came.eq(Mux(is_there, len(zero), 0)), left_out.eq(Mux(is_there, sum(zero), 0))]
            seen.append(came)
            skipped.append(left_out)
        m.d.sync += [self.seen.eq(sum(seen)), self.skipped.eq(sum(skipped))]
