"""Arrays of integers that are to be sent sequence by sequence, and which of their digits are not zero."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import COUNT_BITS
from etalstm_hw.integer.widths import DIGIT_SHIFT, MANTISSA_BITS, SCALAR_BITS

PATCH_BEATS = 4
"""Beats of a sequence whose digits are looked through at once."""

BANKS = 2
DIGITS = 2
UPPER, LOWER = range(DIGITS)


def digits(mantissa):
    """Give both digits of an element: one below 128 in size has a lower one alone, of others this is from -64 to 63."""
    in_byte = mantissa[SCALAR_BITS - 1 :] == mantissa[-1].replicate(MANTISSA_BITS - SCALAR_BITS + 1)
    alone = in_byte & (mantissa[:SCALAR_BITS] != 1 << (SCALAR_BITS - 1))
    upper = (mantissa.as_signed() + (1 << (DIGIT_SHIFT - 1))) >> DIGIT_SHIFT
    lower = Cat(mantissa[:DIGIT_SHIFT], Mux(alone, mantissa[DIGIT_SHIFT], mantissa[DIGIT_SHIFT - 1]))
    return Mux(alone, 0, upper)[:SCALAR_BITS].as_signed(), lower.as_signed()


class Extent(data.StructLayout):
    """What there is of an array.

    Members
    -------
    tiles, sequences, beats : its beats come [tile][sequence][beat]; a tile has 1 to 4 beats of a sequence
    wide : elements may have two digits, up to ±16,319; else one, up to ±127
    repeats : how often the array is sent, one time after the other

    Counts are at least 1. The sequences fit a bank, each in whole patches.
    """

    def __init__(self):
        super().__init__({"tiles": COUNT_BITS, "sequences": COUNT_BITS, "beats": 3, "wide": 1, "repeats": COUNT_BITS})


class Sizes:
    """Sizes of the memory of two arrays.

    Parameters
    ----------
    beat_words, beats, sequences : int
        Words of a beat; beats of a bank, at least PATCH_BEATS; sequences of an array at most. All are powers of two.

    Raises
    ------
    ValueError
        If one is none.
    """

    def __init__(self, beat_words, beats, sequences):
        for name, value, least in (
            ("beat_words", beat_words, 2),
            ("beats", beats, PATCH_BEATS),
            ("sequences", sequences, 1),
        ):
            if value < least or value & (value - 1):
                raise ValueError(f"{name} must be a power of two of at least {least}, got {value}")
        self.beat_words, self.beats, self.sequences = beat_words, beats, sequences
        self.elements = beats * beat_words
        self.patches, self.patch_words = beats // PATCH_BEATS, PATCH_BEATS * beat_words
        self.beat = data.ArrayLayout(MANTISSA_BITS, beat_words)
        self.masks = data.ArrayLayout(self.patch_words, DIGITS)
        self.counts = data.ArrayLayout(range(self.elements + 1), DIGITS)


class SequenceRead(wiring.Signature):
    """Reads of a :class:`SequenceMemory`, seen from the reader; addresses have the bank above all else.

    Masks and elements follow their enables by a cycle, and stay without; counts are there at once.

    Members
    -------
    patch, patch_enable, masks : of a patch, which of its words have a digit that is not zero, by digit
    counted, counts : of a sequence, how many there are
    line, line_enable, beat : elements
    """

    def __init__(self, sizes):
        super().__init__(
            {
                "patch": Out(range(BANKS * sizes.patches)),
                "patch_enable": Out(1),
                "masks": In(sizes.masks),
                "counted": Out(range(BANKS * sizes.sequences)),
                "counts": In(sizes.counts),
                "line": Out(range(BANKS * sizes.beats)),
                "line_enable": Out(1),
                "beat": In(sizes.beat),
            }
        )


class SequenceMemory(wiring.Component):
    """Keeps two arrays, a mask for each of their patches and digits, and counts for each sequence.

    A beat is there for the reader two cycles after its ``write``.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    write : :py:`In(1)`
        A beat is written.
    line, sequence, bank : :py:`In`
        Where.
    first : :py:`In(1)`
        It is the first of its sequence.
    beat : :py:`In(sizes.beat)`
    read : :py:`In(SequenceRead(sizes))`
    """

    def __init__(self, sizes):
        self._sizes = sizes
        super().__init__(
            {
                "write": In(1),
                "first": In(1),
                "bank": In(1),
                "line": In(range(sizes.beats)),
                "sequence": In(range(sizes.sequences)),
                "beat": In(sizes.beat),
                "read": In(SequenceRead(sizes)),
            }
        )

    def elaborate(self, platform):
        """Find the digits that are not zero before a register; count them behind it."""
        m = Module()
        sizes = self._sizes
        nonzero = Signal(data.ArrayLayout(sizes.beat_words, DIGITS), reset_less=True)
        write, first, bank = Signal(), Signal(reset_less=True), Signal(reset_less=True)
        line, sequence = Signal.like(self.line, reset_less=True), Signal.like(self.sequence, reset_less=True)
        beat = Signal(sizes.beat, reset_less=True)
        m.d.sync += write.eq(self.write)
        with m.If(self.write):
            names = {"first": first, "bank": bank, "line": line, "sequence": sequence, "beat": beat}
            m.d.sync += [register.eq(getattr(self, name)) for name, register in names.items()]
            found = [[digit != 0 for digit in digits(word)] for word in self.beat]
            m.d.sync += [nonzero[digit].eq(Cat(each[digit] for each in found)) for digit in (UPPER, LOWER)]
        self._keep_elements(m, write, Cat(line, bank), beat)
        self._keep_masks(m, write, line, bank, nonzero)
        self._count(m, write, first, Cat(sequence, bank), nonzero)
        return m

    def _keep_elements(self, m, write, address, beat):
        """Ultra RAM: the channels leave the board's part less block RAM than that."""
        shape = {"shape": self._sizes.beat, "depth": BANKS * self._sizes.beats, "init": []}
        m.submodules.elements = elements = memory.Memory(**shape, attrs={"ram_style": "ultra"})
        into, out = elements.write_port(), elements.read_port()
        m.d.comb += [
            into.addr.eq(address),
            into.data.eq(beat),
            into.en.eq(write),
            out.addr.eq(self.read.line),
            out.en.eq(self.read.line_enable),
            self.read.beat.eq(out.data),
        ]

    def _keep_masks(self, m, write, line, bank, nonzero):
        """A beat clears what the later ones of its patch have, which may not come; they come in order."""
        within = (PATCH_BEATS - 1).bit_length()
        place, address = line[:within], Cat(line[within:], bank)
        for digit, name in ((UPPER, "upper"), (LOWER, "lower")):
            shape = data.ArrayLayout(self._sizes.beat_words, PATCH_BEATS)
            m.submodules[name] = masks = memory.Memory(shape=shape, depth=BANKS * self._sizes.patches, init=[])
            into, out = masks.write_port(granularity=1), masks.read_port()
            m.d.comb += [
                into.addr.eq(address),
                out.addr.eq(self.read.patch),
                out.en.eq(self.read.patch_enable),
                self.read.masks[digit].eq(out.data),
            ]
            before = Const(0)
            for n in range(PATCH_BEATS):
                own = place == n
                before |= own
                m.d.comb += [into.data[n].eq(Mux(own, nonzero[digit], 0)), into.en[n].eq(write & before)]

    def _count(self, m, write, first, address, nonzero):
        m.submodules.sums = sums = memory.Memory(shape=self._sizes.counts, depth=BANKS * self._sizes.sequences, init=[])
        into, old, out = sums.write_port(), sums.read_port(domain="comb"), sums.read_port(domain="comb")
        m.d.comb += [
            into.addr.eq(address),
            into.en.eq(write),
            old.addr.eq(address),
            out.addr.eq(self.read.counted),
            self.read.counts.eq(out.data),
            *(into.data[n].eq(Mux(first, 0, old.data[n]) + sum(nonzero[n])) for n in range(DIGITS)),
        ]


