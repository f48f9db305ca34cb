"""Sigmoid and hyperbolic tangent, and two words packed into one."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import BINARY32, VectorOp
from etalstm_hw.contract.activation_tables import (
    COEFFICIENT_BITS,
    FIRST,
    FRACTION_BITS,
    LAST,
    OFFSET_BITS,
    PACK,
    SEGMENT_BITS,
    SIGMOID,
    TANH,
    coefficients,
)
from etalstm_hw.fp.format import Float, round_to_half
from etalstm_hw.fp.normalise import normalise
from etalstm_hw.fp.pipeline import register

FUNCTIONS = {VectorOp.SIGMOID: SIGMOID, VectorOp.TANH: TANH, VectorOp.PACK: PACK}
"""What the unit computes, and the number of the function."""

LINE = data.StructLayout({f"c{n}": bits for n, bits in enumerate(COEFFICIENT_BITS)})
"""A line of the coefficient memory."""

BINADE_BITS = (LAST - FIRST).bit_length()
ADDRESS_BITS = SEGMENT_BITS + BINADE_BITS
LOOK_UP = {"address": Out(ADDRESS_BITS), "line": In(LINE)}
"""Members of a unit whose coefficients lie outside."""

SIDEBAND = data.StructLayout(
    {
        "fraction": BINARY32.mantissa,
        "exponent": BINARY32.exponent,  # 2 more than that of a result whose fixed-point value is 1
        "shift": 5,  # places from the table's scale to that of the sigmoid
        "half": 1,  # add 1, for (1 ± tanh) / 2
        "negate": 1,
        "identity": 1,  # too small for the table: tanh(y) = y
        "saturated": 1,  # too large for it: tanh(y) = 1
        "sign": 1,
        "zero": 1,
        "nan": 1,
        "pack": 1,  # the result is `fraction`, `exponent` and `sign` as they are
    }
)
"""What stage 1 knows about a word, and the stages after it carry along."""

READERS = 2
"""Units that one memory of coefficients serves: a block RAM has two ports."""


class Coefficients(wiring.Component):
    """The coefficients of the tables, for some units.

    Parameters
    ----------
    units : int
        How many read at a time.

    Members
    -------
    address0, line0 … : :py:`In(ADDRESS_BITS)`, :py:`Out(LINE)`
        A unit's address, and the line of the one that was there a cycle ago.
    """

    def __init__(self, units):
        self._units = units
        ports = {f"address{n}": In(ADDRESS_BITS) for n in range(units)} | {f"line{n}": Out(LINE) for n in range(units)}
        super().__init__(ports)

    def elaborate(self, platform):
        """A memory with a read port for each unit."""
        m = Module()
        lines = [LINE.const({"c0": c0, "c1": c1, "c2": c2}) for c0, c1, c2 in coefficients()]
        m.submodules.rom = rom = Memory(shape=LINE, depth=len(lines), init=lines)
        for n in range(self._units):
            read = rom.read_port()
            m.d.comb += [read.addr.eq(getattr(self, f"address{n}")), getattr(self, f"line{n}").eq(read.data)]
        return m


def connect_coefficients(m, units):
    """Add memories of coefficients for those of some units that have none of their own."""
    needing = [unit for unit in units if "line" in unit.signature.members]
    for first in range(0, len(needing), READERS):
        some = needing[first : first + READERS]
        m.submodules[f"coefficients_{first}"] = memory = Coefficients(len(some))
        for n, unit in enumerate(some):
            address, line = getattr(memory, f"address{n}"), getattr(memory, f"line{n}")
            m.d.comb += [address.eq(unit.address), unit.line.eq(line)]


class Activation(wiring.Component):
    """Sigmoid or hyperbolic tangent of a word, or two words rounded to bfloat16 and packed into one.

    One result per cycle, free running: ``z`` belongs to the inputs of ``LATENCY`` cycles ago. There is no stall and no
    reset. The result is within 2 ulp or 2^-23 of the function, whichever is larger, and tanh within a relative 2^-20;
    :mod:`.tables` says how it comes about and :mod:`etalstm.golden.activation` computes the same integers. A subnormal
    is a zero; a NaN gives ``format.nan``.

    Packed words are rounded by :func:`~etalstm_hw.fp.format.round_to_half`. They take the way of what the other
    functions carry along, which has as many bits: so a unit that packs costs little more than its two rounders.
    ::

        a ─► address ─│─► ROM ─│─► c2·d ─│─► c1 - ─│─► ·d ─│─► c0 + ─│─► v or (1 ± v)/2 ─│─► normalise ─│─► round ─│─► z
                      1        2         3         4       5         6                   7              8          9

    Two multipliers (16 × 17 and 23 × 17 bits: a DSP slice each) and a ROM of 1024 × 69 bits, two block RAMs, which two
    units may share.

    Parameters
    ----------
    format : FloatFormat
        Number format. The tables are those of BINARY32, and any other raises ValueError.
    shares : bool
        The coefficients lie outside, see :func:`connect_coefficients`.

    Members
    -------
    a : :py:`In(format.width)`
        Operand.
    b : :py:`In(format.width)`
        Second operand of ``tables.PACK``, which goes to the upper half of the result.
    function : :py:`In(2)`
        ``tables.SIGMOID``, ``tables.TANH`` or ``tables.PACK``, a new choice every cycle.
    z : :py:`Out(format.width)`
        Result.
    address, line : :py:`Out(ADDRESS_BITS)`, :py:`In(LINE)`
        If it ``shares``: which coefficients are wanted, and those that were wanted a cycle ago.
    """

    LATENCY = 9

    def __init__(self, format, shares=False):
        if format != BINARY32:
            raise ValueError(f"activation tables exist for {BINARY32}, got {format}")
        self.format, self._shares = format, shares
        word = format.width
        super().__init__(
            {"a": In(word), "b": In(word), "function": In(2), "z": Out(word)} | (LOOK_UP if shares else {})
        )

    @classmethod
    def sharing(cls, format):
        """Make a unit whose coefficients lie outside."""
        return cls(format, shares=True)

    def elaborate(self, platform):
        """Lay out the stages of the pipeline, top to bottom."""
        m = Module()

        # Stages 1 and 2
        sideband, address = self.classify(m)
        sideband = register(m, "sideband_1", sideband, SIDEBAND)
        line = self._look_up(m, register(m, "address", address))
        sideband = register(m, "sideband_2", self.round(m, sideband, register(m, "b_1", self.b)), SIDEBAND)

        # Stages 3 to 6: Horner's rule.
        bend = register(m, "bend", (line.c2 * sideband.fraction[:OFFSET_BITS]) >> OFFSET_BITS)
        c0, c1 = register(m, "c0_3", line.c0), register(m, "c1_3", line.c1)
        sideband = register(m, "sideband_3", sideband, SIDEBAND)

        slope = register(m, "slope", c1 - bend, unsigned(len(c1)))
        c0 = register(m, "c0_4", c0)
        sideband = register(m, "sideband_4", sideband, SIDEBAND)

        rise = register(m, "rise", (slope * sideband.fraction[:OFFSET_BITS]) >> OFFSET_BITS)
        c0 = register(m, "c0_5", c0)
        sideband = register(m, "sideband_5", sideband, SIDEBAND)

        one = 1 << FRACTION_BITS
        identity = Cat(C(0, FRACTION_BITS - len(sideband.fraction)), sideband.fraction, 1)
        value = Mux(sideband.identity, identity, Mux(sideband.saturated, one, c0 + rise))
        value = register(m, "value", value, unsigned(FRACTION_BITS + 1))
        sideband = register(m, "sideband_6", sideband, SIDEBAND)

        # Stage 7: for the tangent neither shifted nor added to.
        aligned = Signal(FRACTION_BITS + 2)
        m.d.comb += aligned.eq(value >> sideband.shift)
        number = Mux(sideband.half, one, 0) + Mux(sideband.negate, ~aligned, aligned) + sideband.negate
        number = register(m, "number", number, unsigned(FRACTION_BITS + 2))
        sideband = register(m, "sideband_7", sideband, SIDEBAND)

        # Stage 8
        normal, zeros = (register(m, f"normal_{n}", word) for n, word in enumerate(normalise(m, number)))
        sideband = register(m, "sideband_8", sideband, SIDEBAND)

        # Stage 9: adding ~zeros takes zeros + 1 away from the exponent. No result is subnormal and none overflows.
        mantissa, exponent_bits = self.format.mantissa, self.format.exponent
        kept, guard, sticky = normal[-1 - mantissa : -1], normal[-2 - mantissa], normal[: -2 - mantissa].any()
        rounded = Signal(self.format.width - 1)
        correction = Cat(~zeros, Const(-1, exponent_bits - len(zeros)))
        up = Cat(guard & (sticky | kept[0]), C(0, mantissa - 1), correction)
        m.d.comb += rounded.eq(Cat(kept, sideband.exponent) + up)
        zero = sideband.zero | ~normal[-1]
        computed = Mux(sideband.nan, self.format.nan, Cat(Mux(zero, 0, rounded), sideband.sign))
        result = Mux(sideband.pack, word_of(sideband), computed)
        m.d.comb += self.z.eq(register(m, "result", result))
        return m

    def _look_up(self, m, address):
        """Give the coefficients at an address, a cycle later."""
        if self._shares:
            m.d.comb += self.address.eq(address)
            return self.line
        m.submodules.coefficients = memory = Coefficients(1)
        m.d.comb += memory.address0.eq(address)
        return memory.line0

    def classify(self, m):
        """Decide what becomes of the operand: tanh(y) of y = ``|a|``, or of ``|a| / 2`` for the sigmoid.

        Returns
        -------
        View of SIDEBAND, and the address of the coefficients; both combinational.
        """
        a, bias = Float(self.format)(self.a), self.format.bias
        tangent, pack = self.function == TANH, self.function == PACK
        binade = Signal(signed(self.format.exponent + 2))
        sideband = Signal(SIDEBAND)
        places = (bias + 1) - a.exponent  # the binade of y is 2^-places
        longest = (1 << len(sideband.shift)) - 1
        below_one = a.exponent < bias + 1
        shift = Mux(places > longest, longest, places[: len(sideband.shift)])
        m.d.comb += [
            binade.eq(a.exponent - Mux(tangent, bias + FIRST, bias + FIRST + 1)),
            sideband.fraction.eq(a.fraction),
            sideband.exponent.eq(Mux(pack, a.exponent, Mux(tangent, Mux(below_one, a.exponent, bias), bias - 1) + 2)),
            sideband.shift.eq(Mux(~tangent & below_one, shift, 0)),
            sideband.half.eq(~tangent),
            sideband.negate.eq(~tangent & a.sign),
            sideband.identity.eq(binade < 0),
            sideband.saturated.eq(binade > LAST - FIRST),
            sideband.sign.eq((tangent | pack) & a.sign),
            sideband.zero.eq(tangent & a.is_zero),  # the sigmoid shifts a zero's fraction out
            sideband.nan.eq(a.is_nan),
            sideband.pack.eq(pack),
        ]
        return sideband, Cat(a.fraction[-SEGMENT_BITS:], binade[:BINADE_BITS])

    def round(self, m, sideband, b):
        """Give what is known of the first operand, its word replaced by both operands' halves if they are packed."""
        halves = Signal(self.format.width)
        m.d.comb += halves.eq(Cat(round_to_half(self.format, word) for word in (word_of(sideband), b)))
        packed, rounded = Float(self.format)(halves), Signal(SIDEBAND)
        m.d.comb += rounded.eq(sideband)
        with m.If(sideband.pack):
            m.d.comb += [rounded[name].eq(packed[name]) for name in ("fraction", "exponent", "sign")]
        return rounded


def word_of(sideband):
    """Put fraction, exponent and sign together."""
    return Cat(sideband.fraction, sideband.exponent, sideband.sign)
