"""BitErrors: accesses keep to APB, each counter is read once in a round, the sums are those of a whole round."""

from amaranth.hdl import Assert, Cat, Const, Cover, Mux, Signal

from tests.formal.harness import before, bench
from tests.formal.prove import Change, Mutant, Proof, pdr

CONTROLLERS, COUNT_BITS = 2, 2


def bit_errors(load):
    """Count accesses and sums beside the unit.

    Two controllers stand for eight: they differ in their address only, whose bits are those of their number. Counts of
    two bits stand for eight: they are added.
    """
    contract, module = load("etalstm_hw.contract"), load("etalstm_boards.bit_errors")
    unit = module.BitErrors()
    m = bench(unit)
    number = Signal(range(len(module.REGISTERS) * CONTROLLERS * 2))  # of the access in its round
    register, controller, stack = number[:2], number[2], number[3]
    sums, failed, expected = [Signal(8, name=name) for name in ("ones", "twos")], Signal(), Signal(32)
    done = Cat(bus.penable & bus.pready for bus in (unit.stack0, unit.stack1))
    count = Mux(stack, unit.stack1.prdata, unit.stack0.prdata)[:COUNT_BITS]
    error = Mux(stack, unit.stack1.pslverr, unit.stack0.pslverr)
    totals = [(each + Mux(register[1] == kind, count, 0))[:8] for kind, each in enumerate(sums)]
    selected = unit.stack0.psel | unit.stack1.psel
    anew = [number.eq(0), *(each.eq(0) for each in sums), failed.eq(0)]
    with m.If(done.any()):
        m.d.sync += [number.eq(number + 1), failed.eq(failed | error)]
        m.d.sync += [each.eq(total) for each, total in zip(sums, totals, strict=True)]
        with m.If(number.all()):
            shown = totals[0] | totals[1] << contract.BIT_ERRORS_SHIFT | contract.BIT_ERRORS_KNOWN
            m.d.sync += [*anew, expected.eq(Mux(failed | error, 0, shown))]
    with m.Elif(~selected & ~unit.calibrated):
        m.d.sync += [*anew, expected.eq(0)]

    addresses = [Const(address, 17) for address in module.REGISTERS]
    address = Signal(22)
    with m.Switch(register):
        for which, low in enumerate(addresses):
            with m.Case(which):
                m.d.comb += address.eq(Cat(low, controller, Const(0b01, 2)))
    ready = before(m, unit.calibrated, name="ready")
    for place, bus in enumerate((unit.stack0, unit.stack1)):
        goes_on = before(m, bus.psel & ~done[place], name=f"goes_on{place}")
        m.d.comb += [
            Assert(~bus.psel | ((stack == place) & (bus.paddr == address) & ~bus.pwrite)),
            Assert(bus.penable == goes_on),
            Assert(~goes_on | bus.psel),
            Assert(~bus.psel | goes_on | ready),
        ]
    waits = Signal(3)
    m.d.sync += waits.eq(Mux(unit.calibrated & ~selected, waits + 1, 0))
    m.d.comb += [
        Assert(unit.found == expected),
        Assert(waits <= 1),
        Cover(unit.found[:16] == 5),
        Cover((unit.found == 0) & before(m, unit.found != 0, name="shown_before") & unit.calibrated),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.bit_errors", old, new, survives)


PROOFS = [
    Proof(
        name="BitErrors",
        build=bit_errors,
        claim="APB accesses as they must be, each counter once in a round; sums of whole rounds, or none",
        method=pdr(),
        reach=60,
        quick=True,
        small=(
            Change("etalstm_boards.bit_errors", "CONTROLLERS = 8", f"CONTROLLERS = {CONTROLLERS}"),
            Change("etalstm_boards.bit_errors", "COUNT_BITS = 8", f"COUNT_BITS = {COUNT_BITS}"),
            Change("etalstm_boards.bit_errors", "_SUM_BITS = 13", "_SUM_BITS = 8"),
        ),
        mutants=(
            _mutant("position.eq(position + 1), failed.eq(unreadable)", "position.eq(position + 1)"),
            _mutant("position.eq(position + 1), failed.eq(unreadable)", "failed.eq(unreadable)"),
            _mutant("sums[0] + Mux(register[1], 0, count)", "sums[0] + Mux(register[0], 0, count)"),
            _mutant("Mux(register[1], count, 0)", "count"),
            _mutant("unreadable = failed | bus.pslverr", "unreadable = failed"),
            _mutant("[*restart, self.found.eq(Mux(", "[self.found.eq(Mux("),
            _mutant("idle & ~self.calibrated", "~self.calibrated"),
            _mutant("[*restart, self.found.eq(0)]", "self.found.eq(0)"),
            _mutant("bus.psel.eq(select & chosen)", "bus.psel.eq(select)"),
            _mutant("bus.penable.eq(enable & chosen)", "bus.penable.eq(select & chosen)"),
            _mutant("with m.If(self.calibrated):", "with m.If(1):"),
            _mutant("done.eq(buses[stack].pready)", "done.eq(buses[0].pready)"),
            _mutant("with m.If(done):\n                    m.next", "with m.If(1):\n                    m.next"),
            _mutant("controller[0], Const(0b01, 2)", "~controller[0], Const(0b01, 2)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
