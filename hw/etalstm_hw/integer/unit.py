"""Units of element-wise work on integers, which stand beside the activation units."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import NOTED_NOT_FINITE, NOTHING_NOTED, OF_BYTES, VectorOp
from etalstm_hw.contract.integers import WORD_BYTES
from etalstm_hw.fp.activation import FUNCTIONS, LOOK_UP, Activation
from etalstm_hw.fp.format import OUTCOME, Float, pack
from etalstm_hw.fp.pipeline import register, registers
from etalstm_hw.integer.convert import Converter
from etalstm_hw.integer.quantise import Quantiser, digits
from etalstm_hw.integer.widths import EXPONENT_BITS, MANTISSA_BITS, WIDE

OP = range(max(VectorOp) + 1)
_BYTE = 8
_NOTED_BITS = NOTED_NOT_FINITE.bit_length() + 1


class _Kept(data.StructLayout):
    """What a unit keeps of a lane: bytes of a word; of what was noted the largest exponent, how much was clamped, and
    the sum of the integers.
    """

    def __init__(self, width):
        super().__init__({"bytes": width, "largest": signed(_NOTED_BITS), "clamped": width, "sum": width})


class IntegerUnit(wiring.Component):
    """What VECTOR does with integers: every operation from ``CONVERT`` on, as :class:`VectorOp` says.

    One result per cycle: ``z`` belongs to the inputs of ``LATENCY`` cycles ago. Some lanes take turns, one a cycle.

    Parameters
    ----------
    format : FloatFormat
        Of 32 bits.
    banks : int
        Lanes that take turns.

    Members
    -------
    valid : :py:`In(1)`
        There is something to do.
    a : :py:`In(WIDE)`
        A partial sum, or in the lower bits a word.
    b : :py:`In(format.width)`
    limit : :py:`In(MANTISSA_BITS - 1)`
        The largest integer that is left of a word.
    threshold : :py:`In(format.width)`
        Of the digits.
    place : :py:`In(range(WORD_BYTES))`
        The byte of a word of bytes that is made or taken.
    op : :py:`In(OP)`
        A :class:`VectorOp`.
    z : :py:`Out(format.width)`
        Of an infinite word, or of none, the integer means nothing.
    """

    LATENCY = 1 + Converter.LATENCY

    def __init__(self, format, banks=1):
        self.format, self._banks = format, banks
        super().__init__(
            {
                "valid": In(1),
                "a": In(WIDE),
                "b": In(format.width),
                "limit": In(MANTISSA_BITS - 1),
                "threshold": In(format.width),
                "place": In(range(WORD_BYTES)),
                "op": In(OP),
                "z": Out(format.width),
            }
        )

    def elaborate(self, platform):
        """Every operation at once, and the one that is wanted last."""
        m = Module()
        m.submodules.converter = converter = Converter(self.format, WIDE.width)
        m.submodules.quantiser = quantiser = Quantiser(self.format, MANTISSA_BITS)
        width = self.format.width
        exponent = register(m, "exponent", self.b[:EXPONENT_BITS].as_signed(), signed(EXPONENT_BITS))
        a = register(m, "a_1", self.a)
        byte = register(m, "byte_of_a", self.a[: self.format.width].word_select(self.place, _BYTE).as_signed())
        of_byte = register(m, "of_byte", self.op == VectorOp.CONVERT_BYTE)
        m.d.comb += [
            converter.a.eq(Mux(of_byte, byte, a.as_signed())),
            converter.exponent.eq(exponent),
            quantiser.a.eq(a[:width]),
            quantiser.places.eq(exponent),
            quantiser.limit.eq(register(m, "limit_1", self.limit)),
        ]
        op = registers(m, "op", self.op, self.LATENCY)
        word = register(m, "word", self._simple(m))
        word = registers(m, "later", self._scaled(m, word, a[:width], exponent), Converter.LATENCY)
        integer = register(m, "integer", quantiser.z)
        kept, total = self._keep(m, op, quantiser, a[:width], exponent, Mux(op == VectorOp.NOTED_SUM, word, integer))
        with m.Switch(op):
            with m.Case(VectorOp.CONVERT, VectorOp.CONVERT_BYTE):
                m.d.comb += self.z.eq(converter.z)
            with m.Case(VectorOp.QUANTISE):
                m.d.comb += self.z.eq(integer)
            with m.Case(*OF_BYTES):
                m.d.comb += self.z.eq(kept.bytes)
            with m.Case(VectorOp.NOTED_EXPONENT):
                m.d.comb += self.z.eq(kept.largest)
            with m.Case(VectorOp.NOTED_CLAMPED):
                m.d.comb += self.z.eq(kept.clamped)
            with m.Case(VectorOp.NOTED_SUM):
                m.d.comb += self.z.eq(total)
            with m.Default():
                m.d.comb += self.z.eq(word)
        return m

    def _keep(self, m, op, quantiser, a, exponent, addend):
        """Go on with what is kept of the lane at hand; give it as it is for a result, and its sum plus an `addend`."""
        rest = Quantiser.LATENCY
        clamped = register(m, "clamped", quantiser.saturated)
        byte = self._byte(m, quantiser, a)
        place = registers(m, "place", self.place, self.LATENCY)
        number, size = Float(self.format)(a), signed(_NOTED_BITS)
        power = Mux(number.is_zero, NOTHING_NOTED, number.exponent - (self.format.bias - 1) + exponent)
        power = Mux(number.exponent.all(), NOTED_NOT_FINITE, power)
        power = registers(m, "power", register(m, "power_2", power, size), rest)
        lanes = [Signal(_Kept(self.format.width), init={"largest": NOTHING_NOTED}, name=f"kept_{n}")
                 for n in range(self._banks)]  # fmt: skip
        before, now, following = lanes[0], Signal(_Kept(self.format.width)), Signal(_Kept(self.format.width))
        bytes_now, total = Signal(self.format.width), Signal(self.format.width)
        m.d.comb += [
            bytes_now.eq(Mux(place == 0, 0, before.bytes)),
            bytes_now.word_select(place, _BYTE).eq(byte),
            total.eq(before.sum + addend),
            now.eq(before),
            now.bytes.eq(bytes_now),
            following.eq(before),
        ]
        with m.Switch(op):
            with m.Case(*OF_BYTES):
                m.d.comb += following.bytes.eq(bytes_now)
        with m.Switch(op):
            with m.Case(VectorOp.NOTED_DIGITS):
                m.d.comb += [following.clamped.eq(before.clamped + clamped), following.sum.eq(total)]
                with m.If(power > before.largest):
                    m.d.comb += following.largest.eq(power)
            with m.Case(VectorOp.NOTED_EXPONENT):
                m.d.comb += following.largest.eq(NOTHING_NOTED)
            with m.Case(VectorOp.NOTED_CLAMPED):
                m.d.comb += following.clamped.eq(0)
            with m.Case(VectorOp.NOTED_SUM):
                m.d.comb += following.sum.eq(0)
        with m.If(registers(m, "valid", self.valid, self.LATENCY)):
            m.d.sync += [each.eq(older) for each, older in zip(lanes, [*lanes[1:], following], strict=True)]
        return now, total

    def _byte(self, m, quantiser, a):
        """Give the byte that is wanted of an integer, a cycle after it: 0 of one that is below the threshold."""
        size = self.format.width - 1
        threshold = register(m, "threshold", self.threshold[:size])
        below = registers(m, "below", a[:size] < threshold, Quantiser.LATENCY)
        op = registers(m, "op_of_digits", self.op, self.LATENCY - 1)
        upper, lower = digits(quantiser.z)
        digit = Mux(op == VectorOp.UPPER_DIGITS, upper, lower)
        return register(m, "byte", Mux(below & (op != VectorOp.BYTES), 0, digit)[:_BYTE])

    def _simple(self, m):
        """Give what takes one cycle: an exponent, the larger of two, or an integer."""
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
            with m.Case(VectorOp.NOTED_SUM):
                m.d.comb += word.eq(a)
            with m.Default():
                m.d.comb += word.eq(a - b)
        return word

    def _scaled(self, m, word, a, exponent):
        """Give the word a with another exponent where that is wanted, a cycle after the others."""
        number, outcome = Float(self.format)(a), Signal(OUTCOME)
        biased = Signal(signed(EXPONENT_BITS + 1))
        m.d.comb += [
            biased.eq(number.exponent + exponent),
            outcome.sign.eq(number.sign & ~outcome.zero),
            outcome.zero.eq(~outcome.infinite & (number.is_zero | (biased < 1))),
            outcome.infinite.eq(number.exponent.all()),
            outcome.nan.eq(number.is_nan),
        ]
        wanted = registers(m, "scales", self.op == VectorOp.SCALE, 1)
        return Mux(wanted, pack(self.format, Cat(number.fraction, biased), outcome), word)


class ElementUnit(wiring.Component):
    """An activation unit with a unit of integers beside it, as one: members and times as theirs.

    Members
    -------
    valid, a, b, limit, threshold, place, op, z
        As those of :class:`IntegerUnit`; ``op`` may be σ, tanh and PACK, too.
    address, line : :py:`Out(...)`, :py:`In(...)`
        Of the activation unit, if its coefficients lie outside.
    """

    LATENCY = Activation.LATENCY

    def __init__(self, format, banks, activation=Activation):
        self._activation, self._integers = activation(format), IntegerUnit(format, banks)
        self._looks_up = "line" in self._activation.signature.members
        super().__init__(dict(self._integers.signature.members) | (LOOK_UP if self._looks_up else {}))

    def elaborate(self, platform):
        """Both at once; the integers wait."""
        m = Module()
        m.submodules.activation, m.submodules.integers = activation, integers = self._activation, self._integers
        given = [name for name in integers.signature.members if name != "z"]
        m.d.comb += [getattr(integers, name).eq(getattr(self, name)) for name in given]
        m.d.comb += [activation.a.eq(self.a[: len(self.b)]), activation.b.eq(self.b)]
        if self._looks_up:
            m.d.comb += [self.address.eq(activation.address), activation.line.eq(self.line)]
        with m.Switch(self.op):
            for op, function in FUNCTIONS.items():
                with m.Case(op):
                    m.d.comb += activation.function.eq(function)
        activated = Signal()
        m.d.comb += activated.eq(Cat(self.op == op for op in FUNCTIONS).any())
        integer = registers(m, "integer", integers.z, self.LATENCY - integers.LATENCY)
        m.d.comb += self.z.eq(Mux(registers(m, "activated", activated, self.LATENCY), activation.z, integer))
        return m
