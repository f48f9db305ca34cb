"""The broadcaster where products are integers: SEND instructions in, digits out."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.broadcast.broadcaster import BlockBroadcaster
from etalstm_hw.config import Config
from etalstm_hw.contract import Opcode, Status
from etalstm_hw.integer.sender import Sent, SequenceSender
from etalstm_hw.integer.sequences import PATCH_BEATS, Extent, Sizes
from etalstm_hw.stream import instruction_layout

_AHEAD = 4  # arrays whose blocks may be asked for before the first of them is sent


def sizes_of(config: Config) -> Sizes:
    """Give the sizes of what is sent: the elements of a buffer, of as many sequences as there are sums."""
    beats = config.broadcast_words // config.beat_words
    return Sizes(config.beat_words, beats, max(1, config.queue_depth // config.tile_sums))


class ArrayCheck(wiring.Component):
    """Refuses SENDs whose array does not fit, or that send none; each takes three cycles.

    Parameters
    ----------
    sizes : Sizes
    vector_beats : int
        Beats of a vector.

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

    def __init__(self, sizes, vector_beats):
        self._sizes, self._vector_beats = sizes, vector_beats
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
        total = Signal(len(patches) + len(send.batch))
        m.d.comb += [self.tiles.eq(tiles), self.busy.eq(self.i.valid)]
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("TAKE") | self.i.valid)
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [send.eq(self.i.p), tiles.eq(self.i.p.blocks * self.i.p.gates)]
                with m.If(self.i.valid):
                    m.next = "PATCHES"
            with m.State("PATCHES"):
                m.d.sync += patches.eq((tiles * self._vector_beats + PATCH_BEATS - 1) >> (PATCH_BEATS.bit_length() - 1))
                m.next = "TOTAL"
            with m.State("TOTAL"):
                m.d.sync += total.eq(patches * send.batch)
                m.next = "OFFER"
            with m.State("OFFER"):
                bad = (total > sizes.patches) | (send.batch > sizes.sequences) | (tiles >> len(self.tiles)).any()
                m.d.comb += [self.refused.eq(bad), self.o.valid.eq(~bad)]
                with m.If(self.o.valid & self.o.ready):
                    m.next = "TAKE"
        return m


class IntegerBroadcaster(BlockBroadcaster):
    """Executes SEND instructions in order: reads arrays ahead, sends their digits that are not zero.

    ``send_zeros`` is not looked at: what is zero is never sent.
    """

    def __init__(self, config: Config):
        self._sizes = sizes_of(config)
        super().__init__(config, Opcode.SEND, Sent(self._sizes.elements))

    def _send(self, m, queue, fetcher):
        """Check, then tell the fetcher what to bring, and the sender what comes."""
        config, sizes = self.config, self._sizes
        m.submodules.check = check = ArrayCheck(sizes, config.vector_beats)
        m.submodules.extents = extents = SyncFIFO(width=Extent().size, depth=_AHEAD)
        m.submodules.sender = sender = SequenceSender(sizes)
        connect(m, queue.o, check.i)
        connect(m, sender.o, flipped(self.o))
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
            sender.extent.p.eq(extents.r_data),
            sender.extent.valid.eq(extents.r_rdy),
            extents.r_en.eq(sender.extent.ready),
        ]
        self._bring(m, fetcher, sender)
        waits = fetcher.busy | extents.r_rdy | sender.busy
        with m.If(check.refused & ~waits & (fetcher.status == Status.IDLE)):
            m.d.comb += [self.status.eq(Status.BAD_FIELD), self.completed.eq(fetcher.begun)]
        return check.busy | extents.r_rdy | sender.busy

    def _bring(self, m, fetcher, sender):
        """Give the beats to the sender as they come; count their words."""
        words = Signal.like(sender.beats.p)
        width = len(fetcher.write_data) // len(words)
        nonzero = Cat(fetcher.write_data.word_select(n, width).any() for n in range(len(words)))
        m.d.comb += [
            *(words[n].eq(fetcher.write_data.word_select(n, width)) for n in range(len(words))),
            sender.beats.p.eq(words),
            sender.beats.valid.eq(fetcher.write_enable),
            fetcher.hold.eq(~sender.beats.ready),
            fetcher.release.eq(fetcher.o.valid),
            fetcher.o.ready.eq(1),
        ]
        m.d.sync += [
            self.seen.eq(Mux(fetcher.write_enable, len(words), 0)),
            self.skipped.eq(Mux(fetcher.write_enable, sum(~bit for bit in nonzero), 0)),
        ]
