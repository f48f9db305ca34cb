"""Floating-point adder."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .format import OUTCOME, Float, pack
from .normalise import normalise
from .pipeline import register
from .shift import shift_right


class Adder(wiring.Component):
    """Sum of two words, rounded to nearest, ties to even.

    One sum per cycle, free running: ``z`` belongs to the operands of ``LATENCY`` cycles ago. There is no stall and no
    reset; to subtract, flip the sign of ``b``. Subnormal operands are zeros of their sign, and so is a sum below the
    smallest normal number. Exact cancellation gives +0. There is one NaN, ``format.nan``.
    ::

        a, b ─► order by ─│─► shift the ─│─► add or  ─│─► normalise ─│─► round, ─│─► z
                magnitude │   smaller    │  subtract  │              │   pack
                          1              2            3              4           5

    Parameters
    ----------
    format : FloatFormat
        Number format of operands and result.

    Members
    -------
    a, b : :py:`In(format.width)`
        Operands.
    z : :py:`Out(format.width)`
        Sum.
    """

    LATENCY = 5

    def __init__(self, format):
        self.format = format
        super().__init__({"a": In(format.width), "b": In(format.width), "z": Out(format.width)})

    def elaborate(self, platform):
        """Lay out the ranks of the pipeline, top to bottom."""
        m = Module()
        layout = Float(self.format)
        a, b = layout(self.a), layout(self.b)
        mantissa, size = self.format.mantissa, self.format.mantissa + 1

        # Rank 1: order by magnitude. Two zeros leave a one in `larger`, but of exponent 0, which packs to a zero.
        swap = Signal()
        big, small = Signal(layout), Signal(layout)
        m.d.comb += [
            swap.eq(b.magnitude > a.magnitude),
            big.eq(Mux(swap, self.b, self.a)),
            small.eq(Mux(swap, self.a, self.b)),
        ]
        apart = Mux(swap, b.exponent - a.exponent, a.exponent - b.exponent)
        distance = register(m, "distance", apart, self.format.exponent)
        exponent = register(m, "exponent_1", big.exponent)
        larger = register(m, "larger", big.significand)
        smaller = register(m, "smaller", Mux(small.is_zero, 0, small.significand))
        sign = register(m, "sign", big.sign)
        subtract = register(m, "subtract_1", a.sign ^ b.sign)

        # Rank 2: below the significand two bits and a sticky one are enough to round exactly after any cancellation.
        # What is beyond all bits leaves the sticky one alone: the leading one, which a zero lacks.
        extended = Cat(C(0, 2), smaller)
        steps = min(len(extended).bit_length(), self.format.exponent)
        far = distance[steps:].any() if self.format.exponent > steps else C(0, 1)
        kept, lost = shift_right(extended, distance[:steps])
        addend = register(m, "addend", Cat(Mux(far, smaller[-1], lost), Mux(far, 0, kept)), size + 3)
        augend = register(m, "augend", Cat(C(0, 3), larger))
        # The larger operand is a NaN if any is, and if both are infinite it says so for both.
        outcome, top = Signal(OUTCOME), Signal()
        m.d.comb += [
            top.eq(exponent.all()),
            outcome.sign.eq(sign & ~(subtract & (exponent == 0))),
            outcome.infinite.eq(top),
            outcome.nan.eq(top & (larger[:-1].any() | (subtract & (distance == 0)))),
        ]
        outcome = register(m, "outcome_2", outcome, OUTCOME)
        exponent_bits = max(self.format.exponent, (size + 3).bit_length()) + 2
        exponent = register(m, "exponent_2", exponent + 2, exponent_bits)
        subtract = register(m, "subtract_2", subtract)

        # Rank 3: the top bit is the carry of an addition.
        signed = Cat(addend, C(0, 1)) ^ subtract.replicate(size + 4)
        total = register(m, "total", augend + signed + subtract, size + 4)
        exponent = register(m, "exponent_3", exponent)
        outcome = register(m, "outcome_3", outcome, OUTCOME)

        # Rank 4
        normal, zeros = (register(m, f"normal_{n}", value) for n, value in enumerate(normalise(m, total)))
        exponent = register(m, "exponent_4", exponent)
        outcome = register(m, "outcome_4", outcome, OUTCOME)

        # Rank 5: exponent + 1 - zeros is (exponent + 2) + ~zeros, so one addition rounds and sets the exponent.
        rounded = Signal(mantissa + exponent_bits)
        final = Signal(OUTCOME)
        cancelled = ~normal[-1]
        up = normal[3] & (normal[:3].any() | normal[4])
        correction = Cat(~zeros, C(-1, exponent_bits - len(zeros)))
        m.d.comb += [
            rounded.eq(Cat(normal[4:-1], exponent) + Cat(up, C(0, mantissa - 1), correction)),
            final.eq(outcome),
            final.zero.eq(cancelled),
            final.sign.eq(outcome.sign & ~cancelled),
        ]
        m.d.comb += self.z.eq(register(m, "result", pack(self.format, rounded, final)))
        return m
