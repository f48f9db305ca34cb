"""A compressor and a decompressor behind a register. They may take a beat in pieces: LUTs grow faster than words."""

from amaranth.hdl import Array, Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, connect, flipped

from etalstm_hw.codec.compress import Compressor, compressor_ports
from etalstm_hw.codec.decompress import Decompressor, decompressor_ports
from etalstm_hw.codec.words import Packer, Unpacker
from etalstm_hw.contract import PARAMETERS, FloatFormat
from etalstm_hw.elastic import Elastic


class BufferedCompressor(wiring.Component):
    """Does what :class:`Compressor` does, ``words`` elements a cycle, and takes so many ahead.

    ::

        i ── Unpacker ── Elastic ── Compressor ── Packer ── o

    Whether a beat is taken depends on registers alone. Where ``words`` are a beat, there is nothing to unpack or pack.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words, words : int
        Words of a beat, and those taken in a cycle: at least 2.

    Members
    -------
    i, o
        As of :class:`Compressor`.
    bf16, threshold : :py:`In(1)`, :py:`In(range(PARAMETERS))`
        Of the beat at ``i``: as of :class:`Compressor`, and the number of its threshold.
    parameters : :py:`In(data.ArrayLayout(32, PARAMETERS))`
        Thresholds; constant while a stream is compressed.
    """

    def __init__(self, format: FloatFormat, beat_words: int, words: int):
        self._pieces = _pieces(format, beat_words, words)
        self._compressor = Compressor(format, beat_words // self._pieces[1])
        thresholds = {
            "threshold": In(range(PARAMETERS)),
            "parameters": In(data.ArrayLayout(format.width, PARAMETERS)),
        }
        super().__init__(compressor_ports(format, beat_words) | thresholds)

    def elaborate(self, platform):
        """The number of kept elements waits beside the packer for its last beat."""
        m = Module()
        m.submodules.compressor = compressor = self._compressor
        names = ("threshold", "bf16")
        piece_layout = {"beat": compressor.i.p.shape(), **{name: getattr(self, name).shape() for name in names}}
        m.submodules.piece = piece = Elastic(data.StructLayout(piece_layout))
        given, taken = piece.i, piece.o
        m.d.comb += [
            *(given.p[name].eq(getattr(self, name)) for name in names),
            compressor.bf16.eq(taken.p.bf16),
            compressor.threshold.eq(Array(self.parameters)[taken.p.threshold]),
            compressor.i.p.eq(taken.p.beat),
            compressor.i.valid.eq(taken.valid),
            taken.ready.eq(compressor.i.ready),
        ]
        _feed(m, self.i, given, given.p.beat, self._pieces)
        if self._pieces[1] == 1:
            connect(m, compressor.o, flipped(self.o))
            return m
        packer = _pack(m, compressor.o, self._pieces)
        kept = Signal.like(self.o.p.kept, reset_less=True)
        m.d.comb += [
            self.o.p.data.eq(packer.o.p.data),
            self.o.p.last.eq(packer.o.p.last),
            self.o.p.kept.eq(kept),
            self.o.valid.eq(packer.o.valid),
            packer.o.ready.eq(self.o.ready),
        ]
        with m.If(compressor.o.valid & compressor.o.ready):
            m.d.sync += kept.eq(compressor.o.p.kept)
        return m


class BufferedDecompressor(wiring.Component):
    """Does what :class:`Decompressor` does, ``words`` elements a cycle, and takes so many words ahead.

    ::

        i ── Unpacker ── Elastic ── Decompressor ── Packer ── o

    Whether a beat is taken depends on registers alone. Where ``words`` are a beat, there is nothing to unpack or pack.
    A stream's first beat may only come when all elements of the stream before have been taken at ``o``.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    beat_words, words : int
        Words of a beat, and those given in a cycle: at least 2.
    halves : bool
        Of :class:`Decompressor`.

    Members
    -------
    stream_size, i, o, error
        As of :class:`Decompressor`.
    """

    def __init__(self, format: FloatFormat, beat_words: int, words: int, halves: bool = True):
        self._pieces = _pieces(format, beat_words, words)
        pieces = self._pieces[1]
        self._decompressor = Decompressor(format, beat_words // pieces, padding=pieces - 1, halves=halves)
        super().__init__(decompressor_ports(format, beat_words))

    def elaborate(self, platform):
        """Elements come in whole beats, so every beat is full when the packer gives it."""
        m = Module()
        m.submodules.decompressor = decompressor = self._decompressor
        m.submodules.piece = piece = Elastic(decompressor.i.p.shape())
        connect(m, piece.o, decompressor.i)
        connect(m, flipped(self.stream_size), decompressor.stream_size)
        _feed(m, self.i, piece.i, piece.i.p, self._pieces)
        given = decompressor.o if self._pieces[1] == 1 else _pack(m, decompressor.o, self._pieces).o
        connect(m, given, flipped(self.o))
        m.d.comb += self.error.eq(decompressor.error)
        return m


def _feed(m: Module, i, taken, beat, pieces: tuple[int, int]):
    """Give the beats of `i` to the stream `taken`, as its `beat`, in pieces."""
    if pieces[1] == 1:
        m.d.comb += [beat.eq(i.p), taken.valid.eq(i.valid), i.ready.eq(taken.ready)]
        return
    m.submodules.unpacker = unpacker = Unpacker(*pieces)
    connect(m, flipped(i), unpacker.i)
    m.d.comb += [
        beat.data.eq(unpacker.o.p.word),
        beat.last.eq(unpacker.o.p.last),
        taken.valid.eq(unpacker.o.valid),
        unpacker.o.ready.eq(taken.ready),
    ]


def _pack(m: Module, given, pieces: tuple[int, int]) -> Packer:
    """Join the pieces of the stream `given` to beats."""
    m.submodules.packer = packer = Packer(*pieces)
    m.d.comb += [
        packer.i.p.word.eq(given.p.data),
        packer.i.p.last.eq(given.p.last),
        packer.i.valid.eq(given.valid),
        given.ready.eq(packer.i.ready),
    ]
    return packer


def _pieces(format: FloatFormat, beat_words: int, words: int) -> tuple[int, int]:
    """Give the bits of a piece of a beat, and the number of pieces: 1 where `words` are a beat or more."""
    if words < 1 or beat_words % min(words, beat_words):
        raise ValueError(f"words must divide beat_words ({beat_words}), got {words}")
    words = min(words, beat_words)
    return words * format.width, beat_words // words
