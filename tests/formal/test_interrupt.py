"""Interrupt: no rise is lost, and requests keep to XDMA's handshake."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import before, bench
from tests.formal.prove import Mutant, Proof, pdr


def interrupt(load):
    """Owe the host a request from each rise until one begins; nothing is made small."""
    unit = load("etalstm_boards.interrupt").Interrupt()
    m = bench(unit)
    owed, served, waiting = Signal(), Signal(), Signal(3)
    request = before(m, unit.request, name="request")
    rise = unit.level & ~before(m, unit.level, name="level")
    begins, falls = unit.request & ~request, request & ~unit.request
    # The acknowledgement of a request may come with its first cycle, and comes once.
    m.d.comb += Assume(~unit.acknowledge | (unit.request & ~(request & served)))
    m.d.sync += served.eq(unit.request & (served | unit.acknowledge))
    rose = before(m, rise, name="rose")
    m.d.sync += owed.eq(rise | (owed & (~begins | rose)))  # a rise just before is one more
    m.d.sync += waiting.eq(Mux(owed & ~unit.request, waiting + 1, 0))
    m.d.comb += [
        Assert(~(~request & unit.request) | before(m, owed, name="owed_before")),
        Assert(waiting <= 2),
        Assert(~falls | served),
        Assert(~(unit.request & served & owed & (held := Signal(3))[2])),
        Cover(falls & owed),
        Cover(begins & before(m, served, name="served_before")),
        Cover(unit.request & served & ~owed & ~unit.level),
    ]
    m.d.sync += held.eq(Mux(unit.request & served & owed, held + 1, 0))
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_boards.interrupt", old, new, survives)


PROOFS = [
    Proof(
        name="Interrupt",
        build=interrupt,
        claim="each rise leads to a request, which stands until acknowledged and falls before the next",
        method=pdr(),
        reach=14,
        quick=True,
        mutants=(
            _mutant("rise = self.level & ~before", "rise = self.level"),
            _mutant("pending.eq(rise)", "pending.eq(0)"),
            _mutant("with m.If(self.acknowledge):", "with m.If(1):"),
            _mutant("with m.If(~self.level | pending):", "with m.If(~self.level):"),
            _mutant("with m.If(~self.level | pending):", "with m.If(0):"),
            _mutant("with m.If(rise):", "with m.If(rise & ~self.request):"),
            _mutant("with m.If(pending):", "with m.If(self.level):"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
