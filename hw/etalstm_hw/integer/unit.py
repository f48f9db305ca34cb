"""A unit that makes words of exact sums, and integers of words, for the element-wise engine."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import enum, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.format import Float
from etalstm_hw.fp.pipeline import register, registers
from etalstm_hw.integer.convert import Converter
from etalstm_hw.integer.quantise import Quantiser
from etalstm_hw.integer.widths import EXPONENT_BITS, MANTISSA_BITS, WIDE

_BYTE = 8


class Function(enum.Enum, shape=3):  # type: ignore[call-arg] # Amaranth's metaclass takes it
    """What a unit makes of its operands. An exponent e is `common` plus, or with `negate` minus, the integer b."""

    CONVERT = 0  #: the sum a times 2^e, rounded to a word
    QUANTISE = 1  #: the word a times 2^e, rounded to an integer, and clamped to ±`limit`
    EXPONENT = 2  #: the least integer n with |a| < 2^n for the word a; -126 where a is 0 or subnormal
    LARGEST = 3  #: the larger of |a| and |b|, both words
    INSERT = 4  #: the lowest byte of a below the three lower bytes of b


class IntegerUnit(wiring.Component):
    """Converts, quantises, finds exponents and the largest, and packs integers of a byte.

    One result per cycle, free running: ``z`` belongs to the inputs of ``LATENCY`` cycles ago. Integers in words have
    32 bits, with their sign.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.

    Members
    -------
    a : :py:`In(WIDE)`
        A sum, or in the lower bits a word.
    b : :py:`In(format.width)`
    common : :py:`In(signed(EXPONENT_BITS))`
    negate : :py:`In(1)`
    limit : :py:`In(MANTISSA_BITS - 1)`
        The largest integer that is left of a word.
    function : :py:`In(Function)`
    z : :py:`Out(format.width)`
    saturated, not_finite : :py:`Out(1)`
        An integer was clamped; a word that was to become one is infinite or no number.
    """

    LATENCY = 1 + Converter.LATENCY

    def __init__(self, format):
        self.format = format
        super().__init__(
            {
                "a": In(WIDE),
                "b": In(format.width),
                "common": In(signed(EXPONENT_BITS)),
                "negate": In(1),
                "limit": In(MANTISSA_BITS - 1),
                "function": In(Function),
                "z": Out(format.width),
                "saturated": Out(1),
                "not_finite": Out(1),
            }
        )

    def elaborate(self, platform):
        """Find exponents; then every function at once, and the one that is wanted last."""
        m = Module()
        m.submodules.converter = converter = Converter(self.format, WIDE.width)
        m.submodules.quantiser = quantiser = Quantiser(self.format, MANTISSA_BITS)
        width, offset = self.format.width, self.b[:EXPONENT_BITS].as_signed()
        exponent = register(
            m, "exponent", Mux(self.negate, self.common - offset, self.common + offset), signed(EXPONENT_BITS)
        )
        a = register(m, "a_1", self.a)
        m.d.comb += [
            converter.a.eq(a),
            converter.exponent.eq(exponent),
            quantiser.a.eq(a[:width]),
            quantiser.places.eq(exponent),
            quantiser.limit.eq(register(m, "limit_1", self.limit)),
        ]
        function = registers(m, "function", self.function, self.LATENCY)
        word = registers(m, "word", self._simple(m), self.LATENCY)
        integer, saturated, not_finite = (
            registers(m, name, getattr(quantiser, name), Converter.LATENCY - Quantiser.LATENCY)
            for name in ("z", "saturated", "not_finite")
        )
        with m.Switch(function):
            with m.Case(Function.CONVERT):
                m.d.comb += self.z.eq(converter.z)
            with m.Case(Function.QUANTISE):
                m.d.comb += [self.z.eq(integer), self.saturated.eq(saturated), self.not_finite.eq(not_finite)]
            with m.Default():
                m.d.comb += self.z.eq(word)
        return m

    def _simple(self, m):
        """Give what takes one cycle: an exponent, the larger of two, or the bytes with one more."""
        format, word = self.format, Signal(self.format.width)
        a, b = self.a[: format.width], self.b
        sizes = [value[: format.width - 1] for value in (a, b)]
        number = Float(format)(a)
        exponent = Mux(number.is_zero, 1 - format.bias, number.exponent - (format.bias - 1))
        with m.Switch(self.function):
            with m.Case(Function.EXPONENT):
                m.d.comb += word.eq(exponent)
            with m.Case(Function.LARGEST):
                m.d.comb += word.eq(Cat(Mux(sizes[0] > sizes[1], sizes[0], sizes[1]), C(0, 1)))
            with m.Default():
                m.d.comb += word.eq(Cat(a[:_BYTE], b[: format.width - _BYTE]))
        return word
