"""Log: streams one behind the other, each in whole bursts, then its index; nothing beyond the log's end."""

from amaranth.hdl import Array, Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import Scoreboard, Shadow, before, bench, offered, patient, payload, stream_in, stream_out
from tests.formal.prove import Change, Mutant, Proof, pdr

_BURST, _DEPTH = 2, 3
_BITS = 2  # of a position
_WORD = 4  # bits of a word; four words are an index, two bytes a beat
_STILL = 6  # cycles without movement


class _Streams:
    """The streams that enter: how many beats have come of the last one, and the totals of those that are complete."""

    def __init__(self, m, unit, taken, concluded):
        self.entered = Signal(_WORD)
        last = taken & unit.beats.p.last
        m.d.comb += Assume((self.entered != 1 << _BITS) | ~unit.beats.valid)
        totals = Shadow(
            m, 2, push=last, value=payload(self.entered + 1, unit.beats.p.kept), pop=concluded, name="totals"
        )
        self.complete, self.beats = totals.count != 0, totals.head[: _WORD + 1]
        self.kept = totals.head[_WORD + 1 :]
        with m.If(taken):
            m.d.sync += self.entered.eq(Mux(last, 0, self.entered + 1))


def _quiet(m, unit, moves, streams):
    """Assert that something moves soon, if everybody is ready."""
    still = Signal(range(_STILL + 2))
    eager = unit.transfers.ready & unit.data.ready & unit.i.valid & ~unit.hold & (unit.beats.valid | streams.complete)
    m.d.sync += still.eq(Mux(eager & ~moves & ~unit.violation, still + 1, 0))
    m.d.comb += Assert(still <= _STILL)


def log(load):
    """Keep positions and counts beside it.

    Bursts of 2 beats in place of 16: positions are compared with their multiples. Positions of 2 bits: a stream that
    passes the end of its log does so at every place. Beats are copied, so 2 bits of them may differ.
    """
    unit = load("etalstm_hw.dma.log").Log(_WORD, 4, _BITS + 2, _BITS, depth=_DEPTH)
    m = bench(unit)
    i, beats, transfers, out, transfer = unit.i, unit.beats, unit.transfers, unit.data, unit.transfers.p
    begins, taken = stream_in(m, i, name="i"), stream_in(m, beats, name="beats")
    stream_out(m, transfers, name="transfers")
    given, indexing = out.valid & out.ready, out.p.indexing & out.valid
    shown = Mux(indexing, out.p.index.as_value(), out.p.data[:2])  # who takes it chooses in this way
    patient(m, out.valid, out.ready, payload(shown, indexing), name="data")
    new = offered(m, transfers.valid, transfers.ready, name="transfers")
    concluded = given & indexing
    streams = _Streams(m, unit, taken, concluded)

    job, active, released = Signal(i.p.shape(), reset_less=True), Signal(), Signal()
    positions = Array(Signal(_BITS + 1, name=f"end{n}") for n in range(2))
    at, begin, posted = (Signal(_BITS + 1, name=name) for name in ("at", "begin", "posted"))
    owed, index_owed = Signal(range(_BURST + 1)), Signal()  # beats whose transfer has been offered
    burst = new & ~transfer.tag.final
    to_boundary = _BURST - at[0]
    length = Mux(streams.complete & (streams.beats - posted < to_boundary), streams.beats - posted, to_boundary)
    index_new = new & transfer.tag.final
    index_now = index_owed | index_new
    owed_now = owed + Mux(burst, transfer.beats, 0)
    violation = before(m, unit.violation, name="violation")
    words = {"start": begin, "elements": job.elements, "beats": posted, "kept": streams.kept, "address": job.address}
    check = 0
    for name, turn in load("etalstm_hw.contract").INDEX_CHECK.items():
        check = check ^ (words[name] << turn % _WORD) ^ (words[name][:_WORD] >> _WORD - turn % _WORD)
    m.d.comb += [
        Assume(~beats.valid | (beats.p.kept[2:] == 0)),
        Assert(i.ready == ~active),
        Assert(unit.busy == (active | transfers.valid)),
        Assert(~new | (active & released & (transfer.tag.kind == job.kind))),
        Assert(~burst | (transfer.address == (job.window + (at << 1))[: _BITS + 2])),
        Assert(~burst | ((transfer.beats == length) & (length != 0) & (at + length <= job.end))),
        Assert(~index_new | (streams.complete & (posted == streams.beats) & (transfer.beats == 1))),
        Assert(~index_new | (transfer.address == (job.window + (job.address << 1))[: _BITS + 2])),
        Assert(out.valid == ((owed_now != 0) | index_now)),
        Assert(~out.valid | (indexing == index_now)),
        Assert(~indexing | (owed_now == 0)),
        Assert(~indexing | ((out.p.index.start == begin) & (out.p.index.beats == posted))),
        Assert(~indexing | ((out.p.index.check == check[:_WORD]) & (out.p.index.kept == streams.kept))),
        Assert(~unit.violation | (active & ~transfers.valid & ~out.valid & (at + length > job.end))),
        Assert(~violation | unit.violation),
        Cover(concluded & (begin == 1) & (posted == 2) & job.log),
        Cover(unit.violation & (posted == 2)),
        Cover(~beats.ready),
    ]
    m.d.sync += [owed.eq(owed_now - (given & ~indexing)), index_owed.eq(index_now & ~concluded)]
    with m.If(active & ~unit.hold):
        m.d.sync += released.eq(1)
    with m.If(burst):
        m.d.sync += [at.eq(at + transfer.beats), posted.eq(posted + transfer.beats)]
    with m.If(index_new):
        m.d.sync += positions[job.log].eq(at)
    with m.If(concluded):
        m.d.sync += active.eq(0)
    with m.If(begins):
        first = Mux(i.p.first, i.p.start, positions[i.p.log])
        m.d.sync += [job.eq(i.p), active.eq(1), released.eq(0), posted.eq(0), at.eq(first), begin.eq(first)]
    Scoreboard(
        m, enters=taken, expected=beats.p.data[:2], leaves=given & ~indexing, actual=out.p.data[:2], capacity=_DEPTH
    )
    _quiet(m, unit, begins | taken | given | transfers.valid, streams)
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.dma.log", old, new, survives)


