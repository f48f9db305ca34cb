"""Remembers which words of a block are not zero, so that nobody has to look at the others."""

from dataclasses import dataclass

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from etalstm_hw.broadcast.blocks import BlockLayout
from etalstm_hw.contract import MOST_GATES, FloatFormat, cast_sums

_WIDEST = (
    32  # bits of a mask by rows: more would save nothing, a mask has several scalars even if few words are nonzero
)


@dataclass(frozen=True)
class PatchSizes:
    """How the words of a block are divided into patches: a patch has one mask.

    By rows, a patch is one (lane, gate) and up to ``chunk`` sequences; by batch it is one sequence and one beat of
    lanes, all gates, bit ``4·word + gate``.

    Parameters
    ----------
    lanes, beat_words, words : int
        Words of a vector, of a beat, and of a block at most.
    """

    lanes: int
    beat_words: int
    words: int

    @property
    def vector_beats(self) -> int:
        """Beats of a vector."""
        return self.lanes // self.beat_words

    @property
    def lines(self) -> int:
        """Beats of a block at most."""
        return self.words // self.beat_words

    @property
    def chunk(self) -> int:
        """Sequences of a patch by rows: all of a block with four gates, if they are not too many."""
        return min(_WIDEST, self.words // (MOST_GATES * self.lanes))

    @property
    def slots(self) -> int:
        """Chunks of a lane in a block, over all gates, a power of two."""
        vectors = self.words // self.lanes
        most = max(gates * -(-(vectors // gates) // self.chunk) for gates in range(1, MOST_GATES + 1))
        return 1 << (most - 1).bit_length()

    @property
    def mask_bits(self) -> int:
        """Bits of a mask."""
        return max(self.chunk, MOST_GATES * self.beat_words)

    @property
    def sums(self) -> int:
        """Sums that the broadcaster knows, a power of two."""
        return cast_sums(self.lanes, self.words)


class MaskRead(wiring.Signature):
    """A read of a patch's mask, seen from the reader: ``mask`` follows ``enable`` by a cycle, and stays without it.

    ``none`` and ``empty`` take less logic here than they would at the reader.

    Members
    -------
    by_batch : which of the two orders
    rows_address : by rows, the patch: bank, slot, beat of the vector
    word : by rows, which lane of that beat
    batch_address : by batch, the patch: bank, beat of its gate
    nonzero : how many words of the block are to be sent that is being written, of its beats so far with the present one
    none : ``nonzero`` is 0
    empty : ``mask`` is 0
    """

    def __init__(self, sizes: PatchSizes):
        super().__init__(
            {
                "enable": Out(1),
                "by_batch": Out(1),
                "rows_address": Out(range(2 * sizes.slots * sizes.vector_beats)),
                "word": Out(range(sizes.beat_words)),
                "batch_address": Out(range(2 * sizes.lines)),
                "mask": In(sizes.mask_bits),
                "nonzero": In(range(sizes.words + 1)),
                "none": In(1),
                "empty": In(1),
            }
        )


class NonzeroMasks(wiring.Component):
    """Takes the same beats as the block buffer and gives a mask for each patch of either order.

    There are memories for both orders; every beat writes a bit for each of its words into both. The first beat of a
    mask clears what the later ones add to, so nothing has to be emptied. Words of lanes that are not sent are zeros.

    Parameters
    ----------
    format : FloatFormat
    sizes : PatchSizes

    Members
    -------
    block : :py:`In(BlockLayout())`            the block whose beats arrive
    write_data, write_enable : :py:`In`        a beat of it
    send_zeros : :py:`In(1)`                   zeros are to be sent too: a mask has a bit for every word of its lanes
    seen, skipped : :py:`Out`                  words of the beat a cycle ago that could be sent; and that are left out
    read : :py:`In(MaskRead(sizes))`
    """

    def __init__(self, format: FloatFormat, sizes: PatchSizes):
        self._format, self._sizes = format, sizes
        words = sizes.beat_words
        super().__init__(
            {
                "block": In(BlockLayout(sizes.words)),
                "write_data": In(data.ArrayLayout(format.width, words)),
                "write_enable": In(1),
                "send_zeros": In(1),
                "seen": Out(range(words + 1)),
                "skipped": Out(range(words + 1)),
                "read": In(MaskRead(sizes)),
            }
        )

    def elaborate(self, platform):
        """Find out where in the block each beat lies; count and write its bits; read."""
        m = Module()
        sizes, block, read = self._sizes, self.block, self.read
        beat = Signal(range(max(2, sizes.vector_beats)))  # Verilog has no signals of no bits
        line, batch, gate = Signal(range(sizes.lines)), Signal.like(block.batch), Signal(range(MOST_GATES))
        by_rows_enable, by_batch_enable = Signal(), Signal()
        slot, bit = Signal(range(sizes.slots)), Signal(range(max(2, sizes.chunk)))

        vector_ends, batch_ends = beat == sizes.vector_beats - 1, batch == block.batch - 1
        chunk_ends = (bit == sizes.chunk - 1) | batch_ends
        block_ends = batch_ends & (gate == block.gates - 1)
        with m.If(self.write_enable):
            m.d.sync += [line.eq(line + 1), beat.eq(Mux(vector_ends, 0, beat + 1))]
            with m.If(vector_ends):
                m.d.sync += [batch.eq(batch + 1), bit.eq(Mux(chunk_ends, 0, bit + 1)), slot.eq(slot + chunk_ends)]
                with m.If(batch_ends):
                    m.d.sync += [batch.eq(0), line.eq(0), gate.eq(gate + 1)]
                with m.If(block_ends):
                    m.d.sync += [slot.eq(0), gate.eq(0)]

        wanted = self._count(m, beat, first=(gate == 0) & (line == 0))
        with m.If(read.by_batch):
            m.d.comb += by_batch_enable.eq(read.enable)
        with m.Else():
            m.d.comb += by_rows_enable.eq(read.enable)
        row_address = Cat(beat[: (sizes.vector_beats - 1).bit_length()], slot, block.bank)
        of_rows = self._by_rows(m, wanted, bit, row_address, by_rows_enable)
        of_batch = self._by_batch(m, wanted, gate, Cat(line, block.bank), by_batch_enable)
        by_batch, word = Signal(), Signal.like(read.word)
        with m.If(read.enable):
            m.d.sync += [by_batch.eq(read.by_batch), word.eq(read.word)]
        (batch_mask, any_of_batch), (rows_masks, any_of_rows) = of_batch, zip(*of_rows, strict=True)
        m.d.comb += [
            read.mask.eq(Mux(by_batch, batch_mask, Array(rows_masks)[word])),
            read.empty.eq(~Mux(by_batch, any_of_batch, Array(any_of_rows)[word])),
        ]
        return m

    def _count(self, m, beat, first):
        """Find the beat's words to be sent, and count them."""
        sizes, block = self._sizes, self.block
        lanes, asked, wanted = Signal(sizes.lanes), Signal(sizes.beat_words), Signal(sizes.beat_words)
        exponent = slice(self._format.mantissa, self._format.width - 1)
        before, added = Signal.like(self.read.nonzero), Signal(range(sizes.beat_words + 1))
        begins, none_before, counted, left_out = Signal(), Signal(), Signal.like(asked), Signal.like(asked)
        reached = [1, *(block.last_lane >= n for n in range(1, sizes.lanes))]  # Verilator refuses a test that all pass
        m.d.comb += lanes.eq(Cat((block.lane <= n) & reached[n] for n in range(sizes.lanes)))
        with m.If(self.write_enable):
            m.d.comb += asked.eq(lanes.word_select(beat, sizes.beat_words))
        m.d.comb += [
            wanted.eq(Cat(word[exponent].any() | self.send_zeros for word in self.write_data) & asked),
            added.eq(sum(wanted)),
            begins.eq(self.write_enable & first),
            self.read.nonzero.eq(Mux(begins, 0, before) + added),
            self.read.none.eq((begins | none_before) & ~wanted.any()),
            self.seen.eq(sum(counted)),
            self.skipped.eq(sum(left_out)),
        ]
        m.d.sync += [before.eq(self.read.nonzero), none_before.eq(self.read.none)]
        m.d.sync += [counted.eq(asked), left_out.eq(asked & ~wanted)]
        return wanted

    def _by_rows(self, m, wanted, bit, address, enable):
        """Add a bit to each lane's mask, one memory for each word of a beat; give each mask, and if it has a bit."""
        sizes, masks = self._sizes, []
        for n in range(sizes.beat_words):
            m.submodules[f"rows{n}"] = memory = Memory(shape=sizes.chunk + 1, depth=1 << len(address), init=[])
            write_port, read_port, old = memory.write_port(), memory.read_port(), memory.read_port(domain="comb")
            one = (wanted[n] << bit)[: sizes.chunk]
            m.d.comb += [
                old.addr.eq(address),
                write_port.addr.eq(address),
                write_port.data.eq(Mux(bit == 0, 0, old.data) | Cat(one, wanted[n])),
                write_port.en.eq(self.write_enable),
                read_port.addr.eq(self.read.rows_address),
                read_port.en.eq(enable),
            ]
            masks.append((read_port.data[:-1], read_port.data[-1]))
        return masks

    def _by_batch(self, m, wanted, gate, address, enable):
        """Write a gate's bits into a mask, the first gate zeros for the others; give a mask, and if it has a bit.

        Each gate has a bit more, which tells whether it has one.
        """
        words, wanted = len(wanted), Cat(wanted, wanted.any())
        shape = data.ArrayLayout(len(wanted), MOST_GATES)
        m.submodules.batch = memory = Memory(shape=shape, depth=1 << len(address), init=[])
        write_port, read_port = memory.write_port(granularity=1), memory.read_port()
        rest = Mux(gate == 0, 0, wanted)
        m.d.comb += [
            write_port.addr.eq(address),
            write_port.data.eq(Cat(wanted, rest, rest, rest)),
            write_port.en.eq(Mux(self.write_enable, Mux(gate == 0, (1 << MOST_GATES) - 1, 1 << gate), 0)),
            read_port.addr.eq(self.read.batch_address),
            read_port.en.eq(enable),
        ]
        gates = [read_port.data[gate] for gate in range(MOST_GATES)]
        return Cat(Cat(gate[n] for gate in gates) for n in range(words)), Cat(gate[words] for gate in gates).any()
