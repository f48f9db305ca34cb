"""Reads vectors out of the lane memories and hands them on beat by beat."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import FIELDS, FloatFormat, Opcode
from etalstm_hw.dma.walker import LanePattern, LaneWalker
from etalstm_hw.stream import LaneRead, vector_layout


class Route(data.StructLayout):
    """What is done with vectors; their beats carry it along.

    Members
    -------
    transpose, compress : through the transposer, the compressor, or neither
    bf16, threshold : for the compressor; ``threshold`` is the number of a parameter
    """

    def __init__(self):
        store = FIELDS[Opcode.STORE]
        super().__init__({"transpose": 1, "compress": 1, **{name: store[name] for name in ("bf16", "threshold")}})


class VectorRead(data.StructLayout):
    """Which vectors to read.

    Members
    -------
    memory : the lane memory
    pattern : the addresses
    lanes : how many lanes of each are wanted: the beats that hold them are handed on
    route : passed on
    """

    def __init__(self, lanes: int):
        super().__init__({"memory": 2, "pattern": LanePattern(), "lanes": range(lanes + 1), "route": Route()})


class VectorBeat(data.StructLayout):
    """A beat of a vector.

    Members
    -------
    data : its words
    lanes, route : those of the request
    last : the last beat of the last vector; if the vectors are to be transposed, of that of each inner loop
    """

    def __init__(self, beat_bits: int, lanes: int):
        super().__init__({"data": beat_bits, "lanes": range(lanes + 1), "route": Route(), "last": 1})


class VectorReader(wiring.Component):
    """Reads the vectors of a pattern and cuts them into beats.

    The first read is requested 1 cycle after the pattern is taken. Its first beat comes out 2 cycles after the request.
    The next pattern is taken 1 cycle after the last request at the soonest: ``i.ready`` comes from a register.
    One beat a cycle, each vector read once. Vectors are read ahead into a FIFO, so that a stall at either end is made
    up for. ``vector`` is looked at only one cycle after a request was taken.

    Parameters
    ----------
    format : FloatFormat
        Number format of a word.
    lanes, beat_words : int
        Words of a vector and of a beat.
    depth : int
        Beats of the FIFO.

    Members
    -------
    i : :py:`In(stream.Signature(VectorRead(lanes)))`
    read : :py:`Out(stream.Signature(LaneRead()))`
    vector : :py:`In(vector_layout(format, lanes))`
    o : :py:`Out(stream.Signature(VectorBeat(beat_bits, lanes)))`
    """

    def __init__(self, format: FloatFormat, lanes: int, beat_words: int, *, depth: int = 16):
        self._lanes, self._beat_words, self._vector_beats = lanes, beat_words, lanes // beat_words
        self._beat_bits = beat_words * format.width
        if depth < self._vector_beats:
            raise ValueError(f"depth must hold a vector of {self._vector_beats} beats, got {depth}")
        self._depth = depth
        super().__init__(
            {
                "i": In(stream.Signature(VectorRead(lanes))),
                "read": Out(stream.Signature(LaneRead())),
                "vector": In(vector_layout(format, lanes)),
                "o": Out(stream.Signature(VectorBeat(self._beat_bits, lanes))),
            }
        )

    def elaborate(self, platform):
        """Credits let out only as many requests as the FIFO has room for."""
        m = Module()
        m.submodules.walker = walker = LaneWalker()
        m.submodules.fifo = fifo = SyncFIFO(width=VectorBeat(self._beat_bits, self._lanes).size, depth=self._depth)
        active, taken, start = Signal(), Signal(), Signal()
        request = Signal(VectorRead(self._lanes), reset_less=True)
        span = Signal(range(self._vector_beats + 1), reset_less=True)  # wanted beats of each vector
        left = Signal(range(self._vector_beats + 1))  # of the vector last requested, still to go into the FIFO
        free = Signal(range(self._depth + 1), init=self._depth)

        m.d.comb += [
            walker.pattern.eq(self.i.p.pattern),
            walker.start.eq(start),
            walker.step.eq(taken),
            self.i.ready.eq(~active),
            start.eq(self.i.valid & self.i.ready),
            self.read.valid.eq(active & (free >= span) & ~left[1:].any()),
            self.read.p.memory.eq(request.memory),
            self.read.p.address.eq(walker.address),
            taken.eq(self.read.valid & self.read.ready),
            Cat(self.o.p).eq(fifo.r_data),
            self.o.valid.eq(fifo.r_rdy),
            fifo.r_en.eq(self.o.ready),
        ]
        with m.If(start):
            m.d.sync += [active.eq(1), request.eq(self.i.p)]
            m.d.sync += span.eq((self.i.p.lanes + self._beat_words - 1) >> (self._beat_words.bit_length() - 1))
        with m.Elif(taken & walker.ends):
            m.d.sync += active.eq(0)
        # Whether a request is taken is known last. So both sums are there before, and it only chooses.
        leaves = fifo.r_rdy & fifo.r_en
        m.d.sync += free.eq(Mux(taken, free - span + leaves, free + leaves))
        with m.If(taken):
            m.d.sync += left.eq(span)
        with m.Elif(left != 0):
            m.d.sync += left.eq(left - 1)
        ends = Mux(request.route.transpose, walker.ends_inner, walker.ends)
        self._cut(m, fifo, request, ends, taken, left)
        return m

    def _cut(self, m, fifo, request, ends, taken, left):
        """Put the vector that arrives into the FIFO: its first beat at once, the others from a register."""
        tag = Signal(VectorBeat(1, self._lanes), reset_less=True)
        arriving = Signal()
        m.d.sync += arriving.eq(taken)
        with m.If(taken):
            m.d.sync += [tag.lanes.eq(request.lanes), tag.route.eq(request.route), tag.last.eq(ends)]

        beat = VectorBeat(self._beat_bits, self._lanes)(fifo.w_data)
        words = Cat(self.vector)
        first = Signal(self._beat_bits)
        m.d.comb += first.eq(words)
        if self._vector_beats > 1:
            rest = Signal((self._vector_beats - 1) * self._beat_bits, reset_less=True)
            following = Mux(arriving, words, rest)
            m.d.comb += first.eq(following)
            # Always on the move, with anything behind: a beat is here only when it is handed on.
            m.d.sync += rest.eq(Cat(following[self._beat_bits : len(rest)], words[len(rest) :]))
        m.d.comb += [
            fifo.w_en.eq(left != 0),
            beat.data.eq(first),
            beat.lanes.eq(tag.lanes),
            beat.route.eq(tag.route),
            beat.last.eq(tag.last & (left == 1)),
        ]
