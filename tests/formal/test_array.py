"""IntegerArray: every sum is that of its terms, whatever their number, digits and pace."""

from amaranth.asserts import AnyConst
from amaranth.hdl import Assert, Assume, C, Cat, Cover, Module, Mux, Signal
from amaranth.lib import wiring

from tests.formal.harness import Scoreboard, before, bench, stream_in
from tests.formal.prove import Change, Mutant, Proof, bounded

_PES = 2


class TokenPE(wiring.Component):
    """Says of each of its sums whether it has a term that is not 0. Its times are those of the PE it stands for."""

    def __init__(self, signature, latency, field_bits):
        self._latency, self._field_bits = latency, field_bits
        super().__init__(signature)

    def elaborate(self, platform):
        m = Module()
        begins, found = Signal(), []
        m.d.sync += begins.eq(self.begins)
        for name in ("low", "high"):
            flying, has = Signal(self._latency - 1, name=f"{name}_flying"), Signal(name=f"has_{name}")
            m.d.sync += flying.eq(Cat((self.scalar != 0) & (getattr(self, name) != 0), flying))
            m.d.sync += has.eq(flying[-1] | (has & ~begins))
            found.append(has)
        m.d.comb += self.sums.eq(Cat(found[0], C(0, self._field_bits - 1), found[1]))
        return m


def array(load):
    """Follow one term, whichever the solver picks, into its sum; all others are 0, which changes nothing.

    Sums are linear in their terms. So if each term alone comes to its sum, once and with its weight, they all do. Only
    the sum that is followed, whichever the solver picks, has weights that are not 0. What a PE does is not proved here:
    it has a bench, and that CHUNK products fit their field is arithmetic. Old sums are all equal, but there are any
    only where they are asked for.
    """
    pe, widths = load("etalstm_hw.integer.pe").IntegerPE, load("etalstm_hw.integer.widths")
    stand_in = pe().signature, pe.LATENCY, widths.FIELD_BITS
    unit = load("etalstm_hw.integer.array").IntegerArray(1, _PES, 1, pe=lambda: TokenPE(*stand_in))
    m = bench(unit)
    term, begun = unit.terms.p, Signal()
    taken = stream_in(m, unit.terms, name="terms")
    _behave(m, term, taken, begun)
    of_sum, old = AnyConst(2), AnyConst(widths.WIDE.width)

    for number in range(2 * _PES):  # of a weight; the low ones of all PEs come first
        m.d.comb += unit.weights[0][number].eq(Cat(of_sum[1:], of_sum[0]) == number)

    def is_followed(sums):
        return sums.valid & (Cat(sums.high, sums.pe) == of_sum)

    asked = before(m, is_followed(unit.old), name="asked")
    m.d.comb += Assume(~asked | (unit.old_sums[0] == old.as_signed()))

    so_far, total = Signal(widths.WIDE), Signal(widths.WIDE)
    is_there, first = before(m, taken, name="is_there"), before(m, ~begun, name="first")
    value, lower, last = Signal(), Signal(), Signal()
    alone, tag = Signal(), Signal()
    m.d.sync += [
        value.eq(term.value != 0),
        lower.eq(term.lower),
        last.eq(term.last),
        alone.eq(term.alone),
        tag.eq(term.tag),
    ]
    begins = Mux(alone, 0, old.as_signed())
    m.d.comb += total.eq(Mux(first, begins, so_far) + Mux(lower, value, value << widths.DIGIT_SHIFT))
    with m.If(is_there):
        m.d.sync += so_far.eq(total)
    leaves = is_followed(unit.complete)
    board = Scoreboard(
        m, enters=is_there & last, expected=Cat(total, tag), leaves=leaves,
        actual=Cat(unit.sums[0], unit.complete.tag), capacity=4,
    )  # fmt: skip
    m.d.comb += [
        Assert(unit.busy | (board.inside == 0)),
        Cover(leaves & board.chosen & (board.ahead == 0) & (unit.sums[0] == 2)),
    ]
    return m


