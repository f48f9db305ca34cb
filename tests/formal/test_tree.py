"""delayed and lingering: values some cycles later, and levels that outlast others."""

from amaranth.hdl import Assert, Cover, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from tests.formal.harness import bench
from tests.formal.prove import Mutant, Proof, pdr

_STAGES, _CYCLES = 3, 5


def tree(load):
    """Remember the last values, and count cycles; three stages, five cycles: all stages and counts are alike."""
    functions = load("etalstm_hw.machine.tree")

    class Tree(wiring.Component):
        value: In(2)
        level: In(1)
        late: Out(2)
        lingers: Out(1)

        def elaborate(self, platform):
            m = Module()
            m.d.comb += self.late.eq(functions.delayed(m, self.value, _STAGES, name="stage"))
            m.d.comb += self.lingers.eq(functions.lingering(m, self.level, _CYCLES, name="left"))
            return m

    unit = Tree()
    m = bench(unit)
    line = [Signal(2, name=f"before{n}") for n in range(_STAGES)]
    m.d.sync += [later.eq(earlier) for later, earlier in zip(line, [unit.value, *line], strict=False)]
    since = Signal(range(_CYCLES + 2), init=_CYCLES + 1)  # cycles since the level was there
    m.d.sync += since.eq(Mux(unit.level, 1, Mux(since == _CYCLES + 1, since, since + 1)))
    m.d.comb += [
        Assert(unit.late == line[-1]),
        Assert(unit.lingers == (unit.level | (since <= _CYCLES))),
        Cover((unit.late == 3) & ~unit.lingers),
        Cover(unit.lingers & (since == _CYCLES)),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.machine.tree", old, new, survives)


PROOFS = [
    Proof(
        name="tree",
        build=tree,
        claim="delayed gives what was there so many cycles before; lingering outlasts its level by so many cycles",
        method=pdr(),
        reach=10,
        quick=True,
        mutants=(
            _mutant("for stage in range(stages):", "for stage in range(stages - 1):"),
            _mutant("        value = register\n", ""),
            _mutant("m.d.sync += left.eq(cycles)", "m.d.sync += left.eq(cycles - 1)"),
            _mutant("with m.Elif(left != 0):", "with m.Elif(left != 1):"),
            _mutant("return level | (left != 0)", "return left != 0"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
