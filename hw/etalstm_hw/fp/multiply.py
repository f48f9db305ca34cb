"""Floating-point multiplier."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.format import OUTCOME, Float, pack
from etalstm_hw.fp.pipeline import register

DSP_BITS = 17
"""Unsigned bits that the narrow port of a DSP48E2 multiplies."""


class Multiplier(wiring.Component):
    """Product of two words, rounded to nearest, ties to even.

    One product per cycle, free running: ``z`` belongs to the operands of ``LATENCY`` cycles ago. There is no stall and
    no reset. Subnormal operands are zeros of their sign. A product that rounds (on the subnormal grid, as IEEE says) to
    less than the smallest normal number is a zero of its sign. There is one NaN, ``format.nan``.
    ::

        a, b ─► partial products ─│─► their sum ─│─► normalise by one bit, round, pack ─│─► z
             ─► exponent sum     ─│─────────────►│─►
                                  1              2                                      3

    A partial product fills one DSP slice and its register: for binary32 there are two. Operands should come from
    registers, which the slice then absorbs.

    Parameters
    ----------
    format : FloatFormat
        Number format of operands and result.

    Members
    -------
    a, b : :py:`In(format.width)`
        Operands.
    z : :py:`Out(format.width)`
        Product.
    """

    LATENCY = 3

    def __init__(self, format):
        self.format = format
        super().__init__({"a": In(format.width), "b": In(format.width), "z": Out(format.width)})

    def elaborate(self, platform):
        """Lay out the stages of the pipeline, top to bottom."""
        m = Module()
        a, b = (Float(self.format)(word) for word in (self.a, self.b))
        mantissa, size = self.format.mantissa, self.format.mantissa + 1

        # Stage 1: the exponent may be negative or too large until it is packed.
        starts = range(0, size, DSP_BITS)
        slices = [b.significand[start : start + DSP_BITS] for start in starts]
        partials = [register(m, f"partial_{n}", a.significand * part) for n, part in enumerate(slices)]
        exponent_shape = signed(self.format.exponent + 2)
        # The bias is 2^n - 1: a carry into the sum of the exponents leaves only its upper bits to subtract from.
        exponents = (Cat(C(1, 1), a.exponent) + Cat(C(1, 1), b.exponent))[1:]
        half = self.format.exponent - 1
        exponent = Cat(exponents[:half], exponents[half:] - 1)
        exponent = register(m, "exponent_1", exponent.as_signed(), exponent_shape)
        outcome = Signal(OUTCOME)
        a_top, b_top = a.exponent.all(), b.exponent.all()
        m.d.comb += [
            outcome.sign.eq(a.sign ^ b.sign),
            outcome.zero.eq(a.is_zero | b.is_zero),
            outcome.infinite.eq(a_top | b_top),
            outcome.nan.eq(a.is_nan | b.is_nan | outcome.zero & outcome.infinite),
        ]
        outcome = register(m, "outcome_1", outcome, OUTCOME)

        # Stage 2: an exponent of 0 is one binade below the normals; the second flag is for a product in [2, 4).
        weighed = [partial << start for partial, start in zip(partials, starts, strict=True)]
        product = register(m, "product", sum(weighed), 2 * size)
        below = register(m, "below", Cat(exponent == 0, exponent == -1))
        exponent = register(m, "exponent_2", exponent)
        outcome = register(m, "outcome_2", outcome, OUTCOME)

        # Stage 3
        top = product[-1]
        guard, fraction, up = Signal(), Signal(mantissa), Signal()
        rounded = Signal(mantissa + len(exponent))
        sticky = product[: size - 2].any() | top & product[size - 2]
        m.d.comb += [
            Cat(guard, fraction).eq(Mux(top, product[size - 1 : -1], product[size - 2 : -2])),
            # One binade below the normals the subnormal grid is twice as coarse: all ones then rounds up whatever
            # follows, and everything smaller stays below and is flushed.
            up.eq(guard & (sticky | fraction[0]) | Mux(top, below[1], below[0])),
            rounded.eq(Cat(fraction, exponent) + Cat(up, C(0, mantissa - 1), top)),
        ]
        m.d.comb += self.z.eq(register(m, "result", pack(self.format, rounded, outcome)))
        return m
