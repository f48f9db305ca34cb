"""Reader: legal bursts at the right addresses, data in order, and nothing in flight when it says so."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import (
    Scoreboard,
    answers_reads,
    before,
    bench,
    offered,
    patient,
    payload,
    stream_in,
    walk,
)
from tests.formal.prove import Change, Mutant, Proof, pdr

_ADDRESS_BITS, _BEATS_BITS, _BEATS, _DEPTH, _OUTSTANDING = 3, 2, 2, 3, 2


def reader(load):
    """Follow the addresses and the beats of transfers, under any memory that answers in order, and aborts.

    Bursts of 2 beats of 1 byte and a FIFO of 3: room for a burst and a half, so that
    credits run out and come back. Two bursts in flight: fewer than fit the FIFO, so that this limit is reached too.
    """
    unit = load("etalstm_hw.axi.reader").Reader(_ADDRESS_BITS, 8, _BEATS_BITS, depth=_DEPTH, outstanding=_OUTSTANDING)
    m = bench(unit)
    i, o, axi, drain = unit.i, unit.o, unit.axi, unit.drain
    taken, given = stream_in(m, i, name="i"), o.valid & o.ready
    patient(m, axi.arvalid, axi.arready, payload(axi.araddr, axi.arlen), name="ar")
    asked = answers_reads(m, axi, _OUTSTANDING)
    arrives, error, drained = axi.rvalid & axi.rready, Signal(), Signal()
    m.d.sync += drained.eq(drained | (drain & unit.busy))
    m.d.comb += Assume(~i.valid | (i.p.beats != 0))
    m.d.comb += Assume(~before(m, drain & unit.busy, name="draining") | drain)  # until what is in flight has come
    m.d.sync += error.eq(error | (arrives & axi.rresp[1]))

    new, idle = offered(m, axi.arvalid, axi.arready, name="ar_new"), (asked.count == 0) & ~axi.arvalid
    emptying = Signal(range(_DEPTH + 4))  # cycles since nothing was to come any more
    m.d.sync += emptying.eq(Mux(drain & idle & unit.busy, emptying + 1, 0))
    beats, goes = axi.arlen + 1, axi.arvalid & axi.arready & ~drain
    of = {"push": taken, "beats": i.p.beats, "rest": i.p.address, "clear": drain}
    at, wanted, address, _ = walk(m, 3, step=goes, count=beats, name="ar", **of)
    done, length, _, inside = walk(m, _DEPTH + 2, step=given, count=1, name="o", **of)
    Scoreboard(
        m,
        enters=arrives & ~drain,
        expected=payload(axi.rdata, axi.rresp[1]),
        leaves=given,
        actual=payload(o.p.data, o.p.error),
        capacity=_DEPTH,
        clear=drain,
    )
    m.d.comb += [
        Assert(~axi.arvalid | drain | (axi.araddr == (address + at)[:_ADDRESS_BITS])),
        Assert(~axi.arvalid | drain | (at + beats <= wanted)),
        Assert(~axi.arvalid | (axi.araddr[:1] + beats <= _BEATS)),
        Assert((axi.arburst == 1) & (axi.arsize == 0)),
        Assert((asked.count == 0) | axi.rready),
        Assert(~given | (o.p.last == (done + 1 == length))),
        Assert(~(o.valid & drain)),
        Assert(~(new & before(m, drain, name="before_drain"))),
        Assert(emptying <= _DEPTH + 2),
        Assert(unit.busy | ((asked.count == 0) & ~axi.arvalid)),
        Assert(drain | (unit.busy == (inside.count != 0))),
        Assert(unit.error == error),
        Cover(given & o.p.last & (length == 3) & (asked.count == 1)),
        Cover((asked.count == 1) & axi.arvalid & (axi.arlen == 0)),
        Cover(drained & ~drain & given),
        Cover(drain & (asked.count == 1) & arrives),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.axi.reader", old, new, survives)


PROOFS = [
    Proof(
        name="Reader",
        build=reader,
        claim="addresses wait and fit the transfers, room for all that is asked, beats in order, idle means idle",
        method=pdr(),
        reach=16,
        small=(
            Change("etalstm_hw.axi.axi", "BURST_BEATS = 16", f"BURST_BEATS = {_BEATS}"),
            Change("etalstm_hw.axi.axi", "BOUNDARY_BYTES = 4096", f"BOUNDARY_BYTES = {_BEATS}"),
        ),
        mutants=(
            _mutant("(free > burst.length)", "(free != 0)"),
            _mutant("(~axi.arvalid | axi.arready) & ~self.drain", "~self.drain"),
            _mutant("(~axi.arvalid | axi.arready) & ~self.drain", "(~axi.arvalid | axi.arready)"),
            _mutant("ends.w_rdy & (free", "(free"),
            _mutant("ends.w_data.eq(burst.last)", "ends.w_data.eq(1)"),
            _mutant("burst.length + 1, 0) + popped", "burst.length + 1, 0) + self.o.ready"),
            _mutant("popped.eq(fifo.r_rdy & fifo.r_en)", "popped.eq(fifo.r_rdy & self.o.ready)"),
            _mutant("arrived.error.eq(axi.rresp[1])", "arrived.error.eq(axi.rresp[0])"),
            _mutant("arrived.last.eq(axi.rlast & ends.r_data)", "arrived.last.eq(ends.r_data)"),
            _mutant("axi.rready & axi.rlast),", "axi.rready),"),
            _mutant("fifo.r_rdy & ~self.drain", "fifo.r_rdy"),
            _mutant("self.o.ready | self.drain", "self.o.ready"),
            _mutant("bursts.o.valid | (free != self._depth)", "free != self._depth"),
            _mutant("bursts.o.valid | (free != self._depth)", "bursts.o.valid | fifo.r_rdy"),
            _mutant("with m.Elif(axi.arready):", "with m.Else():"),
            _mutant("axi.rvalid & axi.rready & axi.rresp[1]", "axi.rvalid & axi.rresp[1] & axi.rlast"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
