"""VectorReader: the wanted beats of every vector of a loop, in order, whatever stalls."""

from amaranth.asserts import AnySeq
from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import Scoreboard, before, bench, bits, payload, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_LANES, _BEAT_WORDS, _DEPTH = 4, 2, 4


def vector_reader(load):
    """Follow one beat: any of any vector. The addresses are proved with LaneWalker; here reads are counted.

    Words of 6 bits, the fewest that a format has; two beats to a vector and a FIFO of 4, so that credits for a whole
    vector run out. Counts of 2 bits: loops end.
    """
    stream, contract = load("etalstm_hw.stream"), load("etalstm_hw.contract")
    unit = load("etalstm_hw.dma.vectors").VectorReader(contract.FloatFormat(3, 2), _LANES, _BEAT_WORDS, depth=_DEPTH)
    m = bench(unit)
    i, o, read = unit.i, unit.o, unit.read
    taken, given = stream_in(m, i, name="i"), stream_out(m, o, name="o")
    reads = stream_out(m, read, name="read")
    request, active = Signal(i.p.shape(), reset_less=True), Signal()
    outer, inner = Signal(4), Signal(4)
    ends_inner, ends = inner + 1 == request.pattern.inner, Signal()
    span = (request.lanes + _BEAT_WORDS - 1) >> 1
    m.d.comb += [
        Assume((i.p.lanes != 0) & (i.p.lanes <= _LANES) & (i.p.pattern.outer != 0) & (i.p.pattern.inner != 0)),
        ends.eq(ends_inner & (outer + 1 == request.pattern.outer)),
        Assert(~read.valid | (active & (read.p.memory == request.memory))),
        Assert(stream.LANE_OFFSET_BITS > 0),
        Assert(i.ready == ~active),
        Cover(given & o.p.last & (o.p.lanes == 3)),
        Cover(before(m, reads & ends, name="ended") & taken),
        Cover(~o.ready & o.valid & active & ~read.valid),
    ]
    with m.If(reads):
        m.d.sync += [inner.eq(Mux(ends_inner, 0, inner + 1)), outer.eq(outer + ends_inner), active.eq(~ends)]
    with m.If(taken):
        m.d.sync += [request.eq(i.p), inner.eq(0), outer.eq(0), active.eq(1)]

    # A cycle after its request the vector is there: as many of its beats enter as are wanted.
    arrives, wanted = before(m, reads, name="arrives"), Signal(2)
    last = before(m, Mux(request.route.transpose, ends_inner, ends), name="last")
    tag = before(m, payload(request.lanes, request.route), name="tag")
    m.d.sync += wanted.eq(span)
    offset = Signal(2)
    m.d.comb += [offset.eq(AnySeq(2)), Assume(~arrives | (offset < wanted))]
    width = _BEAT_WORDS * 6
    board = Scoreboard(
        m,
        enters=arrives,
        amount=wanted,
        offset=offset,
        expected=payload(bits(unit.vector).word_select(offset[0], width), tag, last & (offset + 1 == wanted)),
        leaves=given,
        actual=payload(o.p.data, o.p.lanes, o.p.route, o.p.last),
        capacity=_DEPTH,
    )
    idle = Signal(3)  # with room for a vector and an eager memory a read does not wait
    m.d.sync += idle.eq(Mux(active & (board.inside == 0) & ~arrives & ~read.valid, idle + 1, 0))
    m.d.comb += Assert(idle <= 2)
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.dma.vectors", old, new, survives)


PROOFS = [
    Proof(
        name="VectorReader",
        build=vector_reader,
        claim="as many vectors as the loop has are read; their wanted beats come out in order",
        method=pdr(),
        reach=14,
        small=(
            Change(
                "etalstm_hw.dma.walker",
                "from etalstm_hw.contract import COUNT_BITS, LANE_ADDRESS_BITS",
                "from etalstm_hw.contract import LANE_ADDRESS_BITS\n\nCOUNT_BITS = 2",
            ),
        ),
        mutants=(
            _mutant("self.i.ready.eq(~active)", "self.i.ready.eq(~active | walker.ends)"),
            _mutant("active & (free >= span) & ~left[1:].any()", "active & (free != 0) & ~left[1:].any()"),
            _mutant("active & (free >= span) & ~left[1:].any()", "active & (free >= span)"),
            _mutant("walker.step.eq(taken)", "walker.step.eq(self.read.valid)"),
            _mutant("self.i.p.lanes + self._beat_words - 1", "self.i.p.lanes + self._beat_words"),
            _mutant("with m.Elif(taken & walker.ends):", "with m.Elif(taken & walker.ends_inner):"),
            _mutant("leaves = fifo.r_rdy & fifo.r_en", "leaves = fifo.r_en"),
            _mutant("Mux(taken, free - span + leaves, free + leaves)", "free + leaves"),
            _mutant("left.eq(left - 1)", "left.eq(0)"),
            _mutant("route.transpose, walker.ends_inner, walker.ends", "route.transpose, walker.ends, walker.ends"),
            _mutant("arriving.eq(taken)", "arriving.eq(self.read.valid)", "then nothing enters the FIFO"),
            _mutant("tag.last & (left == 1)", "tag.last"),
            _mutant("following = Mux(arriving, words, rest)", "following = rest"),
            _mutant("fifo.w_en.eq(left != 0)", "fifo.w_en.eq(arriving)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