PROOFS = [
    Proof(
        name="Log",
        build=log,
        claim="streams in order, in bursts whose beats are there, each with its index; nothing beyond the log's end",
        method=pdr(),
        reach=24,
        small=(
            Change("etalstm_hw.axi.axi", "BURST_BEATS = 16", f"BURST_BEATS = {_BURST}"),
            Change(
                "etalstm_hw.dma.log",
                "import ADDRESS_BITS, KIND_BITS, LOG_BITS, STREAM_BITS, STREAM_INDEX",
                f"import KIND_BITS, LOG_BITS, STREAM_INDEX\n\nADDRESS_BITS = STREAM_BITS = {_BITS}",
            ),
        ),
        mutants=(
            _mutant("self.beats.ready.eq(beats.w_rdy & totals.w_rdy)", "self.beats.ready.eq(beats.w_rdy)"),
            _mutant("self.beats.ready.eq(beats.w_rdy & totals.w_rdy)", "self.beats.ready.eq(totals.w_rdy)"),
            _mutant("total.beats.eq(entered + 1)", "total.beats.eq(entered)"),
            _mutant("entered.eq(Mux(last, 0, entered + 1))", "entered.eq(entered + 1)"),
            _mutant("BURST_BEATS - position[", "BURST_BEATS - 0 * position["),
            _mutant("wanted & ~self.transfers.valid & (left == 0)", "wanted & (left == 0)"),
            _mutant("wanted & ~self.transfers.valid & (left == 0)", "wanted & ~self.transfers.valid"),
            _mutant("Mux(job.first, job.start, positions[job.log])", "positions[job.log]"),
            _mutant("with m.If(~self.hold):", "with m.If(1):"),
            _mutant("complete | (there >= to_boundary)", "complete | (there != 0)"),
            _mutant("complete & (there == 0)", "there == 0"),
            _mutant("inside = next_position <= job.end", "inside = next_position < job.end"),
            _mutant("wanted.eq(inside), self", "wanted.eq(1), self"),
            _mutant("positions[job.log].eq(position)", "positions[0].eq(position)"),
            _mutant("totals.r_en.eq(self.data.ready)", "totals.r_en.eq(1)"),
            _mutant("transfer.tag.final.eq(indexing)", "transfer.tag.final.eq(complete)"),
            _mutant("posted.eq(posted + burst)", "posted.eq(posted + 1)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
