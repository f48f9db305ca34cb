"""Omni-PE of integers: two products with one scalar, and their sums, in what one DSP slice has."""

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.pipeline import register
from etalstm_hw.integer.widths import FIELD_BITS, SCALAR_BITS, WEIGHT_BITS


class IntegerPE(wiring.Component):
    """Multiplies two weights by one scalar, and adds the products to two sums, which lie side by side in one word.

    The two weights are one factor: ``high · 2^FIELD_BITS + low``. So the word is the high sum times 2^FIELD_BITS plus
    the low one, which borrows from it when it is negative; :func:`fields` takes them apart.
    ::

           low ─│──────┐
          high ─│─ << ─┴─ + ─│─┐
                               × ─│─ + ─│─┬─► sums
        scalar ─│────────────│─┘     │    │
                                     └MUX─┘ P, or 0 where ``begins``
        cycle   0            1    2      3    4

    This is one DSP48E2: ports A, D and B, pre-adder, multiplier, the multiplexer Z, the adder and the register P. It
    takes one operation a cycle, free running. Where there is nothing to multiply, the scalar is 0.

    Members
    -------
    low, high : :py:`In(signed(WEIGHT_BITS))`
    scalar : :py:`In(signed(SCALAR_BITS))`
    begins : :py:`In(1)`
        The sums begin with the products of the operands of ``BEGINS`` cycles ago.
    sums : :py:`Out(2 * FIELD_BITS)`
        Of all products since the sums began, up to those of the operands of ``LATENCY`` cycles ago.
    """

    LATENCY, BEGINS = 4, 2

    def __init__(self):
        weight, scalar = In(signed(WEIGHT_BITS)), In(signed(SCALAR_BITS))
        super().__init__(
            {"low": weight, "high": weight, "scalar": scalar, "begins": In(1), "sums": Out(2 * FIELD_BITS)}
        )

    def elaborate(self, platform):
        """Lay out the stages of the slice."""
        m = Module()
        width = 2 * FIELD_BITS
        low, high = register(m, "low_1", self.low), register(m, "high_1", self.high)
        scalar = register(m, "scalar_1", self.scalar)

        pair = register(m, "pair", (high << FIELD_BITS) + low, signed(WEIGHT_BITS + FIELD_BITS + 1))
        scalar = register(m, "scalar_2", scalar)

        product = register(m, "product", pair * scalar)
        begins = register(m, "begins_3", self.begins)

        sums = Signal(width, reset_less=True)
        m.d.sync += sums.eq(product + Mux(begins, 0, sums))
        m.d.comb += self.sums.eq(sums)
        return m


def fields(sums):
    """Take a word of two sums apart: the low one, the high one, and what was borrowed from the high one, 1 or 0."""
    low, high = sums[:FIELD_BITS], sums[FIELD_BITS:]
    return low.as_signed(), high.as_signed(), low[-1]
