"""The memories of a channel's lanes where products are integers."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, memory, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_hw.compute.memory import BeatMemory, ScratchMemory
from etalstm_hw.contract import LANE_ADDRESS_BITS, Memory
from etalstm_hw.contract.integers import WEIGHT_BITS
from etalstm_hw.integer.lane import lane_weights
from etalstm_hw.stream import LaneWrite, vector_layout


def reads_of_copies(streams: int) -> list[int]:
    """Give how many streams read each copy of the weights: two, the last one maybe alone."""
    return [min(2, streams - first) for first in range(0, streams, 2)]


class IntegerMemories(wiring.Component):
    """Weights and scratch words of all lanes of a channel; its sums are those of the engine of products.

    A row of weights is several vectors, which are written one by one and read all at once: of a lane's word in vector
    v byte n is its weight 4·v + n.

    Parameters
    ----------
    format : FloatFormat
        Of a word.
    lanes, beat_words, pes : int
        Words of a vector, and of a beat of ``load``; PEs of a lane.
    weight_depth, scratch_depth : int
        Vectors of each memory, powers of two.
    scratch_reads, scratch_banks : int
        See :class:`~etalstm_hw.compute.memory.ScratchMemory`.
    streams : int
        Read ports of the weights, which are there once for each two of these.
    weights : callable
        Makes the memory of one vector of a row for a number of read ports, see :func:`reads_of_copies`: a
        :class:`~etalstm_hw.compute.memory.BeatMemory`.

    Members
    -------
    weights0, weights1 … : :py:`Out(memory.ReadPort.Signature(...))`
        Read ports of rows: weights of all lanes.
    free : :py:`Out(streams)`
        Which of them may be enabled. In a cycle in which weights are written, one of two that share a copy may not;
        they take turns.
    scratch0, scratch1, scratch : :py:`Out(...)`
        See :class:`~etalstm_hw.compute.memory.ScratchMemory`.
    load : :py:`In(stream.Signature(LaneWrite(format, lanes, beat_words)))`
        Weights, which are written a cycle later. A write to another memory or beyond the end is taken and dropped.
    no_memory, no_address : :py:`Out(1)`
        A write of ``load`` was dropped in this cycle, because of what it names.
    """

    def __init__(
        self, format, lanes, beat_words, pes, *, weight_depth, scratch_depth, scratch_reads, scratch_banks, weights,
        streams=1,
    ):  # fmt: skip
        vector, self._lanes, self._pes = vector_layout(format, lanes), lanes, pes
        self._depth, self._of_row = weight_depth, 2 * pes * WEIGHT_BITS // format.width
        rows = weight_depth // self._of_row
        self._reads = reads_of_copies(streams)
        self._copies = [[weights(reads) for _ in range(self._of_row)] for reads in self._reads]
        self._scratch = ScratchMemory(vector, scratch_depth, scratch_reads, scratch_banks)
        read = memory.ReadPort.Signature(
            addr_width=(rows - 1).bit_length(), shape=data.ArrayLayout(lane_weights(pes), lanes)
        )
        super().__init__(
            dict(self._scratch.signature.members)
            | {
                **{f"weights{n}": Out(read) for n in range(streams)},
                "free": Out(streams),
                "load": In(stream.Signature(LaneWrite(format, lanes, beat_words))),
                "no_memory": Out(1),
                "no_address": Out(1),
            }
        )

    def elaborate(self, platform):
        """A memory for each vector of a row, in each copy."""
        m = Module()
        m.submodules.scratch = self._scratch
        for name in self._scratch.signature.members:
            connect(m, flipped(getattr(self, name)), getattr(self._scratch, name))
        load, given, inside = self.load, self.load.p, (self._of_row - 1).bit_length()
        beyond = given.address >= self._depth if self._depth < 1 << LANE_ADDRESS_BITS else Const(0)
        named = load.valid & (given.memory == Memory.WEIGHTS)
        m.d.comb += [
            load.ready.eq(1),
            self.no_memory.eq(load.valid & ~named),
            self.no_address.eq(named & beyond),
        ]
        # Which products stand still for a write is known late, so it takes place a cycle after it was taken.
        request, to_weights = Signal(given.shape(), reset_less=True), Signal()
        m.d.sync += [request.eq(given), to_weights.eq(named & ~beyond)]
        side, taken = Signal(init=1), Signal(2)
        m.d.sync += side.eq(side ^ to_weights)
        m.d.comb += taken.eq(Cat(to_weights & ~side, to_weights & side))
        for number, (reads, pieces) in enumerate(zip(self._reads, self._copies, strict=True)):
            for n in range(reads):
                m.d.comb += self.free[2 * number + n].eq(~taken[n] if reads == 2 else 1)
            for n, piece in enumerate(pieces):
                m.submodules[f"weights{number}_{n}"] = piece
                mine = to_weights & (request.address[:inside] == n)
                m.d.comb += [
                    piece.write.addr.eq(request.address[inside:]),
                    piece.write.data.eq(request.data),
                    piece.write.en.eq(request.enable & mine.replicate(len(request.enable))),
                    *([piece.taken.eq(taken)] if reads == 2 else []),
                ]
            for n, port in enumerate(BeatMemory.READS[:reads]):
                self._read(m, 2 * number + n, [getattr(piece, port) for piece in pieces])
        return m

    def _read(self, m, stream, ports):
        """Give a stream rows by the ports of a copy's pieces."""
        mine = getattr(self, f"weights{stream}")
        m.d.comb += [read.addr.eq(mine.addr) for read in ports] + [read.en.eq(mine.en) for read in ports]
        m.d.comb += mine.data.eq(Cat(Cat(read.data[lane] for read in ports) for lane in range(self._lanes)))
