"""IntegerArray: every sum is that of its terms, whatever their number, digits and pace."""

from amaranth.asserts import AnyConst
from amaranth.hdl import Array, Assume, Cover, Mux, Signal

from tests.formal.harness import Scoreboard, bench, stream_in
from tests.formal.prove import Change, Mutant, Proof, bounded

_PES = 4


def array(load):
    """Add up the terms of one PE's weight beside the array; its operands have two bits, and a chunk four terms.

    What matters are the borders between chunks, digits and sums. A chunk's sums fill their fields as those of the
    machine do: 4 · 1 · 1 needs all of four bits.
    """
    unit = load("etalstm_hw.integer.array").IntegerArray(1, _PES)
    lane = load("etalstm_hw.integer.lane")
    m = bench(unit)
    term, lower_before, open_sum = unit.terms.p, Signal(), Signal()
    taken = stream_in(m, unit.terms, name="terms")
    _behave(m, term, taken, lower_before, open_sum)
    of_pe, high = AnyConst(2), AnyConst(1)
    weights = unit.weights[0]
    weight = Mux(high, Array(weights[_PES:])[of_pe], Array(weights[:_PES])[of_pe])
    m.d.comb += [Assume(w != -2) for w in weights]
    last, value, was_taken, fresh, shift = (
        Signal(2 if name == "value" else 1, name=name) for name in ("last", "value", "was_taken", "fresh", "shift")
    )
    total, so_far = Signal(lane.WIDE), Signal(lane.WIDE)
    m.d.sync += [
        was_taken.eq(taken),
        last.eq(taken & term.last),
        value.eq(term.value),
        fresh.eq(~open_sum),
        shift.eq(open_sum & ~lower_before & term.lower),
    ]
    before = Mux(fresh, 0, Mux(shift, so_far << lane.DIGIT_SHIFT, so_far))
    m.d.comb += total.eq(before + value.as_signed() * weight)
    with m.If(was_taken):
        m.d.sync += so_far.eq(total)
    leaves = unit.valid & (unit.pe == of_pe)
    board = Scoreboard(
        m, enters=last, expected=total, leaves=leaves, actual=Mux(high, unit.high[0], unit.low[0]), capacity=4
    )
    m.d.comb += Cover(leaves & board.chosen & (total > 5))
    return m


def _behave(m, term, taken, lower_before, open_sum):
    """Assume what terms promise: upper digits first, then lower ones, of which the last ends the sum."""
    ended = Signal()
    with m.If(taken):
        m.d.sync += [lower_before.eq(term.lower), open_sum.eq(~term.last), ended.eq(term.ends)]
    m.d.comb += [
        Assume(term.value != -2),
        Assume(term.last == (term.ends & term.lower)),
        Assume(~open_sum | ~lower_before | term.lower),
        Assume(~open_sum | lower_before | (term.lower == ended)),
    ]


def _mutant(old, new, module="array", survives=""):
    return Mutant(f"etalstm_hw.integer.{module}", old, new, survives)


_SMALL = (
    Change("etalstm_hw.integer.pe", "WEIGHT_BITS = SCALAR_BITS = 8", "WEIGHT_BITS = SCALAR_BITS = 2"),
    Change("etalstm_hw.integer.pe", "CHUNK = 16", "CHUNK = 4"),
    Change("etalstm_hw.integer.pe", "FIELD_BITS = 19", "FIELD_BITS = 4"),
    Change("etalstm_hw.integer.lane", "WIDE = signed(40)", "WIDE = signed(8)"),
    Change("etalstm_hw.integer.lane", "DIGIT_SHIFT = 7", "DIGIT_SHIFT = 2"),
    Change("etalstm_hw.integer.array", "(4, 8, CHUNK)", "(CHUNK,)"),
)

PROOFS = [
    Proof(
        name="IntegerArray",
        build=array,
        claim="each sum is that of its terms, in however many chunks and digits, and comes once, in order",
        method=bounded(26),
        reach=26,
        quick=False,
        small=_SMALL,
        mutants=(
            _mutant("(count == CHUNK - 1) | term.ends", "(count == CHUNK - 2) | term.ends", survives="an earlier end"),
            _mutant("captured.eq((count == CHUNK - 1) | term.ends | term.last)", "captured.eq(term.ends | term.last)"),
            _mutant("wait.eq(self._pes - 1)", "wait.eq(self._pes - 2)"),
            _mutant("chunk.shift.eq(upper & term.lower)", "chunk.shift.eq(upper)"),
            _mutant("upper.eq(~term.lower & ~term.last)", "upper.eq(~term.lower | upper)"),
            _mutant("fresh.eq(term.last)", "fresh.eq(term.ends)"),
            _mutant("self.terms.p.value, 0))", "self.terms.p.value, self.terms.p.value))"),
            _mutant("stages[1 + IntegerPE.BEGINS]", "stages[IntegerPE.BEGINS]"),
            _mutant(
                "with m.If(chunk.captured):\n            m.d.sync += [collecting",
                "with m.If(chunk.captured & ~collecting):\n            m.d.sync += [collecting",
            ),
            _mutant("range(1 + IntegerPE.LATENCY)", "range(IntegerPE.LATENCY)"),
            _mutant("control.written.eq(number)", "control.written.eq(before)"),
            _mutant('("high", 1, high, carry)', '("high", 1, high, C(0, 1))', "lane"),
            _mutant("Mux(fresh, 0, Mux(shift", "Mux(shift, 0, Mux(fresh", "lane"),
            _mutant("Mux(begins, 0, sums)", "Mux(begins, sums, 0)", "pe"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
