"""ResetSequencer and Gate: a port is stopped before what lies behind it is reset, and nothing waits for ever."""

from amaranth.hdl import Assert, Cover, Mux, Signal

from tests.formal.harness import after_reset, before, bench
from tests.formal.prove import Change, Mutant, Proof, pdr

_HOLD, _STOP, _DRAIN = 6, 3, 9
_SMALL = (
    Change("etalstm_boards.reset", "HOLD_CYCLES = 64", f"HOLD_CYCLES = {_HOLD}"),
    Change("etalstm_boards.reset", "STOP_CYCLES = 16", f"STOP_CYCLES = {_STOP}"),
    Change("etalstm_boards.reset", "DRAIN_CYCLES = 1 << 14", f"DRAIN_CYCLES = {_DRAIN}"),
)

_CALL = "                with m.If(~ready | self.request):\n                    m.d.sync += self.stop"


def _since(m, level, most, *, name):
    """Count the cycles for which a level has held, up to ``most``."""
    count = Signal(range(most + 1), name=name)
    m.d.sync += count.eq(Mux(level, Mux(count == most, most, count + 1), 0))
    return count


def reset_sequencer(load):
    """Count cycles beside it; 6, 3 and 9 of them in place of 64, 16 and 16384, in the same order."""
    unit = load("etalstm_boards.reset").ResetSequencer()
    m = bench(unit)
    started, tripped = after_reset(m), Signal()
    ready = unit.locked & unit.calibrated & ~unit.trip & ~tripped
    calls = ~ready | unit.request
    with m.If(unit.trip):
        m.d.sync += tripped.eq(1)
    stopped = _since(m, unit.stop, _HOLD + _DRAIN + 3, name="stopped")  # cycles before this one
    held = _since(m, unit.hold, _HOLD + 3, name="held")
    good = _since(m, ~calls & unit.hold, _HOLD + 3, name="good")
    draining = _since(m, unit.stop & ~unit.hold, _DRAIN + 3, name="draining")
    draining_quiet = unit.stop & ~unit.hold & unit.quiet & (draining >= _STOP)
    hold, stop = before(m, unit.hold, name="hold"), before(m, unit.stop, name="stop")
    rises = started & unit.hold & ~hold
    falls = started & ~unit.hold & hold
    m.d.comb += [
        Assert(started | (unit.hold & unit.stop)),
        Assert(unit.tripped == tripped),
        Assert(~unit.hold | unit.stop),
        Assert(~rises | (stopped > _STOP)),  # every port has seen the stop
        Assert(~rises | ~before(m, ready & ~unit.quiet, name="waits") | (draining > _DRAIN)),
        Assert(draining <= _DRAIN + 1),
        Assert(~before(m, draining_quiet, name="quiet") | unit.hold),
        Assert(~falls | (good > _HOLD)),
        Assert(good <= _HOLD + 1),
        Assert(~(started & ~unit.stop & stop) | falls),
        Assert(~before(m, ~unit.stop & calls & started, name="called") | unit.stop),
        Assert(~before(m, ~unit.stop & ~calls & started, name="calm") | ~unit.stop),
        Cover(rises & (draining == _STOP + 2)),
        Cover(rises & (draining == _DRAIN + 1)),
        Cover(falls & (held > _HOLD + 2)),
        Cover(rises & tripped),
    ]
    return m


