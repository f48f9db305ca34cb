"""SlotScheduler: every kind of work gets its share of the cycles, evenly."""

from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import after_reset, bench, constant
from tests.formal.prove import Change, Mutant, Proof, pdr

_SLOTS = 8


def slot_scheduler(load):
    """Count each kind's cycles in every round; rounds of 8 cycles: the count's bits are reversed, however many.

    The cycle after the reset is left out, in which any may use the PEs.
    """
    unit = load("etalstm_hw.compute.slots").SlotScheduler()
    m = bench(unit)
    shares = unit.slots
    constant(m, shares)
    m.d.comb += [Assume(shares.elementwise + getattr(shares, kind) <= _SLOTS) for kind in ("forward", "backward")]
    fixed, count = shares.as_value().any(), Signal(range(_SLOTS))
    begun = after_reset(m)
    m.d.sync += count.eq(count + begun)
    for kind in ("elementwise", "forward", "backward"):
        cycles, near, share = Signal(5, name=f"{kind}_cycles"), Signal(4, name=f"{kind}_near"), getattr(shares, kind)
        now = cycles + (begun & getattr(unit, kind))
        m.d.sync += [cycles.eq(Mux(count == _SLOTS - 1, 0, now))]
        m.d.sync += near.eq(Mux(getattr(unit, kind), 0, Mux(near == 15, 15, near + 1)))
        m.d.comb += [
            Assert(fixed | getattr(unit, kind)),
            Assert(~fixed | (count != _SLOTS - 1) | (now == share)),
            Assert(~fixed | ~begun | (kind == "elementwise") | ~(unit.elementwise & getattr(unit, kind))),
            Assert((share < _SLOTS // 2) | (near <= 2)),  # a half comes every third cycle at the latest
            Cover(fixed & (count == _SLOTS - 1) & (now == 3)),
        ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("etalstm_hw.compute.slots", old, new, survives)


PROOFS = [
    Proof(
        name="SlotScheduler",
        build=slot_scheduler,
        claim="of every round each kind gets as many cycles as its share, evenly; element-wise ones are nobody else's",
        method=pdr(),
        reach=12,
        quick=True,
        small=(Change("etalstm_hw.contract.registers", "SLOTS = 32", f"SLOTS = {_SLOTS}"),),
        mutants=(
            _mutant("position = Cat(reversed(count))", "position = count"),
            _mutant("mac_position = position - self", "mac_position = position + 1 - self"),
            _mutant(
                "self.elementwise.eq(~fixed | (mac_position < 0))", "self.elementwise.eq(~fixed | (mac_position <= 0))"
            ),
            _mutant("self.forward.eq(~fixed | ((mac_position >= 0) & ", "self.forward.eq(~fixed | ("),
            _mutant("mac_position < self.slots.backward", "mac_position < self.slots.forward"),
            _mutant(
                "self.backward.eq(~fixed | (",
                "self.backward.eq((",
            ),
            _mutant("count.eq(count + 1)", "count.eq(count + 3)"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
