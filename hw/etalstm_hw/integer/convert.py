"""From integer sums to words of float32."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.format import OUTCOME, pack
from etalstm_hw.fp.pipeline import register
from etalstm_hw.fp.shift import leading_zeros, shift_left
from etalstm_hw.integer.widths import EXPONENT_BITS


class Converter(wiring.Component):
    """An integer times a power of two, rounded once to nearest, ties to even.

    One result per cycle, free running: ``z`` belongs to the operands of ``LATENCY`` cycles ago. What is less than the
    smallest normal number after the rounding to ``mantissa + 1`` bits is +0, what is too large is infinite.
    ::

        a ─► sign, magnitude ─│─► count zeros ─│─► shift ─│─► round, add exponents, pack ─│─► z
                              1                2          3                               4

    Parameters
    ----------
    format : FloatFormat
    bits : int
        Of the integer, with its sign; more than the format's significand has.

    Members
    -------
    a : :py:`In(signed(bits))`
    exponent : :py:`In(signed(EXPONENT_BITS))`
        The power of two.
    z : :py:`Out(format.width)`
    """

    LATENCY = 4

    def __init__(self, format, bits):
        self.format, self.bits = format, bits
        super().__init__({"a": In(signed(bits)), "exponent": In(signed(EXPONENT_BITS)), "z": Out(format.width)})

    def elaborate(self, platform):
        """Lay out the stages of the pipeline, top to bottom."""
        m = Module()
        size = self.format.mantissa + 1

        # Stage 1
        sign = register(m, "sign_1", self.a[-1])
        exponent = register(m, "exponent_1", self.exponent)
        magnitude = register(m, "magnitude", Mux(self.a[-1], -self.a, self.a)[: self.bits])

        # Stage 2
        zeros = register(m, "zeros", leading_zeros(magnitude))
        sign, exponent = register(m, "sign_2", sign), register(m, "exponent_2", exponent)
        magnitude = register(m, "magnitude_2", magnitude)

        # Stage 3: of a zero the top bit stays clear.
        shifted = register(m, "shifted", shift_left(magnitude, zeros))
        top = self.bits - 1 + self.format.bias
        shape = signed(max(EXPONENT_BITS, top.bit_length() + 1) + 1)
        biased = register(m, "biased", exponent - zeros + top, shape)
        sign = register(m, "sign_3", sign)

        # Stage 4
        fraction = shifted[self.bits - size : -1]
        guard, sticky = shifted[self.bits - size - 1], shifted[: self.bits - size - 1].any()
        rounded = Signal(self.format.mantissa + len(biased))
        outcome = Signal(OUTCOME)
        m.d.comb += [
            # Of a zero the exponent means nothing, and may seem too large.
            rounded.eq(Mux(shifted[-1], Cat(fraction, biased) + (guard & (sticky | fraction[0])), 0)),
            outcome.sign.eq(sign & (rounded[self.format.mantissa :].as_signed() >= 1)),
            outcome.zero.eq(~shifted[-1]),
        ]
        m.d.comb += self.z.eq(register(m, "result", pack(self.format, rounded, outcome)))
        return m
