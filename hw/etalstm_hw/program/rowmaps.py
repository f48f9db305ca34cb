"""Reads the maps of LOAD_ROWS: which rows of weights are needed."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw import contract
from etalstm_hw.axi.axi import AXI4Read
from etalstm_hw.axi.reader import Reader
from etalstm_hw.contract import MOST_GATES, FloatFormat, Opcode, Status
from etalstm_hw.stream import Group, Windows, instruction_layout

_AHEAD = 2  # maps that are asked for while another is looked at
_DEPTH = 32  # beats of the reader's FIFO
_SHIFT = (MOST_GATES - 1).bit_length()  # from lanes to their rows, unless a lane has a single one


class RowMap(data.StructLayout):
    """The map of a block.

    Members
    -------
    needed : a bit for each of a lane's four rows, those of lane 0 first; for a single row the first of the four
    rows : how many rows there are
    last : the last block of its instruction
    """

    def __init__(self, lanes: int):
        rows = MOST_GATES * lanes
        super().__init__({"needed": rows, "rows": range(rows + 1), "last": 1})


class RowMaps(wiring.Component):
    """Gives the map of each block of an instruction, in order: the rows that any group of channels needs.

    A map is asked for ahead of the one that is taken; a block takes, for each group, as many cycles as its map has
    beats, and 3 more.

    Parameters
    ----------
    format : FloatFormat
    lanes, beat_words, address_bits : int
        Sizes of a vector, a beat, a byte address.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.LOAD_ROWS)))`
        Instructions whose waits are over. The next is taken when the last map of this one is known to be readable.
    o : :py:`Out(stream.Signature(RowMap(lanes)))`
    windows : :py:`In(Windows(address_bits))`
    group : :py:`In(Group(address_bits))`  the groups and their size; constant while a program runs
    axi : :py:`Out(AXI4Read(address_bits, beat_bits))`
    drain : :py:`In(1)`                  ask for nothing more; what comes is dropped
    busy : :py:`Out(1)`                  a read is under way
    beat : :py:`Out(1)`                  a beat has come
    status : :py:`Out(Status)`           IDLE, or sticky until reset: BAD_FIELD, BAD_ADDRESS, READ_ERROR
    """

    def __init__(self, format: FloatFormat, *, lanes: int, beat_words: int, address_bits: int):
        self._format, self._lanes, self._beat_words = format, lanes, beat_words
        self._address_bits = address_bits
        self._vector_beats, self._beat_bits = lanes // beat_words, beat_words * format.width
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.LOAD_ROWS))),
                "o": Out(stream.Signature(RowMap(lanes))),
                "windows": In(Windows(address_bits)),
                "group": In(Group(address_bits)),
                "axi": Out(AXI4Read(address_bits, self._beat_bits)),
                "drain": In(1),
                "busy": Out(1),
                "beat": Out(1),
                "status": Out(Status),
            }
        )

    def elaborate(self, platform):
        """One FSM asks, a counter collects."""
        m = Module()
        sizes = (self._address_bits, self._beat_bits, (MOST_GATES * self._vector_beats).bit_length())
        m.submodules.reader = reader = Reader(*sizes, depth=_DEPTH, outstanding=_AHEAD)
        shared = {name: RowMap(self._lanes).members[name] for name in ("rows", "last")}
        plan = data.StructLayout(shared | {"first_group": 1, "last_group": 1})
        m.submodules.plans = plans = SyncFIFO(width=plan.size, depth=_AHEAD)
        connect(m, reader.axi, flipped(self.axi))
        m.d.comb += [reader.drain.eq(self.drain), self.busy.eq(reader.busy)]
        self._ask(m, reader, plans, plan(plans.w_data))
        self._collect(m, reader, plans, plan(plans.r_data))
        return m

    def _ask(self, m, reader, plans, plan):
        """Walk through the blocks, and the groups of each; products get a cycle of their own, and so do the checks."""
        shift = (self._beat_bits // 8).bit_length() - 1
        rows = Signal(self.i.p.shape())
        left, lanes = Signal.like(rows.outer, name="left"), Signal.like(rows.lanes, name="lanes")
        channel, tile = Signal.like(rows.channel, name="channel"), Signal.like(rows.tile, name="tile")
        beats = Signal.like(reader.i.p.beats)
        window, offset = Signal(self._address_bits), Signal(contract.ADDRESS_BITS + 1)
        last_tile = tile == rows.tiles_per_channel - 1
        number, first = (Signal.like(self.group[name], name=name) for name in ("number", "first"))  # of the group
        m.d.comb += [
            beats.eq(self._vector_beats << Mux(rows.single, 0, _SHIFT)),
            plan.rows.eq(lanes << Mux(rows.single, 0, _SHIFT)),
            reader.i.p.address.eq(window + (offset << shift)),
            reader.i.p.beats.eq(beats),
            plan.last.eq(left == plan.rows),
            plan.first_group.eq(number == 0),
            plan.last_group.eq(number == self.group.count - 1),
        ]
        with m.FSM():
            with m.State("TAKE"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += [rows.eq(self.i.p), left.eq(self.i.p.outer)]
                m.d.sync += [channel.eq(self.i.p.channel), tile.eq(self.i.p.tile)]
                with m.If(self.i.valid):
                    m.next = "LOCATE"
            with m.State("LOCATE"):
                m.d.sync += [
                    lanes.eq(Mux(last_tile, rows.last_lanes, rows.lanes)),
                    offset.eq(rows.map + ((tile * self._vector_beats) << Mux(rows.single, 0, _SHIFT))),
                    window.eq(self.windows.base + (first + channel) * self.windows.stride),
                ]
                m.next = "CHECK"
            with m.State("CHECK"):
                m.next = "ASK"
                with m.If((lanes > self._lanes) | (plan.rows > left)):
                    m.d.sync += self.status.eq(Status.BAD_FIELD)
                    m.next = "STOPPED"
                with m.Elif((channel >= self.group.size) | (offset + beats > self.windows.size >> shift)):
                    m.d.sync += self.status.eq(Status.BAD_ADDRESS)
                    m.next = "STOPPED"
            with m.State("ASK"):
                m.d.comb += [reader.i.valid.eq(plans.w_rdy), plans.w_en.eq(reader.i.ready)]
                with m.If(reader.i.valid & reader.i.ready):
                    m.d.sync += [number.eq(number + 1), first.eq(first + self.group.size)]
                    m.next = "LOCATE"
                    with m.If(plan.last_group):
                        m.d.sync += [number.eq(0), first.eq(0), left.eq(left - plan.rows)]
                        m.d.sync += [tile.eq(Mux(last_tile, 0, tile + 1)), channel.eq(channel + last_tile)]
                        with m.If(plan.last):
                            m.next = "TAKE"
            with m.State("STOPPED"):
                pass
        with m.If(reader.error):
            m.d.sync += self.status.eq(Status.READ_ERROR)

    def _collect(self, m, reader, plans, plan):
        """Gather a block's bits from the beats of its maps: gates follow each other, and beats of a gate's vector."""
        beats, width = MOST_GATES * self._vector_beats, self._format.width
        needed = Signal(data.ArrayLayout(MOST_GATES, self._lanes), reset_less=True)
        beat, whole = Signal(range(beats)), Signal()
        words = [reader.o.p.data.word_select(n, width)[:-1].any() for n in range(self._beat_words)]
        m.d.comb += [
            reader.o.ready.eq(plans.r_rdy & ~whole),
            self.beat.eq(reader.o.valid & reader.o.ready),
            self.o.valid.eq(whole & (self.status == Status.IDLE)),
            Cat(self.o.p.needed).eq(needed),
            self.o.p.rows.eq(plan.rows),
            self.o.p.last.eq(plan.last),
            plans.r_en.eq((self.o.valid & self.o.ready) | (self.beat & reader.o.p.last & ~plan.last_group)),
        ]
        with m.If(self.beat):
            m.d.sync += [beat.eq(Mux(reader.o.p.last, 0, beat + 1)), whole.eq(reader.o.p.last & plan.last_group)]
            with m.Switch(beat):
                for number in range(beats):
                    gate, first = divmod(number, self._vector_beats)
                    with m.Case(number):
                        for n, word in enumerate(words):
                            row = needed[first * self._beat_words + n][gate]
                            m.d.sync += row.eq(word | (row & ~plan.first_group))
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += whole.eq(0)
