"""An array of digits that is to be sent sequence by sequence, and which of them are not zero."""

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.compute.memory import ram_style
from etalstm_hw.config import BANK_ARRAYS, INTEGER_PORTS, SENT_BANKS
from etalstm_hw.contract import COUNT_BITS
from etalstm_hw.contract.integers import PLANES, WORD_BYTES

UPPER, LOWER = range(PLANES)
_BYTE = 8


class Extent(data.StructLayout):
    """What there is of an array.

    Members
    -------
    blocks, sequences, wide : its beats come [block][plane][sequence][beat], with `wide` in two planes of digits, the
        upper ones first, else in one
    repeats : how often the array is sent, one time after the other

    Counts are at least 1. The sequences fit the memory.
    """

    def __init__(self):
        super().__init__({"blocks": COUNT_BITS, "sequences": COUNT_BITS, "wide": 1, "repeats": COUNT_BITS})


class Sizes:
    """Sizes of the memory of an array. A line is a beat of bytes of one sequence and plane.

    Parameters
    ----------
    beat_words, vector_beats, lines, sequences : int
        Words of a beat; beats of a vector; lines of an array; sequences of an array, each at most. All are powers of
        two.
    ports : int
        Ports that bring arrays.

    Raises
    ------
    ValueError
        If one is none, or there are no banks for so many ports.
    """

    def __init__(self, beat_words, vector_beats, lines, sequences, ports=SENT_BANKS):
        for name, value, least in (
            ("beat_words", beat_words, 2),
            ("vector_beats", vector_beats, 1),
            ("lines", lines, PLANES),
            ("sequences", sequences, 1),
        ):
            if value < least or value & (value - 1):
                raise ValueError(f"{name} must be a power of two of at least {least}, got {value}")
        if ports not in INTEGER_PORTS:
            raise ValueError(f"ports must be one of {INTEGER_PORTS}, got {ports}")
        self.beat_words, self.vector_beats, self.lines, self.sequences = beat_words, vector_beats, lines, sequences
        self.ports, self.fillers, self.line_bytes = ports, ports // SENT_BANKS, WORD_BYTES * beat_words
        self.elements = lines * self.line_bytes
        self.beat = data.ArrayLayout(data.ArrayLayout(_BYTE, WORD_BYTES), beat_words)
        self.count = range(self.elements + 1)


class SequenceRead(wiring.Signature):
    """Reads of a :class:`SequenceMemory`, seen from the reader.

    Masks and elements follow their enables by a cycle, and stay without; counts are there at once.

    Members
    -------
    masked, mask_enable, mask : of a line, which of its bytes are not zero: byte by byte, of all words
    counted, plane, count : of a sequence and plane, how many there are
    line, line_enable, beat : elements
    """

    def __init__(self, sizes):
        super().__init__(
            {
                "masked": Out(range(sizes.lines)),
                "mask_enable": Out(1),
                "mask": In(sizes.line_bytes),
                "counted": Out(range(sizes.sequences)),
                "plane": Out(1),
                "count": In(sizes.count),
                "line": Out(range(sizes.lines)),
                "line_enable": Out(1),
                "beat": In(sizes.beat),
            }
        )