def _behave(m, term, taken, begun):
    """Assume what terms promise: a digit ends before another one comes, and a sum has one tag and one start."""
    ended, lower, alone, tag = (Signal(name=f"{name}_before") for name in ("ended", "lower", "alone", "tag"))
    picked = Signal()
    with m.If(taken):
        m.d.sync += picked.eq(picked | (term.value != 0))
        m.d.sync += [begun.eq(~term.last), ended.eq(term.ends)]
        m.d.sync += [lower.eq(term.lower), alone.eq(term.alone), tag.eq(term.tag)]
    m.d.comb += [
        Assume((term.value == 0) | ((term.value == 1) & ~picked)),
        Assume(~begun | ended | (term.lower == lower)),
        Assume(~begun | ((term.alone == alone) & (term.tag == tag))),
    ]


def _mutant(old, new, module="array", survives=""):
    return Mutant(f"etalstm_hw.integer.{module}", old, new, survives)


_SMALL = (
    Change("etalstm_hw.integer.widths", "= integers.WEIGHT_BITS, integers.DIGIT_BITS", "= 2, 2"),
    Change("etalstm_hw.integer.widths", "CHUNK = integers.CHUNK", "CHUNK = 4"),
    Change("etalstm_hw.integer.widths", "FIELD_BITS = 19", "FIELD_BITS = 4"),
    Change("etalstm_hw.integer.widths", "WIDE = signed(integers.SUM_BITS)", "WIDE = signed(3)"),
    Change("etalstm_hw.integer.widths", "DIGIT_SHIFT = SCALAR_BITS - 1", "DIGIT_SHIFT = 1"),
    Change("etalstm_hw.integer.array", "not in INTEGER_PES", f"!= {_PES}"),
)

PROOFS = [
    Proof(
        name="IntegerArray",
        build=array,
        claim="each term, of however many chunks and digits, comes to its sum once, and the sums come in order",
        method=bounded(22),
        reach=22,
        quick=False,
        small=_SMALL,
        mutants=(
            _mutant("captured.eq((count == CHUNK - 1) | term.ends | term.last)", "captured.eq(term.ends | term.last)"),
            _mutant("wait.eq(2 * self._pes - 1)", "wait.eq(2 * self._pes - 2)"),
            _mutant("| term.ends | term.last", "| term.last"),
            _mutant("fresh.eq(term.last)", "fresh.eq(term.ends)"),
            _mutant("(~captured | (wait == 0))", "(~captured | (wait <= 1))"),
            _mutant("self.terms.p.value, 0))", "self.terms.p.value, self.terms.p.value))"),
            _mutant("stages[1 + IntegerPE.BEGINS]", "stages[IntegerPE.BEGINS]"),
            _mutant("range(1 + IntegerPE.LATENCY)", "range(IntegerPE.LATENCY)"),
            _mutant("following_number.eq(Mux(chunk.captured, 0, number + 1))", "following_number.eq(number + 1)"),
            _mutant("written.eq(Cat(added.high, added.pe))", "written.eq(Cat(adding.high, adding.pe))"),
            _mutant("adding.valid.eq(collecting & present.last)", "adding.valid.eq(collecting & now.last)"),
            _mutant("chunk.fresh & ~chunk.alone for", "chunk.fresh & chunk.alone for"),
            _mutant("Mux(coming.captured, reads", "Mux(chunk.captured, reads"),
            _mutant("(following_number != last_number)", "(number != last_number)"),
            _mutant("Mux(control.fresh, 0, read", "Mux(control.fresh | control.upper, 0, read", "lane"),
            _mutant("control.fresh & ~control.alone", "control.fresh", "lane"),
            _mutant("m.If(self.control.capture)", "m.If(self.control.capture | self.control.high)", "lane"),
            _mutant("(words)[self.control.pe]", "(words)[self.control.written[1:]]", "lane"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
