"""Elastic: a stream passes in the same cycle, in order; its ready hangs on the register alone."""

from amaranth.hdl import Assert, Cover

from tests.formal.harness import before, bench, stream_in, stream_out
from tests.formal.prove import Mutant, Proof, pdr


def elastic(load):
    """An offer that is not taken at once stands, unchanged, and nothing enters meanwhile. Payloads have 2 bits."""
    unit = load("etalstm_hw.elastic").Elastic(2)
    m = bench(unit)
    i, o = unit.i, unit.o
    enters, leaves = stream_in(m, i, name="i"), stream_out(m, o, name="o")
    waited = before(m, o.valid & ~o.ready, name="waited")
    m.d.comb += [
        Assert(unit.full == waited),
        Assert(i.ready == ~waited),
        Assert(o.valid == (waited | i.valid)),
        Assert(waited | (o.p == i.p)),
        Cover(leaves & unit.full & i.valid),
        Cover(leaves & enters),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.elastic", old, new, survives)


PROOFS = [
    Proof(
        name="Elastic",
        build=elastic,
        claim="order, nothing lost or doubled; in the same cycle unless one waits; ready only when none does",
        method=pdr(),
        reach=6,
        mutants=(
            _mutant("self.i.ready.eq(~self.full)", "self.i.ready.eq(1)"),
            _mutant("self.full | self.i.valid", "self.full"),
            _mutant("Mux(self.full, stored, given)", "given"),
            _mutant("self.o.valid & ~self.o.ready", "self.i.valid & ~self.o.ready"),
            _mutant("with m.If(~self.full):", "with m.If(self.o.ready):"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