class SequenceMemory(wiring.Component):
    """Keeps BANK_ARRAYS arrays, a mask for each of their lines, and counts for each sequence and plane.

    A beat is there for the reader two cycles after its ``write``.

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    write : :py:`In(1)`
        A beat is written.
    array, line, sequence, plane : :py:`In`
        Where.
    first : :py:`In(1)`
        It is the first of its sequence and plane.
    beat : :py:`In(sizes.beat)`
    read_array : :py:`In(range(BANK_ARRAYS))`
        Which one is read.
    read : :py:`In(SequenceRead(sizes))`
    """

    def __init__(self, sizes):
        self._sizes = sizes
        super().__init__(
            {
                "write": In(1),
                "first": In(1),
                "plane": In(1),
                "array": In(range(BANK_ARRAYS)),
                "line": In(range(sizes.lines)),
                "sequence": In(range(sizes.sequences)),
                "beat": In(sizes.beat),
                "read_array": In(range(BANK_ARRAYS)),
                "read": In(SequenceRead(sizes)),
            }
        )

    def elaborate(self, platform):
        """Find the bytes that are not zero before a register; count them behind it."""
        m = Module()
        sizes = self._sizes
        nonzero, write = Signal(sizes.line_bytes, reset_less=True), Signal()
        names = ("first", "plane", "array", "line", "sequence", "beat")
        kept = {name: Signal.like(getattr(self, name), name=f"{name}_1", reset_less=True) for name in names}
        m.d.sync += write.eq(self.write)
        with m.If(self.write):
            m.d.sync += [register.eq(getattr(self, name)) for name, register in kept.items()]
            m.d.sync += nonzero.eq(Cat(word[n].any() for n in range(WORD_BYTES) for word in self.beat))
        line = Cat(kept["line"], kept["array"])
        self._keep_elements(m, write, line, kept["beat"])
        self._keep_masks(m, write, line, nonzero)
        self._count(m, write, kept, nonzero)
        return m

    def _keep_elements(self, m, write, address, beat):
        depth = BANK_ARRAYS * self._sizes.lines
        shape = {"shape": self._sizes.beat, "depth": depth, "init": []}
        m.submodules.elements = elements = memory.Memory(**shape, attrs=ram_style(depth))
        into, out = elements.write_port(), elements.read_port()
        m.d.comb += [
            into.addr.eq(address),
            into.data.eq(beat),
            into.en.eq(write),
            out.addr.eq(Cat(self.read.line, self.read_array)),
            out.en.eq(self.read.line_enable),
            self.read.beat.eq(out.data),
        ]

    def _keep_masks(self, m, write, address, nonzero):
        """In block RAM, however many they are: of ultra RAM's words they would use less than half."""
        shape = {"shape": self._sizes.line_bytes, "depth": BANK_ARRAYS * self._sizes.lines, "init": []}
        m.submodules.masks = masks = memory.Memory(**shape, attrs={"ram_style": "block"})
        into, out = masks.write_port(), masks.read_port()
        m.d.comb += [
            into.addr.eq(address),
            into.data.eq(nonzero),
            into.en.eq(write),
            out.addr.eq(Cat(self.read.masked, self.read_array)),
            out.en.eq(self.read.mask_enable),
            self.read.mask.eq(out.data),
        ]

    def _count(self, m, write, kept, nonzero):
        depth = BANK_ARRAYS * self._sizes.sequences * PLANES
        m.submodules.sums = sums = memory.Memory(shape=self._sizes.count, depth=depth, init=[])
        into, old, out = sums.write_port(), sums.read_port(domain="comb"), sums.read_port(domain="comb")
        address = Cat(kept["plane"], kept["sequence"], kept["array"])
        m.d.comb += [
            into.addr.eq(address),
            into.en.eq(write),
            old.addr.eq(address),
            out.addr.eq(Cat(self.read.plane, self.read.counted, self.read_array)),
            self.read.count.eq(out.data),
            into.data.eq(Mux(kept["first"], 0, old.data) + sum(nonzero)),
        ]


