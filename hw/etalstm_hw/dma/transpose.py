"""Transposes squares of vectors, a beat in and a beat out each cycle."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

_SHALLOW = 64  # words of a memory that takes a few LUTs


def ram_styles(words: int, vector_beats: int) -> list[str]:
    """Give what each memory of a transposer is made of.

    Of deep ones three in four are block RAM, the others LUTs: that much block RAM a board has left.
    """
    is_deep = _depth(words, vector_beats) > _SHALLOW
    return ["block" if is_deep and n % 4 else "distributed" for n in range(words)]


def _depth(words: int, vector_beats: int) -> int:
    """Words of a memory: two squares lie in all of them together."""
    return 2 * words * vector_beats**2


class SquareBeat(data.StructLayout):
    """A beat on its way into the transposer.

    Members
    -------
    data : ``words`` words of a vector
    lanes : columns wanted of the vectors of this square, 1 to ``words`` times the beats of a vector
    last : the square's last beat
    """

    def __init__(self, word_bits: int, words: int, vector_beats: int):
        super().__init__(
            {"data": data.ArrayLayout(word_bits, words), "lanes": range(words * vector_beats + 1), "last": 1}
        )


class Transposer(wiring.Component):
    """Takes a square of vectors and gives, lane after lane, the words of that lane.

    A square has 1 to ``words``·``vector_beats`` vectors. A lane's words come out as ``ceil(vectors / words)``
    consecutive beats; the last one is filled up with zeros. Vectors come in as the first
    ``ceil(lanes / words)`` of their beats, first beat first. Two squares are stored: while one is written out the next
    is filled, so that in the long run a beat goes in or out in every cycle. The first beat of a square can be taken 2
    cycles after its last beat came in. Without room the input stalls.

    Word l of vector v lies in memory (v + l) mod ``words``. So the words of a beat, be it of a vector or of a lane,
    are all in different memories. Cost: ``words`` memories of a word's width and 2·``words``·``vector_beats``² words,
    two rotators.

    Parameters
    ----------
    word_bits : int
        Bits of a word.
    words : int
        Words of a beat, a power of two of at least 2.
    vector_beats : int
        Beats of a whole vector, a power of two.

    Members
    -------
    i : :py:`In(stream.Signature(SquareBeat(word_bits, words, vector_beats)))`
    o : :py:`Out(stream.Signature(data.ArrayLayout(word_bits, words)))`
    busy : :py:`Out(1)`
        A whole square is here, or a beat of one.
    """

    def __init__(self, word_bits: int, words: int, vector_beats: int):
        for name, value, low in (("words", words, 2), ("vector_beats", vector_beats, 1)):
            if value < low or value & (value - 1):
                raise ValueError(f"{name} must be a power of two of at least {low}, got {value}")
        self._word_bits, self._words, self._vector_beats = word_bits, words, vector_beats
        super().__init__(
            {
                "i": In(stream.Signature(SquareBeat(word_bits, words, vector_beats))),
                "o": Out(stream.Signature(data.ArrayLayout(word_bits, words))),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Fill one page, empty the other."""
        m = Module()
        lanes, depth = self._words * self._vector_beats, _depth(self._words, self._vector_beats)
        memories = [
            Memory(shape=self._word_bits, depth=depth, init=[], attrs={"ram_style": style})
            for style in ram_styles(self._words, self._vector_beats)
        ]
        for n, memory in enumerate(memories):
            m.submodules[f"memory{n}"] = memory
        full = Array(Signal(name=f"full{n}") for n in range(2))
        last_vectors = Array(Signal(range(lanes), name=f"last_vector{n}", reset_less=True) for n in range(2))
        last_lanes = Array(Signal(range(lanes), name=f"last_lane{n}", reset_less=True) for n in range(2))
        self._fill(m, memories, full, last_vectors, last_lanes)
        self._empty(m, memories, full, last_vectors, last_lanes)
        return m

    def _fill(self, m, memories, full, last_vectors, last_lanes):
        words, lanes, beat = self._words, self._words * self._vector_beats, self.i.p
        shift = words.bit_length() - 1
        page, taken = Signal(), Signal()
        vector, last_lane = Signal(range(lanes)), Signal(range(lanes))
        tile = Signal(range(max(self._vector_beats, 2)))  # of the square: the beat of the vector
        m.d.comb += [
            self.i.ready.eq(~full[page]),
            taken.eq(self.i.valid & self.i.ready),
            last_lane.eq(beat.lanes - 1),
        ]
        arriving = Array(beat.data[n] for n in range(words))
        for n, memory in enumerate(memories):
            port = memory.write_port()
            column = Signal(range(words), name=f"column{n}")
            m.d.comb += [
                column.eq(n - vector),
                port.addr.eq(Cat(column, tile[: self._vector_beats.bit_length() - 1], vector[shift:], page)),
                port.data.eq(arriving[column]),
                port.en.eq(taken),
            ]
        with m.If(taken):
            with m.If(tile == last_lane >> shift):
                m.d.sync += [tile.eq(0), vector.eq(vector + 1)]
            with m.Else():
                m.d.sync += tile.eq(tile + 1)
            with m.If(beat.last):
                m.d.sync += [vector.eq(0), page.eq(~page), full[page].eq(1)]
                m.d.sync += [last_vectors[page].eq(vector), last_lanes[page].eq(last_lane)]

    def _empty(self, m, memories, full, last_vectors, last_lanes):
        words = self._words
        shift = words.bit_length() - 1
        page, lane = Signal(), Signal(range(words * self._vector_beats))
        tile = Signal(range(max(self._vector_beats, 2)))  # of the square: the beat of the lane
        last_vector, ends_lane, reads = last_vectors[page], Signal(), Signal()
        first, last = Signal(shift, reset_less=True), Signal(shift, reset_less=True)  # of the beat that was read
        out = Array(Signal(self._word_bits, name=f"out{n}") for n in range(words))
        for n, memory in enumerate(memories):
            port = memory.read_port()
            m.d.comb += [
                port.addr.eq(Cat(lane, tile[: self._vector_beats.bit_length() - 1], page)),
                port.en.eq(reads),
                out[n].eq(port.data),
            ]
        for n in range(words):
            source = Signal(range(words), name=f"memory_of{n}")
            exists = n <= last if n else 1
            m.d.comb += [source.eq(n + first), self.o.p[n].eq(Mux(exists, out[source], 0))]
        m.d.comb += [
            self.busy.eq(self.o.valid | Cat(full).any()),
            ends_lane.eq(tile == last_vector >> shift),
            reads.eq(full[page] & (~self.o.valid | self.o.ready)),
        ]
        with m.If(reads):
            m.d.sync += [self.o.valid.eq(1), first.eq(lane), last.eq(Mux(ends_lane, last_vector, words - 1))]
            m.d.sync += tile.eq(tile + 1)
            with m.If(ends_lane):
                m.d.sync += [tile.eq(0), lane.eq(lane + 1)]
                with m.If(lane == last_lanes[page]):
                    m.d.sync += [lane.eq(0), page.eq(~page), full[page].eq(0)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
