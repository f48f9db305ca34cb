"""The broadcaster where products are integers: SEND instructions in, digits out."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect

from etalstm_hw.broadcast.broadcaster import BlockBroadcaster
from etalstm_hw.config import Config
from etalstm_hw.contract import COUNT_BITS, Opcode, Status
from etalstm_hw.integer.sender import Digits, SequenceSender
from etalstm_hw.integer.sequences import PATCH_BEATS, Extent, Sizes
from etalstm_hw.stream import instruction_layout

_AHEAD = 4  # arrays whose blocks may be asked for before the first of them is sent


def sizes_of(config: Config) -> Sizes:
    """Give the sizes of what a stream sends: its part of a buffer, of as many sequences as it has sums for."""
    beats = config.broadcast_words // config.beat_words // config.integer_streams
    return Sizes(config.beat_words, beats, max(1, config.queue_depth // config.tile_sums // config.integer_streams))


class Distributor(wiring.Component):
    """Gives the beats of an array to streams: sequences take turns.

    All streams get as many sequences. Where the last ones have none, they get one of zeros.

    Parameters
    ----------
    sizes : Sizes
        Of a stream.
    streams, vector_beats : int
        Streams, a power of two; beats of a sequence in a tile.

    Members
    -------
    extent : :py:`In(stream.Signature(Extent()))`
        Before the beats of each array, with all of its sequences.
    beats : :py:`In(stream.Signature(sizes.beat))`
    extent0, beats0 … : :py:`Out(...)`
        The same for each stream, with its sequences.
    busy : :py:`Out(1)`
        An array is not given to its end.
    """

    def __init__(self, sizes, streams, vector_beats):
        self._streams, self._vector_beats = streams, vector_beats
        given = {"extent": stream.Signature(Extent()), "beats": stream.Signature(sizes.beat)}
        super().__init__(
            {name: In(shape) for name, shape in given.items()}
            | {f"{name}{n}": Out(shape) for name, shape in given.items() for n in range(streams)}
            | {"busy": Out(1)}
        )

    def elaborate(self, platform):
        """Count beats, sequences and tiles."""
        m = Module()
        extent, bits = Signal(Extent()), (self._streams - 1).bit_length()
        extents, beats = ([getattr(self, f"{name}{n}") for n in range(self._streams)] for name in ("extent", "beats"))
        beat, sequence, tile = Signal(range(max(2, self._vector_beats))), Signal(COUNT_BITS + 1), Signal(COUNT_BITS)
        own = Signal(COUNT_BITS)  # sequences of a stream
        fills, gives, goes = Signal(), Signal(), Signal()
        m.d.comb += [
            own.eq((self.extent.p.sequences + self._streams - 1) >> bits),
            self.extent.ready.eq(~self.busy & Cat(each.ready for each in extents).all()),
            fills.eq(sequence >= extent.sequences),
            gives.eq(self.busy & (fills | self.beats.valid)),
            self.beats.ready.eq(self.busy & ~fills & goes),
        ]
        for n, (of_stream, to) in enumerate(zip(extents, beats, strict=True)):
            mine = sequence[:bits] == n if bits else 1
            m.d.comb += [
                of_stream.p.eq(self.extent.p),
                of_stream.p.sequences.eq(own),
                of_stream.valid.eq(self.extent.valid & self.extent.ready),
                to.p.eq(Mux(fills, 0, self.beats.p.as_value())),
                to.valid.eq(gives & mine),
            ]
            with m.If(mine):
                m.d.comb += goes.eq(to.ready)
        with m.If(self.extent.valid & self.extent.ready):
            m.d.sync += [extent.eq(self.extent.p), self.busy.eq(1), beat.eq(0), sequence.eq(0), tile.eq(0)]
        last = {
            "beat": beat == self._vector_beats - 1,
            "sequence": (sequence + 1 >= extent.sequences) & ((sequence[:bits] + 1)[:bits] == 0 if bits else 1),
            "tile": tile + 1 == extent.tiles,
        }
        with m.If(gives & goes):
            m.d.sync += beat.eq(Mux(last["beat"], 0, beat + 1))
            with m.If(last["beat"]):
                m.d.sync += sequence.eq(Mux(last["sequence"], 0, sequence + 1))
                with m.If(last["sequence"]):
                    m.d.sync += tile.eq(tile + 1)
                    with m.If(last["tile"]):
                        m.d.sync += self.busy.eq(0)
        return m


class ArrayCheck(wiring.Component):
    """Refuses SENDs whose array does not fit, or that send none; each takes three cycles.

    Parameters
    ----------
    sizes : Sizes
        Of a stream.
    vector_beats, streams : int
        Beats of a vector; streams, a power of two.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.SEND)))`
    o : :py:`Out(stream.Signature(instruction_layout(Opcode.SEND)))`
        Those that fit.
    tiles : :py:`Out(COUNT_BITS)`
        Of the array at ``o``: its blocks' gates.
    refused : :py:`Out(1)`
        The next one is refused, and nothing is taken any more.
    busy : :py:`Out(1)`
        An instruction is here.
    """

    def __init__(self, sizes, vector_beats, streams):
        self._sizes, self._vector_beats, self._streams = sizes, vector_beats, streams
        layout = instruction_layout(Opcode.SEND)
        super().__init__(
            {
                "i": In(stream.Signature(layout)),
                "o": Out(stream.Signature(layout)),
                "tiles": Out(layout.members["blocks"]),
                "refused": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Blocks times gates, then patches of a sequence, then those of the array."""
        m = Module()
        sizes, send = self._sizes, self.o.p
        tiles = Signal(len(send.blocks) + len(send.gates))
        patches = Signal(len(tiles) + self._vector_beats.bit_length())
        own = Signal(len(send.batch) + 1)  # sequences of a stream
        total = Signal(len(patches) + len(own))
        m.d.comb += [self.tiles.eq(tiles), self.busy.eq(self.i.valid)]
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("TAKE") | self.i.valid)
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [send.eq(self.i.p), tiles.eq(self.i.p.blocks * self.i.p.gates)]
                with m.If(self.i.valid):
                    m.next = "PATCHES"
            with m.State("PATCHES"):
                m.d.sync += own.eq((send.batch + self._streams - 1) >> (self._streams - 1).bit_length())
                m.d.sync += patches.eq((tiles * self._vector_beats + PATCH_BEATS - 1) >> (PATCH_BEATS.bit_length() - 1))
                m.next = "TOTAL"
            with m.State("TOTAL"):
                m.d.sync += total.eq(patches * own)
                m.next = "OFFER"
            with m.State("OFFER"):
                bad = (total > sizes.patches) | (own > sizes.sequences) | (tiles >> len(self.tiles)).any()
                m.d.comb += [self.refused.eq(bad), self.o.valid.eq(~bad)]
                with m.If(self.o.valid & self.o.ready):
                    m.next = "TAKE"
        return m


class IntegerBroadcaster(BlockBroadcaster):
    """Executes SEND instructions in order: reads arrays ahead, sends their digits that are not zero.

    A stream whose channels have no room does not hold up the others: their engines take instructions together.
    ``send_zeros`` is not looked at: what is zero is never sent.
    """

    def __init__(self, config: Config):
        self._sizes = sizes_of(config)
        super().__init__(config, Opcode.SEND, Digits(self._sizes.elements, config.integer_streams))

    def _send(self, m, queue, fetcher):
        """Check, then tell the fetcher what to bring, and the senders what comes."""
        config, streams = self.config, self.config.integer_streams
        m.submodules.check = check = ArrayCheck(self._sizes, config.vector_beats, streams)
        m.submodules.extents = extents = SyncFIFO(width=Extent().size, depth=_AHEAD)
        m.submodules.distributor = distributor = Distributor(self._sizes, streams, config.vector_beats)
        senders = [SequenceSender(self._sizes) for _ in range(streams)]
        connect(m, queue.o, check.i)
        send, extent, go = check.o.p, Signal(Extent()), Signal()
        whole = {"lanes": config.lanes, "last_lanes": config.lanes, "tiles": 1, "start": 1, "finish": 1}
        names = [name for name in fetcher.i.p.shape().members if name in send.shape().members]
        m.d.comb += [
            go.eq(check.o.valid & fetcher.i.ready & extents.w_rdy),
            check.o.ready.eq(fetcher.i.ready & extents.w_rdy),
            *(fetcher.i.p[name].eq(send[name]) for name in names),
            *(fetcher.i.p[name].eq(value) for name, value in whole.items()),
            fetcher.i.valid.eq(check.o.valid & extents.w_rdy),
            extent.tiles.eq(check.tiles),
            extent.sequences.eq(send.batch),
            extent.beats.eq(config.vector_beats),
            *(extent[name].eq(send[name]) for name in ("wide", "repeats")),
            extents.w_data.eq(extent),
            extents.w_en.eq(go),
            distributor.extent.p.eq(extents.r_data),
            distributor.extent.valid.eq(extents.r_rdy),
            extents.r_en.eq(distributor.extent.ready),
        ]
        for n, sender in enumerate(senders):
            m.submodules[f"sender{n}"] = sender
            connect(m, getattr(distributor, f"extent{n}"), sender.extent)
            connect(m, getattr(distributor, f"beats{n}"), sender.beats)
            m.d.comb += [
                self.o.p[n].valid.eq(sender.o.valid & self.rooms[n]),
                self.o.p[n].sent.eq(sender.o.p),
                sender.o.ready.eq(self.rooms[n]),
            ]
        m.d.comb += self.o.valid.eq(Cat(digit.valid for digit in self.o.p).any())
        self._bring(m, fetcher, distributor)
        sending = extents.r_rdy | distributor.busy | Cat(sender.busy for sender in senders).any()
        with m.If(check.refused & ~fetcher.busy & ~sending & (fetcher.status == Status.IDLE)):
            m.d.comb += [self.status.eq(Status.BAD_FIELD), self.completed.eq(fetcher.begun)]
        return check.busy | sending

    def _bring(self, m, fetcher, to):
        """Give the beats on as they come; count their words."""
        words = Signal.like(to.beats.p)
        width = len(fetcher.write_data) // len(words)
        nonzero = Cat(fetcher.write_data.word_select(n, width).any() for n in range(len(words)))
        m.d.comb += [
            *(words[n].eq(fetcher.write_data.word_select(n, width)) for n in range(len(words))),
            to.beats.p.eq(words),
            to.beats.valid.eq(fetcher.write_enable),
            fetcher.hold.eq(~to.beats.ready),
            fetcher.release.eq(fetcher.o.valid),
            fetcher.o.ready.eq(1),
        ]
        m.d.sync += [
            self.seen.eq(Mux(fetcher.write_enable, len(words), 0)),
            self.skipped.eq(Mux(fetcher.write_enable, sum(~bit for bit in nonzero), 0)),
        ]