class SequenceFiller(wiring.Component):
    """Brings the beats of an array to the lines of their sequences: [sequence][block][beat][plane].

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    extent : :py:`In(stream.Signature(Extent()))`
        Before the beats of each array.
    beats : :py:`In(stream.Signature(sizes.beat))`
    free : :py:`In(1)`
        The memory is free.
    hold : :py:`In(1)`
        Write nothing in this cycle.
    write, first, line, sequence, plane : :py:`Out`
        See :class:`SequenceMemory`.
    present : :py:`Out(Extent())`
        Of the array that comes.
    pitch : :py:`Out(range(sizes.lines + 1))`
        Its lines of a sequence.
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
                "hold": In(1),
                "write": Out(1),
                "first": Out(1),
                "plane": Out(1),
                "line": Out(range(sizes.lines)),
                "sequence": Out(range(sizes.sequences)),
                "present": Out(Extent()),
                "pitch": Out(range(sizes.lines + 1)),
                "done": Out(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """Take an extent; a cycle later it is known how far sequences are apart; then take the beats."""
        m = Module()
        sizes, extent = self._sizes, self.present
        taken, ready = Signal(), Signal()
        beat, block = Signal(range(max(2, sizes.vector_beats))), Signal(COUNT_BITS)
        start, of_block = Signal.like(self.line), Signal.like(self.line)  # of the sequence; of the block in it
        ends = {name: Signal(name=f"{name}_ends") for name in ("beats", "sequences", "planes", "blocks")}
        m.d.comb += [
            self.extent.ready.eq(~taken & self.free),
            self.beats.ready.eq(ready & ~self.hold),
            self.write.eq(ready & ~self.hold & self.beats.valid),
            self.first.eq((block == 0) & (beat == 0)),
            self.line.eq(start + of_block + Mux(extent.wide, Cat(self.plane == LOWER, beat), beat)),
            ends["beats"].eq(beat == sizes.vector_beats - 1),
            ends["sequences"].eq(ends["beats"] & (self.sequence + 1 == extent.sequences)),
            ends["planes"].eq(ends["sequences"] & (self.plane == LOWER)),
            ends["blocks"].eq(ends["planes"] & (block + 1 == extent.blocks)),
            self.done.eq(self.write & ends["blocks"]),
            self.busy.eq(taken),
        ]
        m.d.sync += [
            ready.eq(taken & ~self.done),
            self.pitch.eq((extent.blocks * sizes.vector_beats) << extent.wide),
        ]
        with m.If(self.extent.valid & self.extent.ready):
            m.d.sync += [extent.eq(self.extent.p), taken.eq(1), self.plane.eq(Mux(self.extent.p.wide, UPPER, LOWER))]
            m.d.sync += [counter.eq(0) for counter in (beat, block, start, of_block, self.sequence)]
        with m.If(self.write):
            m.d.sync += beat.eq(Mux(ends["beats"], 0, beat + 1))
            with m.If(ends["beats"]):
                m.d.sync += [self.sequence.eq(self.sequence + 1), start.eq(start + self.pitch)]
            with m.If(ends["sequences"]):
                m.d.sync += [self.sequence.eq(0), start.eq(0), self.plane.eq(LOWER)]
            with m.If(ends["planes"]):
                m.d.sync += [block.eq(block + 1), of_block.eq(of_block + (sizes.vector_beats << extent.wide))]
                m.d.sync += self.plane.eq(Mux(extent.wide, UPPER, LOWER))
            with m.If(ends["blocks"]):
                m.d.sync += taken.eq(0)
        return m


class SequenceBank(wiring.Component):
    """Takes arrays and keeps them until they have been sent: one of them is sent while others come.

    With two fillers each brings every other array. Where both have a beat, the first one's is written.
    ::

        beats ─► filler ─┐
                         ├─► memory ─► read
        beats ─► filler ─┘

    Parameters
    ----------
    sizes : Sizes

    Members
    -------
    extents : :py:`In(stream.Signature(Extent())).array(sizes.fillers)`
        Before the beats of each array.
    beats : :py:`In(stream.Signature(sizes.beat)).array(sizes.fillers)`
    full : :py:`Out(1)`
        The array whose turn it is to be sent is here, whole.
    present, pitch : :py:`Out`
        What it is, and its lines of a sequence; constant until it is sent.
    read : :py:`In(SequenceRead(sizes))`
    sent : :py:`In(1)`
        The array is not needed any more.
    busy : :py:`Out(1)`
        An array comes or is here.
    """

    def __init__(self, sizes):
        self._sizes = sizes
        super().__init__(
            {
                "extents": In(stream.Signature(Extent())).array(sizes.fillers),
                "beats": In(stream.Signature(sizes.beat)).array(sizes.fillers),
                "full": Out(1),
                "present": Out(Extent()),
                "pitch": Out(range(sizes.lines + 1)),
                "read": In(SequenceRead(sizes)),
                "sent": In(1),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        """A write takes two cycles: the array is here when the last one is over."""
        m = Module()
        m.submodules.memory = memory = SequenceMemory(self._sizes)
        connect(m, flipped(self.read), memory.read)
        leaves = Signal(range(BANK_ARRAYS))
        kept = data.StructLayout({"full": 1, "extent": Extent(), "pitch": self.pitch.shape()})
        arrays = [Signal(kept, name=f"array{n}") for n in range(BANK_ARRAYS)]
        m.d.sync += leaves.eq(leaves + self.sent)
        for n, array in enumerate(arrays):
            with m.If(self.sent & (leaves == n)):
                m.d.sync += array.full.eq(0)
        fillers = [SequenceFiller(self._sizes) for _ in range(self._sizes.fillers)]
        comes = [self._fill(m, number, fillers, memory, arrays) for number in range(len(fillers))]
        m.d.comb += [
            memory.read_array.eq(leaves),
            self.full.eq(Array(array.full for array in arrays)[leaves]),
            self.present.eq(Array(array.extent.as_value() for array in arrays)[leaves]),
            self.pitch.eq(Array(array.pitch for array in arrays)[leaves]),
            self.busy.eq(Cat(*comes, *(array.full for array in arrays)).any()),
        ]
        return m

    def _fill(self, m, number, fillers, memory, arrays):
        """Have a filler bring every array whose turn is its own; give whether one comes."""
        filler, step = fillers[number], len(fillers)
        m.submodules[f"filler{number}"] = filler
        connect(m, flipped(self.extents[number]), filler.extent)
        connect(m, flipped(self.beats[number]), filler.beats)
        own, written = arrays[number::step], Signal(name=f"written{number}")
        turn = C(0)
        if len(own) > 1:
            turn = Signal(range(len(own)), name=f"turn{number}")
            m.d.sync += turn.eq(turn + written)
        m.d.comb += [
            filler.free.eq(~Array(array.full for array in own)[turn] & ~written),
            filler.hold.eq(Cat(other.write for other in fillers[:number]).any()),
        ]
        with m.If(filler.write):
            names = ("write", "first", "line", "sequence", "plane")
            m.d.comb += [
                *(getattr(memory, name).eq(getattr(filler, name)) for name in names),
                memory.array.eq(number + step * turn),
                memory.beat.eq(self.beats[number].p),
            ]
        m.d.sync += written.eq(filler.done)
        for n, array in enumerate(own):
            with m.If(written & (turn == n)):
                m.d.sync += [array.full.eq(1), array.extent.eq(filler.present), array.pitch.eq(filler.pitch)]
        return filler.busy | written