def gate(load):
    """Count cycles beside it; 6 and 3 of them in place of 64 and 16."""
    unit = load("etalstm_boards.reset").Gate()
    m = bench(unit)
    started = after_reset(m)
    stopped = _since(m, unit.stop, _HOLD + 4, name="stopped")
    held = _since(m, unit.hold, _HOLD + 4, name="held")
    stopping = _since(m, unit.stop & ~unit.hold, _STOP + 3, name="stopping")
    hold, up = before(m, unit.hold, name="hold"), before(m, unit.up, name="up")
    open_before = before(m, ~unit.stop, name="open")
    m.d.comb += [
        Assert(started | (unit.hold & unit.stop)),
        Assert(~unit.hold | unit.stop),
        Assert(~(started & unit.hold & ~hold) | (stopped > _STOP)),
        Assert(stopping <= _STOP + 1),
        Assert(~(started & ~unit.hold & hold) | ((held > _HOLD) & up & ~unit.stop)),
        Assert(~(started & unit.hold & up) | (held <= _HOLD + 1) | (held == _HOLD + 4)),
        Assert(~(started & open_before) | (unit.stop == ~up)),
        Assert(~(unit.hold & hold & up & (held > _HOLD + 1))),
        Cover(~unit.stop & up & (held == 0)),
        Cover(unit.hold & started & (stopped == _STOP + 2)),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.reset", old, new, survives)


PROOFS = [
    Proof(
        name="ResetSequencer",
        build=reset_sequencer,
        claim="hold rises only after stop has reached every port and all is quiet or the drain took too long; both end",
        method=pdr(),
        reach=40,
        quick=True,
        small=_SMALL,
        mutants=(
            _mutant("~self.trip & ~self.tripped)", "~self.trip)"),
            _mutant("self.locked & self.calibrated", "self.locked"),
            _mutant("with m.Elif(count == HOLD_CYCLES):", "with m.Elif(count == STOP_CYCLES):"),
            _mutant(
                'm.d.sync += [self.hold.eq(0), self.stop.eq(0)]\n                    m.next = "running"',
                'm.d.sync += [self.hold.eq(0)]\n                    m.next = "running"',
            ),
            _mutant("(count >= STOP_CYCLES) & (~ready", "(~ready"),
            _mutant("(count >= STOP_CYCLES) & (~ready", "(count >= STOP_CYCLES - 1) & (~ready"),
            _mutant("~ready | self.quiet | (count", "~ready | (count"),
            _mutant("| (count == DRAIN_CYCLES)", ""),
            _mutant(
                f"m.d.sync += count.eq(0)\n{_CALL}",
                f"m.d.sync += count.eq(count)\n{_CALL}",
            ),
            _mutant(
                "with m.If(~ready | self.request):\n                    m.d.sync += self.stop",
                "with m.If(~ready):\n                    m.d.sync += self.stop",
            ),
            _mutant(
                '"stop": Out(1, init=1),\n                "hold": Out(1, init=1),\n                "tripped"',
                '"stop": Out(1),\n                "hold": Out(1, init=1),\n                "tripped"',
            ),
        ),
    ),
    Proof(
        name="Gate",
        build=gate,
        claim="hold rises only after stop has reached the port, both last long enough, fall together, and do fall",
        method=pdr(),
        reach=30,
        quick=True,
        small=_SMALL,
        mutants=(
            _mutant("with m.If(self.up & (count == HOLD_CYCLES)):", "with m.If(self.up):"),
            _mutant("with m.If(self.up & (count == HOLD_CYCLES)):", "with m.If(count == HOLD_CYCLES):"),
            _mutant(
                "with m.If(~self.up):\n                    m.d.sync += self.stop.eq(1)",
                "with m.If(~self.up):\n                    m.d.sync += self.hold.eq(1)",
            ),
            _mutant("with m.If(count == STOP_CYCLES):", "with m.If(count == STOP_CYCLES - 1):"),
            _mutant("with m.If(count == STOP_CYCLES):", "with m.If(0):"),
            _mutant(
                "m.d.sync += count.eq(0)\n                with m.If(~self.up):",
                "with m.If(~self.up):",
            ),
            _mutant("with m.If(count != HOLD_CYCLES):", "with m.If(1):"),
            _mutant(
                'm.d.sync += [self.hold.eq(1), count.eq(0)]\n                    m.next = "closed"',
                'm.d.sync += [self.hold.eq(1)]\n                    m.next = "closed"',
            ),
        ),
    ),
]


def test_proof(task, prove):
    prove(task)
