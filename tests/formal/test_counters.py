"""Counters: each adds what a cycle brings, a cycle later, and nothing else."""

from amaranth.hdl import Assert, Cover, Signal

from tests.formal.harness import bench
from tests.formal.prove import Change, Mutant, Proof, induction


def counters(load):
    """Count the enabled cycles' amounts of one counter, whichever the solver picks; 64-bit counters as they are."""
    unit = load("etalstm_hw.machine.counters").Counters(1)
    count = load("etalstm_hw.contract").Counter.COUNT
    m = bench(unit)
    total, amount, enable = (Signal(64, name=f"total{n}") for n in range(count)), [], Signal()
    m.d.sync += enable.eq(unit.enable)
    for n, expected in enumerate(total):
        amount = Signal.like(unit.amounts[n], name=f"amount{n}", reset_less=True)
        m.d.sync += amount.eq(unit.amounts[n])
        m.d.comb += Assert(unit.values[n] == expected)
        with m.If(unit.clear):
            m.d.sync += expected.eq(0)
        with m.Elif(enable):
            m.d.sync += expected.eq(expected + amount)
    m.d.comb += Cover((unit.values[0] == 7) & (unit.values[1] == 5))
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.machine.counters", old, new, survives)


PROOFS = [
    Proof(
        name="Counters",
        build=counters,
        claim="each counter adds the amount of each enabled cycle, a cycle later; clear wins",
        method=induction(3),
        reach=6,
        quick=True,
        small=(Change("etalstm_hw.machine.counters", "range(32 * channels + 2)", "range(4 * channels + 2)"),),
        mutants=(
            _mutant("with m.Elif(enable):", "with m.Elif(self.enable):"),
            _mutant("with m.If(self.clear):", "with m.If(self.clear & enable):"),
            _mutant("self.values[n] + amounts[n]", "self.values[n] + self.amounts[n]"),
            _mutant("self.values[n] + amounts[n]", "self.values[n] + amounts[0]"),
            _mutant("self.values[n] + amounts[n]", "self.values[n] | amounts[n]"),
            _mutant("self.values[n].eq(0)", "self.values[n].eq(amounts[n])"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