class SequenceFiller(wiring.Component):
    """Brings the beats of an array to the lines of their sequences.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    extent : :py:`In(stream.Signature(Extent()))`
        Before the beats of each array.
    beats : :py:`In(stream.Signature(sizes.beat))`
    free : :py:`In(1)`
        The bank that is to be filled next is free.
    write, first, bank, line, sequence : :py:`Out`
        See :class:`SequenceMemory`.
    present : :py:`Out(Extent())`
        Of the array that comes.
    pitch : :py:`Out(range(sizes.patches + 1))`
        Its patches of a sequence.
    done : :py:`Out(1)`
        With its last write.
    busy : :py:`Out(1)`
    """

    def __init__(self, sizes):
        self._sizes = sizes
        super().__init__(
            {
                "extent": In(stream.Signature(Extent())),
                "beats": In(stream.Signature(sizes.beat)),
                "free": In(1),
                "write": Out(1),
                "first": Out(1),
                "bank": Out(1),
                "line": Out(range(sizes.beats)),
                "sequence": Out(range(sizes.sequences)),
                "present": Out(Extent()),
                "pitch": Out(range(sizes.patches + 1)),
                "done": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Take an extent; a cycle later it is known how far sequences are apart; then take the beats."""
        m = Module()
        taken, ready = Signal(), Signal()
        extent, beat, tile = self.present, Signal(3), Signal(COUNT_BITS)
        start, of_tile = Signal.like(self.line), Signal.like(self.line)  # of the sequence; of the tile in it
        ends = {name: Signal(name=f"{name}_ends") for name in ("beats", "sequences", "tiles")}
        within = (PATCH_BEATS - 1).bit_length()
        m.d.comb += [
            self.extent.ready.eq(~taken & self.free),
            self.beats.ready.eq(ready),
            self.write.eq(ready & self.beats.valid),
            self.first.eq((tile == 0) & (beat == 0)),
            self.line.eq(start + of_tile + beat),
            ends["beats"].eq(beat + 1 == extent.beats),
            ends["sequences"].eq(ends["beats"] & (self.sequence + 1 == extent.sequences)),
            ends["tiles"].eq(ends["sequences"] & (tile + 1 == extent.tiles)),
            self.done.eq(self.write & ends["tiles"]),
            self.busy.eq(taken),
        ]
        m.d.sync += [
            ready.eq(taken & ~self.done),
            self.pitch.eq((extent.tiles * extent.beats + PATCH_BEATS - 1) >> within),
        ]
        with m.If(self.extent.valid & self.extent.ready):
            m.d.sync += [extent.eq(self.extent.p), taken.eq(1)]
            m.d.sync += [counter.eq(0) for counter in (beat, tile, start, of_tile, self.sequence)]
        with m.If(self.write):
            m.d.sync += beat.eq(Mux(ends["beats"], 0, beat + 1))
            with m.If(ends["beats"]):
                m.d.sync += [self.sequence.eq(self.sequence + 1), start.eq(start + (self.pitch << within))]
            with m.If(ends["sequences"]):
                m.d.sync += [self.sequence.eq(0), start.eq(0), tile.eq(tile + 1), of_tile.eq(of_tile + extent.beats)]
            with m.If(ends["tiles"]):
                m.d.sync += [taken.eq(0), self.bank.eq(~self.bank)]
        return m
