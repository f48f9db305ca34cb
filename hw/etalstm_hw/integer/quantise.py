"""From words of float32 to integers that share an exponent, and from these to digits."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.format import Float
from etalstm_hw.fp.pipeline import register, registers
from etalstm_hw.fp.shift import shift_left
from etalstm_hw.integer.widths import DIGIT_SHIFT, EXPONENT_BITS, MANTISSA_BITS, SCALAR_BITS


class Quantiser(wiring.Component):
    """A word times a power of two, rounded to an integer to nearest, ties to even, and clamped.

    One result per cycle, free running: results belong to the operands of ``LATENCY`` cycles ago.
    ::

        a, places ─► how far to shift ─│─► shift ─│─► round, clamp, negate ─│─► z
                                       1          2                         3

    Parameters
    ----------
    format : FloatFormat
    bits : int
        Of the largest mantissa, with its sign.

    Members
    -------
    a : :py:`In(format.width)`
    places : :py:`In(signed(EXPONENT_BITS))`
        The power of two: n - 1 - e for mantissas of n bits with the exponent e.
    limit : :py:`In(bits - 1)`
        The largest magnitude.
    z : :py:`Out(signed(bits))`
    saturated, not_finite : :py:`Out(1)`
        The magnitude was clamped; the word is infinite or no number.
    """

    LATENCY = 3

    def __init__(self, format, bits):
        self.format, self.bits = format, bits
        super().__init__(
            {
                "a": In(format.width),
                "places": In(signed(EXPONENT_BITS)),
                "limit": In(bits - 1),
                "z": Out(signed(bits)),
                "saturated": Out(1),
                "not_finite": Out(1),
            }
        )

    def elaborate(self, platform):
        """Lay out the stages of the pipeline, top to bottom."""
        m = Module()
        a, bits, size = Float(self.format)(self.a), self.bits, self.format.mantissa + 1

        # Stage 1: how far to the left a significand is shifted that lies below the point: as 1/2 or more, if normal.
        places, normal = Signal(signed(EXPONENT_BITS + 2)), a.exponent.any()
        m.d.comb += places.eq(Cat(a.exponent[0] | ~normal, a.exponent[1:]) + self.places - (self.format.bias - 1))
        small, large = register(m, "small", places < 0), register(m, "large", (places >= bits) & normal)
        shift = register(m, "shift", places[: bits.bit_length()])
        significand, sign = register(m, "significand", Cat(a.fraction, normal)), register(m, "sign_1", a.sign)
        not_finite = register(m, "not_finite_1", a.exponent.all())

        limit = registers(m, "limit", self.limit, 2)

        # Stage 2
        shifted = shift_left(Cat(significand, C(0, bits)), shift)
        shifted = register(m, "shifted", Mux(small, 0, shifted))
        large, sign = register(m, "large_2", large), register(m, "sign_2", sign)
        not_finite = register(m, "not_finite_2", not_finite)

        # Stage 3
        whole, guard, sticky = shifted[size:], shifted[size - 1], shifted[: size - 1].any()
        rounded, over, magnitude = Signal(bits + 1), Signal(), Signal(bits)
        m.d.comb += [
            rounded.eq(whole + (guard & (sticky | whole[0]))),
            over.eq(large | (rounded > limit)),
            magnitude.eq(Mux(over, limit, rounded)),
        ]
        m.d.comb += [
            self.z.eq(register(m, "result", Mux(sign, -magnitude, magnitude)[:bits].as_signed(), signed(bits))),
            self.saturated.eq(register(m, "over_3", over)),
            self.not_finite.eq(register(m, "not_finite_3", not_finite)),
        ]
        return m


def digits(mantissa):
    """Give both digits of an element: one below 128 in size has a lower one alone, of others this is from -64 to 63."""
    in_byte = mantissa[SCALAR_BITS - 1 :] == mantissa[-1].replicate(MANTISSA_BITS - SCALAR_BITS + 1)
    alone = in_byte & (mantissa[:SCALAR_BITS] != 1 << (SCALAR_BITS - 1))
    upper = (mantissa.as_signed() + (1 << (DIGIT_SHIFT - 1))) >> DIGIT_SHIFT
    lower = Cat(mantissa[:DIGIT_SHIFT], Mux(alone, mantissa[DIGIT_SHIFT], mantissa[DIGIT_SHIFT - 1]))
    return Mux(alone, 0, upper)[:SCALAR_BITS].as_signed(), lower.as_signed()
