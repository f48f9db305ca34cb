"""Isolator: whatever the manager does while it is stopped, the memory sees whole transactions only."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import (
    Scoreboard,
    Shadow,
    answers_reads,
    before,
    bench,
    offered,
    patient,
    payload,
)
from tests.formal.prove import Change, Mutant, Proof, pdr

_AHEAD, _LENGTH_BITS = 2, 1


def isolator(load):
    """Let the manager do anything while stopped: it may be reset. Otherwise it keeps to AXI, and so does the memory.

    Counts of 2 bits for up to 3 bursts in flight, 2 writes ahead, bursts of 2 beats: all limits are reached.
    """
    unit = load("etalstm_boards.isolate").Isolator(load("etalstm_hw.axi.axi").AXI4(2, 8))
    m = bench(unit)
    port, manager, stop = unit.port, unit.manager, unit.stop
    m.d.comb += Assume(~before(m, stop & ~unit.quiet, name="stopping") | stop)
    for bus in (port, manager):
        m.d.comb += Assume((bus.arlen < 2) & (bus.awlen < 2)) if bus is manager else Assert(bus.awlen < 2)
    for channel in ("ar", "aw"):
        sides = [(getattr(bus, f"{channel}valid"), getattr(bus, f"{channel}ready")) for bus in (manager, port)]
        (valid, ready), (out_valid, out_ready) = sides
        patient(m, out_valid, out_ready, _address(port, channel), name=channel)
        m.d.comb += Assert(~(ready & stop))
        Scoreboard(
            m,
            enters=valid & ready,
            expected=_address(manager, channel),
            leaves=out_valid & out_ready,
            actual=_address(port, channel),
            capacity=1,
            name=f"{channel}_board",
        )
    patient(m, port.wvalid, port.wready, _data(port), name="w")
    reads = answers_reads(m, port, 3)

    # Write data: each burst's beats, made up while stopped, not before its address is offered.
    out, enters = port.wvalid & port.wready, manager.wvalid & manager.wready
    begins, sent, place = manager.awvalid & manager.awready, Signal(2), Signal(2)
    lengths = Shadow(m, 4, push=begins, value=manager.awlen[:1], pop=out & port.wlast, name="lengths")
    promised = Shadow(
        m, 4, push=begins, value=manager.awlen[:1], pop=enters & manager.wlast, clear=unit.quiet, name="promised"
    )
    m.d.comb += Assume(~manager.wvalid | stop | (manager.wlast == (place == promised.head)))
    with m.If(enters):
        m.d.sync += place.eq(Mux(manager.wlast, 0, place + 1))
    with m.If(unit.quiet):
        m.d.sync += place.eq(0)
    with m.If(out):
        m.d.sync += sent.eq(Mux(port.wlast, 0, sent + 1))
    Scoreboard(
        m,
        enters=enters,
        expected=_data(manager),
        leaves=out,
        actual=_data(port),
        capacity=1,
        clear=stop,
        name="w_board",
    )
    new_beat = offered(m, port.wvalid, port.wready, name="w_new")
    addressed, written = Signal(3), Signal(3)  # by the memory, and not answered
    answered, goes = port.bvalid & port.bready, port.awvalid & port.awready
    m.d.sync += [addressed.eq(addressed + goes - answered), written.eq(written + (out & port.wlast) - answered)]
    under_way = addressed + port.awvalid
    ended = before(m, answered | (port.rvalid & port.rready & port.rlast), name="ended")  # is counted a cycle later
    m.d.comb += [
        Assume(~port.bvalid | ((addressed != 0) & (written != 0))),
        Assume(~begins | (under_way < 3)),
        Assume(~(manager.arvalid & manager.arready) | (reads.count + port.arvalid < 3)),
        Assert(~port.wvalid | (lengths.count != 0)),
        Assert(~port.wvalid | (port.wlast == (sent == lengths.head))),
        Assert(~unit.quiet | stop),
        Assert(~(new_beat & before(m, stop, name="made_up")) | (port.wstrb == 0)),
        Assert(~unit.quiet | ((under_way == 0) & (reads.count == 0) & ~port.arvalid & ~port.wvalid)),
        Assert(~stop | unit.quiet | (under_way != 0) | (reads.count != 0) | port.arvalid | ended),
        Assert(~stop | (port.rready & port.bready & ~manager.rvalid & ~manager.bvalid)),
        Assert(stop | ((manager.rvalid == port.rvalid) & (port.rready == manager.rready))),
        Assert(stop | ((manager.bvalid == port.bvalid) & (port.bready == manager.bready))),
        Assert(payload(manager.rdata, manager.rresp, manager.rlast) == payload(port.rdata, port.rresp, port.rlast)),
        Cover(stop & out & port.wlast & (lengths.head == 1) & (lengths.count == 2)),
        Cover(unit.quiet & before(m, ended, name="counted")),
        Cover(~stop & out & enters & before(m, out, name="out")),
        Cover((reads.count == 3) & stop),
    ]
    return m


def _address(bus, channel):
    return payload(*(getattr(bus, channel + name) for name in ("addr", "len", "size", "burst")))


def _data(bus):
    return payload(bus.wdata, bus.wstrb, bus.wlast)


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.isolate", old, new, survives)


PROOFS = [
    Proof(
        name="Isolator",
        build=isolator,
        claim="whatever a stopped manager does, offers stand and bursts get all their beats; quiet is quiet",
        method=pdr(),
        reach=14,
        small=(
            Change("etalstm_boards.isolate", "COUNT_BITS = 10", "COUNT_BITS = 2"),
            Change("etalstm_boards.isolate", "AHEAD = 32", f"AHEAD = {_AHEAD}"),
        ),
        mutants=(
            _mutant('"ar", ~self.stop)', '"ar", 1)'),
            _mutant('"aw", ~self.stop & lengths.w_rdy)', '"aw", ~self.stop)'),
            _mutant('"aw", ~self.stop & lengths.w_rdy)', '"aw", lengths.w_rdy)'),
            _mutant("self.manager.awlen), lengths.w_en", "self.manager.awlen + 1), lengths.w_en"),
            _mutant("port.rvalid & port.rready & port.rlast)", "port.rvalid & port.rready)"),
            _mutant("self.quiet.eq(self.stop & quiet)", "self.quiet.eq(quiet)"),
            _mutant("quiet &= self._answers", "self._answers"),
            _mutant("go & (~getattr(port, valid) | getattr(port, ready))", "go"),
            _mutant("count.eq(count + begun - ended)", "count.eq(count + begun)"),
            _mutant("(count == 0) & ~begun", "count == 0"),
            _mutant("getattr(manager, ready) | self.stop", "getattr(manager, ready)"),
            _mutant("getattr(port, valid) & ~self.stop", "getattr(port, valid)"),
            _mutant('"w", ~self.stop & length.valid)', '"w", ~self.stop)'),
            _mutant('"w", ~self.stop & length.valid)', '"w", length.valid)'),
            _mutant("self.stop & length.valid & (~port.wvalid | port.wready)", "self.stop & length.valid"),
            _mutant("Mux(middle, left, length.p) == 0", "length.p == 0"),
            _mutant("port.wlast.eq(last)", "port.wlast.eq(1)"),
            _mutant("length.ready.eq(beat & last)", "length.ready.eq(beat)"),
            _mutant("port.wstrb.eq(0), ", ""),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
