"""Units of element-wise work on integers, which stand beside the activation units."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import VectorOp
from etalstm_hw.fp.activation import FUNCTIONS, Activation
from etalstm_hw.fp.format import OUTCOME, Float, pack
from etalstm_hw.fp.pipeline import register, registers
from etalstm_hw.integer.convert import Converter
from etalstm_hw.integer.quantise import Quantiser
from etalstm_hw.integer.widths import EXPONENT_BITS, MANTISSA_BITS, WIDE

OP = range(max(VectorOp) + 1)
_BYTE = 8


class IntegerUnit(wiring.Component):
    """What VECTOR does with integers: every operation from ``CONVERT`` on, as :class:`VectorOp` says.

    One result per cycle, free running: ``z`` belongs to the inputs of ``LATENCY`` cycles ago.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.

    Members
    -------
    a : :py:`In(WIDE)`
        A partial sum, or in the lower bits a word.
    b : :py:`In(format.width)`
    limit : :py:`In(MANTISSA_BITS - 1)`
        The largest integer that is left of a word.
    op : :py:`In(OP)`
        A :class:`VectorOp`.
    z : :py:`Out(format.width)`
        Of an infinite word, or of none, the integer means nothing.
    """

    LATENCY = 1 + Converter.LATENCY

    def __init__(self, format):
        self.format = format
        super().__init__(
            {
                "a": In(WIDE),
                "b": In(format.width),
                "limit": In(MANTISSA_BITS - 1),
                "op": In(OP),
                "z": Out(format.width),
            }
        )

    def elaborate(self, platform):
        """Every operation at once, and the one that is wanted last."""
        m = Module()
        m.submodules.converter = converter = Converter(self.format, WIDE.width)
        m.submodules.quantiser = quantiser = Quantiser(self.format, MANTISSA_BITS)
        width, later = self.format.width, Converter.LATENCY - Quantiser.LATENCY
        exponent = register(m, "exponent", self.b[:EXPONENT_BITS].as_signed(), signed(EXPONENT_BITS))
        a = register(m, "a_1", self.a)
        m.d.comb += [
            converter.a.eq(a),
            converter.exponent.eq(exponent),
            quantiser.a.eq(a[:width]),
            quantiser.places.eq(exponent),
            quantiser.limit.eq(register(m, "limit_1", self.limit)),
        ]
        op = registers(m, "op", self.op, self.LATENCY)
        word = register(m, "word", self._simple(m))
        word = registers(m, "later", self._scaled(m, word, a[:width], exponent), Converter.LATENCY)
        integer, saturated = (registers(m, name, getattr(quantiser, name), later) for name in ("z", "saturated"))
        with m.Switch(op):
            with m.Case(VectorOp.CONVERT):
                m.d.comb += self.z.eq(converter.z)
            with m.Case(VectorOp.QUANTISE):
                m.d.comb += self.z.eq(integer)
            with m.Case(VectorOp.SATURATED):
                m.d.comb += self.z.eq(saturated)
            with m.Default():
                m.d.comb += self.z.eq(word)
        return m

    def _simple(self, m):
        """Give what takes one cycle: an exponent, the larger of two, an integer, or the bytes with one more."""
        format, word = self.format, Signal(self.format.width)
        a, b = self.a[: format.width], self.b
        sizes = [value[: format.width - 1] for value in (a, b)]
        number = Float(format)(a)
        exponent = Mux(number.is_zero, 1 - format.bias, number.exponent - (format.bias - 1))
        with m.Switch(self.op):
            with m.Case(VectorOp.EXPONENT):
                m.d.comb += word.eq(exponent)
            with m.Case(VectorOp.LARGEST):
                m.d.comb += word.eq(Cat(Mux(sizes[0] > sizes[1], sizes[0], sizes[1]), C(0, 1)))
            with m.Case(VectorOp.ADD_INTEGERS):
                m.d.comb += word.eq(a + b)
            with m.Case(VectorOp.SUBTRACT_INTEGERS):
                m.d.comb += word.eq(a - b)
            with m.Default():
                m.d.comb += word.eq(Cat(a[:_BYTE], b[: format.width - _BYTE]))
        return word

    def _scaled(self, m, word, a, exponent):
        """Give the word a with another exponent where that is wanted, a cycle after the others."""
        number, outcome = Float(self.format)(a), Signal(OUTCOME)
        biased = Signal(signed(EXPONENT_BITS + 1))
        m.d.comb += [
            biased.eq(number.exponent + exponent),
            outcome.sign.eq(number.sign),
            outcome.zero.eq(number.is_zero),
            outcome.infinite.eq(number.exponent.all()),
            outcome.nan.eq(number.is_nan),
        ]
        wanted = registers(m, "scales", self.op == VectorOp.SCALE, 1)
        return Mux(wanted, pack(self.format, Cat(number.fraction, biased), outcome), word)


class ElementUnit(wiring.Component):
    """An activation unit with a unit of integers beside it, as one: members and times as theirs.

    Members
    -------
    a, b, limit, op, z
        As those of :class:`IntegerUnit`; ``op`` may be σ, tanh and PACK, too.
    """

    LATENCY = Activation.LATENCY

    def __init__(self, format, activation=Activation):
        self._activation, self._integers = activation(format), IntegerUnit(format)
        super().__init__(dict(self._integers.signature.members))

    def elaborate(self, platform):
        """Both at once; the integers wait."""
        m = Module()
        m.submodules.activation, m.submodules.integers = activation, integers = self._activation, self._integers
        m.d.comb += [getattr(integers, name).eq(getattr(self, name)) for name in ("a", "b", "limit", "op")]
        m.d.comb += [activation.a.eq(self.a[: len(self.b)]), activation.b.eq(self.b)]
        with m.Switch(self.op):
            for op, function in FUNCTIONS.items():
                with m.Case(op):
                    m.d.comb += activation.function.eq(function)
        activated = Signal()
        m.d.comb += activated.eq(Cat(self.op == op for op in FUNCTIONS).any())
        integer = registers(m, "integer", integers.z, self.LATENCY - integers.LATENCY)
        m.d.comb += self.z.eq(Mux(registers(m, "activated", activated, self.LATENCY), activation.z, integer))
        return m
