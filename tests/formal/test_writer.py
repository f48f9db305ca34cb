"""Writer: legal bursts at the right addresses, every burst gets its beats, and done means done."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import (
    Scoreboard,
    Shadow,
    before,
    bench,
    offered,
    patient,
    payload,
    stream_in,
    walk,
)
from tests.formal.prove import Change, Mutant, Proof, pdr

_ADDRESS_BITS, _BEATS_BITS, _BEATS, _OUTSTANDING, _AHEAD = 3, 2, 2, 3, 2


def writer(load):
    """Follow addresses, beats and responses, under any memory that answers in order, and aborts.

    Bursts of 2 beats of 1 byte, three of them outstanding and two ahead of their data: both limits are reached.
    """
    unit = load("etalstm_hw.axi.writer").Writer(_ADDRESS_BITS, 8, _BEATS_BITS, outstanding=_OUTSTANDING, ahead=_AHEAD)
    m = bench(unit)
    i, axi, drain = unit.i, unit.axi, unit.drain
    taken, given = stream_in(m, i, name="i"), stream_in(m, unit.data, name="data")
    patient(m, axi.awvalid, axi.awready, payload(axi.awaddr, axi.awlen), name="aw")
    patient(m, axi.wvalid, axi.wready, payload(axi.wdata, axi.wstrb, axi.wlast), name="w")
    m.d.comb += Assume(~i.valid | (i.p.beats != 0))
    m.d.comb += Assume(~before(m, drain & unit.busy, name="draining") | drain)

    # Addresses: those of the transfers, in order.
    beats, goes, out = axi.awlen + 1, axi.awvalid & axi.awready, axi.wvalid & axi.wready
    of = {"push": taken, "beats": i.p.beats, "rest": payload(i.p.address, i.p.tag), "clear": drain}
    at, wanted, rest, inside = walk(m, 3, step=goes & ~drain, count=beats, name="aw", **of)
    final = rest[-1] & (at + beats == wanted)

    # Data: each burst's beats, not before its address is offered.
    new, written = offered(m, axi.awvalid, axi.awready, name="aw"), Signal(2)
    ends = out & axi.wlast
    lengths = Shadow(m, _AHEAD + 1, push=new, value=axi.awlen, pop=ends, name="lengths")
    first = lengths.count == 0  # the address is offered in this very cycle
    length = Mux(first, axi.awlen, lengths.head)
    with m.If(out):
        m.d.sync += written.eq(Mux(axi.wlast, 0, written + 1))
    Scoreboard(
        m,
        enters=given,
        expected=unit.data.payload,
        leaves=out & axi.wstrb[0],
        actual=axi.wdata,
        capacity=1,
        name="data",
    )

    # Responses: of bursts whose address and data the memory has.
    accepted, written, error = Signal(3), Signal(3), Signal()
    finals = Shadow(m, _OUTSTANDING, push=goes, value=final, pop=axi.bvalid, name="finals")
    m.d.comb += Assume(~axi.bvalid | ((accepted != 0) & (written != 0)))
    m.d.sync += [accepted.eq(accepted + goes - axi.bvalid), written.eq(written + ends - axi.bvalid)]
    m.d.sync += error.eq(error | (axi.bvalid & axi.bresp[1]))
    was_drained = Signal()  # the shadows of transfers know nothing of what began before
    m.d.sync += was_drained.eq(drain | (was_drained & unit.busy))
    ending = Signal(range(8))  # cycles in which the memory takes what a drain leaves
    m.d.sync += ending.eq(Mux(drain & axi.awready & axi.wready & (lengths.count != 0), ending + 1, 0))
    done = before(m, axi.bvalid & finals.head & ~axi.bresp[1] & ~error & ~drain, name="done")
    m.d.comb += [
        Assert(~axi.awvalid | drain | was_drained | (axi.awaddr == (rest + at)[:_ADDRESS_BITS])),
        Assert(~axi.awvalid | drain | was_drained | (at + beats <= wanted)),
        Assert(~axi.awvalid | (axi.awaddr[:1] + beats <= _BEATS)),
        Assert((axi.awburst == 1) & (axi.awsize == 0)),
        Assert(~axi.wvalid | ~first),
        Assert(~axi.wvalid | (axi.wlast == (written == length))),
        Assert(~(given & drain)),
        Assert(~(new & before(m, drain, name="before_drain"))),
        Assert(ending < 7),
        Assert(drain | was_drained | unit.busy | (inside.count == 0)),
        Assert(axi.bready),
        Assert(unit.beats == given),
        Assert(was_drained | before(m, was_drained, name="late") | (unit.done == done)),
        Assert(~(unit.done & error)),
        Assert(unit.busy | ((accepted == 0) & ~axi.awvalid & ~axi.wvalid & (lengths.count == 0))),
        Assert(unit.error == error),
        Cover(unit.done & before(m, finals.count == _OUTSTANDING, name="full")),
        Cover(drain & out & ~axi.wstrb[0] & axi.wlast & (length == 1)),
        Cover(was_drained & ~drain & ~unit.busy),
        Cover((lengths.count == _AHEAD + 1) & axi.wvalid),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.axi.writer", old, new, survives)


PROOFS = [
    Proof(
        name="Writer",
        build=writer,
        claim="offers stand, bursts fit the transfers and get all their beats, done follows the last response",
        method=pdr(),
        reach=16,
        small=(
            Change("etalstm_hw.axi.axi", "BURST_BEATS = 16", f"BURST_BEATS = {_BEATS}"),
            Change("etalstm_hw.axi.axi", "BOUNDARY_BYTES = 4096", f"BOUNDARY_BYTES = {_BEATS}"),
        ),
        mutants=(
            _mutant("commitments.w_rdy & finals.w_rdy", "finals.w_rdy"),
            _mutant("commitments.w_rdy & finals.w_rdy", "commitments.w_rdy"),
            _mutant("(~axi.awvalid | axi.awready) & ~self.drain", "~self.drain"),
            _mutant("(~axi.awvalid | axi.awready) & ~self.drain", "(~axi.awvalid | axi.awready)"),
            _mutant("burst.last & burst.tag.final", "burst.last"),
            _mutant("burst.last & burst.tag.final", "burst.tag.final"),
            _mutant("room.eq(commitments.r_rdy & (~axi.wvalid | axi.wready))", "room.eq(commitments.r_rdy)"),
            _mutant("room.eq(commitments.r_rdy & (~axi.wvalid | axi.wready))", "room.eq(~axi.wvalid | axi.wready)"),
            _mutant("room & (self.data.valid | self.drain)", "room & self.data.valid"),
            _mutant("self.data.ready.eq(room & ~self.drain)", "self.data.ready.eq(room)"),
            _mutant("commitments.r_en.eq(load & last)", "commitments.r_en.eq(load)"),
            _mutant("strobe.eq(~self.drain)", "strobe.eq(1)"),
            _mutant("axi.wlast.eq(last)", "axi.wlast.eq(1)"),
            _mutant("Mux(last, 0, written + 1)", "written + 1"),
            _mutant("~axi.bresp[1] & ~self.error", "~axi.bresp[1]"),
            _mutant("bursts.o.valid | finals.r_rdy", "finals.r_rdy"),
            _mutant("bursts.o.valid | finals.r_rdy", "bursts.o.valid | commitments.r_rdy"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
