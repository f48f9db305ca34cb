"""Floating-point adder."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.format import OUTCOME, Float, pack
from etalstm_hw.fp.pipeline import register
from etalstm_hw.fp.shift import leading_zeros, signed_power

PLACES_BITS = 4
REACH = 1 << PLACES_BITS
"""Powers of two, with either sign, that the narrow port of a DSP48E2 takes."""


class Adder(wiring.Component):
    """Sum of two words, rounded to nearest, ties to even.

    One sum per cycle, free running: ``z`` belongs to the operands of ``LATENCY`` cycles ago. There is no stall and no
    reset; to subtract, flip the sign of ``b``. Subnormal operands are zeros of their sign, and so is a sum below the
    smallest normal number. Exact cancellation gives +0. There is one NaN, ``format.nan``.
    ::

        a, b ─► order by  ─│─► larger +           ─│─► count  ─│─► sum · 2^n   ─│─► even, pack ─│─► z
                exponent   │   smaller · (±2^-n)   │   zeros   │   + ½ + 2^e    │
                           1                       2           3                4               5

    Both shifts are multiplications by a power of two, of ``REACH`` places; each takes a DSP slice with the addition
    behind it and the registers around it. Longer shifts go ``REACH`` places or so first. The signs of the powers make
    the smaller operand negative where signs differ, and the sum positive where the operands' order was wrong.

    The bits of ``total``, the sum of stage 2, for a significand of p bits and ``REACH`` 16 (binary32: p is 24)::

        bit      p+18   p+17    p+16 … 17                16    15      14 … 0
                 sign │ carry │ significand of `larger` │    │ guard │ sticky

    How many zeros stand above the leading one tells which bits are the fraction, and which are rounded::

        zeros    last place    half    below the half
        0        18            17      16, guard, sticky
        1        17            16      guard, sticky
        2        16            guard   sticky
        n > 2    18 - n        none    the operands were so close that guard and sticky are 0

    So ``number``, the bits from 16 to the carry, is all that stage 4 shifts. In ``rounded``, the shifted number with
    the half and the exponent added, two bits are below the last place, the half and the one under it.

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
        self._exponent_bits = max(format.exponent, PLACES_BITS + 1) + 2  # with a sign, and room for carry and zeros
        super().__init__({"a": In(format.width), "b": In(format.width), "z": Out(format.width)})

    def elaborate(self, platform):
        """Lay out the stages of the pipeline, top to bottom."""
        m = Module()
        layout = Float(self.format)
        exponent, outcome, total = self._add(m, layout(self.a), layout(self.b))
        rounded, sticky, outcome = self._normalise(m, exponent, outcome, total)

        # Stage 5: a half has been added. Only a tie has nothing below the last place then; it is rounded to even.
        low = len(rounded) - self._exponent_bits - self.format.mantissa
        tie = ~sticky & ~rounded[:low].any()
        even = Cat(rounded[low] & ~tie, rounded[low + 1 :])
        m.d.comb += self.z.eq(register(m, "result", pack(self.format, even, outcome)))
        return m

    def _add(self, m, a, b):
        """Stages 1 and 2: give the larger exponent, what the operands decide, and the sum in two's complement.

        The sum has a bit for its carry, and ``REACH + 1`` bits below the last place of the larger operand.
        """
        apart = Signal(signed(max(self.format.exponent, PLACES_BITS + 2) + 1))
        swap, subtract = apart[-1], a.sign ^ b.sign
        # Whether the bits that a long alignment shifts out have a one. With the rest of the fraction they tell a NaN.
        a_sticky, b_sticky = a.fraction[: REACH - 1].any(), b.fraction[: REACH - 2].any()
        addend, power = self._align(m, a, b, apart, subtract, Mux(swap, a_sticky, b_sticky))
        # Two zeros leave a one in `larger`, but of exponent 0, which packs to a zero.
        larger = register(m, "larger", Mux(swap, b.significand, a.significand))
        exponent = register(m, "exponent_1", Mux(swap, b.exponent, a.exponent))
        outcome = Signal(OUTCOME)
        both = a.exponent.all() & b.exponent.all()
        a_nan = a.exponent.all() & (a_sticky | a.fraction[REACH - 1 :].any())
        b_nan = b.exponent.all() & (b_sticky | b.fraction[REACH - 2 :].any())
        m.d.comb += [
            apart.eq(a.exponent - b.exponent),
            outcome.sign.eq(Mux(swap, b.sign, a.sign & (b.sign | ~a.is_zero))),
            outcome.infinite.eq(a.exponent.all() | b.exponent.all()),
            outcome.nan.eq(a_nan | b_nan | (both & subtract)),
        ]
        outcome = register(m, "outcome_1", outcome, OUTCOME)

        # Stage 2
        augend = Cat(C(0, REACH + 1), larger, C(0, 2)).as_signed()
        total = register(m, "total", augend + addend * power, signed(len(augend)))
        return register(m, "exponent_2", exponent), register(m, "outcome_2", outcome, OUTCOME), total

    def _align(self, m, a, b, apart, subtract, sticky):
        """Stage 1: give the smaller significand, and the power of two to multiply it by."""
        # `places` is the distance, or if swapped one less, which `small` makes up for.
        swap = apart[-1]
        places = Signal(len(apart) - 1)
        m.d.comb += places.eq(apart[:-1] ^ swap.replicate(len(places)))
        small = Mux(swap, Cat(C(0, 1), a.significand, C(0, 1)), Cat(C(0, 2), b.significand))
        absent = Mux(swap, a.is_zero, b.is_zero)

        # From `REACH` places on the operand is shifted by `REACH - 1` first, and the power makes up for the rest. The
        # bits that this shifts out, at most an eighth of the last place, are jammed: their OR becomes bit 0. Much
        # further off, whatever the power, the jammed bit is all that is left.
        moved = small[REACH:]
        coarse = places[PLACES_BITS:].any()
        far = places[PLACES_BITS + 1 :].any() | places[1 : PLACES_BITS + 1].all()
        jammed = sticky if len(moved) else C(1, 1)  # a short operand is shifted out whole
        addend = [
            register(m, "jammed", coarse & ~absent & jammed),
            register(m, "high", Mux(coarse | absent, 0, small[1 + len(moved) :])),
            C(0, 1),
        ]
        if len(moved):
            either = Mux(coarse, moved, small[1 : 1 + len(moved)])
            addend.insert(1, register(m, "middle", Mux(far | absent, 0, either)))
        borrows = [coarse & places[:n].all() for n in range(PLACES_BITS)]
        exponent = [~(place ^ borrow) for place, borrow in zip(places[: PLACES_BITS - 1], borrows, strict=False)]
        exponent.append(~(places[PLACES_BITS - 1] | borrows[-1]))
        power = register(m, "power_1", signed_power(Cat(*exponent), subtract), signed(REACH + 1))
        return Cat(*addend).as_signed(), power

    def _normalise(self, m, exponent, outcome, total):
        """Stages 3 and 4: give the rounded sum with the bits below its last place, whether more was below, the outcome.

        The rounded sum has fraction and exponent as :func:`pack` wants them.
        """
        negative, guard, sticky = total[-1], total[REACH - 1], total[: REACH - 1].any()
        number = Cat(C(0, max(0, 2 * REACH + 1 - len(total))), total[REACH:-1])
        coarse, zeros, moved = Signal(), Signal(PLACES_BITS), Signal(len(number))
        top = moved[-REACH:]
        m.d.comb += [
            coarse.eq(number[-REACH:] == negative.replicate(REACH)),
            moved.eq(Mux(coarse, number << REACH, number)),
            zeros.eq(leading_zeros(top ^ negative.replicate(REACH))),
        ]
        guard_is_half = guard & (zeros == 2) & ~coarse
        sticky = register(m, "inexact_3", sticky | (guard & ~guard_is_half))
        factor = register(m, "power_3", signed_power(zeros, negative), signed(REACH + 1))
        normal = register(m, "normal", Cat(moved, negative), signed(len(number) + 1))
        # `number` has no guard: a guard that is the half makes, with the half that is added, one of the last place.
        # The leading one adds the one, or rounded up the two, that the exponent lacks here.
        half = Cat(~guard_is_half, guard_is_half, C(0, self.format.mantissa - 1))
        lesser = Signal(self._exponent_bits)
        m.d.comb += lesser.eq(exponent - Cat(zeros, coarse))
        offset = register(m, "offset", Cat(C(0, len(number) - 2 - self.format.mantissa), half, lesser))

        final = Signal(OUTCOME)
        m.d.comb += [
            final.eq(outcome),
            final.zero.eq(~top.any() & ~negative),
            final.sign.eq((outcome.sign ^ negative) & ~final.zero),
        ]
        final = register(m, "outcome_3", final, OUTCOME)

        # Stage 4
        rounded = register(m, "rounded", offset + normal * factor, len(offset))
        return rounded, register(m, "inexact_4", sticky), register(m, "outcome_4", final, OUTCOME)
