"""Omni-PE: one multiplier and one adder that serve matrix products and element-wise work alike."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from etalstm.hw.stream import vector_layout


class Operation(data.StructLayout):
    """What the PEs of a channel do with the operands of a cycle; all zeros is a + b, which claims nothing.

    Members
    -------
    mac : weight · scalar + partial, otherwise the operands are a and b
    empty : there is no product; what would be added to it is the sum
    begins : with ``mac``: the sum starts here, there is no partial
    biased : with ``begins``: from the bias
    multiply : a · b
    subtract : a - b
    """

    def __init__(self):
        super().__init__(dict.fromkeys(("mac", "empty", "begins", "biased", "multiply", "subtract"), 1))


class OmniPE(wiring.Component):
    """Datapath of one lane: a multiplier, an adder, and three operand multiplexers.

    Takes one operation per cycle, free running. Every operation is issued in one slot and has a fixed result time:
    what goes to the adder beside a product is delayed by the time of a product. What needs no product multiplies, too:
    a sum by 1, which only flushes what the adder would, an empty one 0 by -1, which gives the -0 that adds nothing. So
    the adder needs no multiplexer, and what it adds no delay. Who takes a result chooses between product and sum.
    ::

        weight ─┐
             a ─┴─mux, or 0 ──────│─┐                ┌──────────────────────────────────► product
        scalar ─┐                   ├─► multiplier ─┴──────┐
             b ─┴─mux, or 1, -1 ──│─┘                       ├─► adder ──────────────────► sum
             b ─────────│─┬─mux, or 0, -0 ─│─ (delay) ─ change sign ─┘
       partial ─┬─mux ──│─┘
          bias ─┘

        cycle 0         1         2           1 + multiplier.LATENCY   1 + multiplier.LATENCY + adder.LATENCY

    Parameters
    ----------
    format : FloatFormat
        Number format of operands and results.
    multiplier, adder : Component
        Arithmetic units with members ``a``, ``b`` (in), ``z`` (out) and a constant ``LATENCY``.

    Members
    -------
    weight, scalar, partial, bias : :py:`In(format.width)`
        Operands of a MAC.
    a, b : :py:`In(format.width)`
        Operands of element-wise work.
    mac, begins : :py:`In(1)`
        Select the operands, in their cycle: ``weight`` and ``scalar`` instead of ``a`` and ``b``; ``bias`` instead of
        ``partial``.
    empty, unit : :py:`In(1)`
        Select constants, in the operands' cycle: 0 instead of ``a``; 1 instead of ``b``, or -1 if ``empty``.
    accumulate, nothing, zero : :py:`In(1)`
        Select what is added, in the cycle after: ``bias`` or ``partial`` instead of ``b``; -0; with ``nothing``: 0.
    negate : :py:`In(1)`
        The adder adds minus ``b``; in the cycle of the product.
    product, sum : :py:`Out(format.width)`
        What multiplier and adder give.
    """

    def __init__(self, format, multiplier, adder):
        self.format, self.multiplier, self.adder = format, multiplier, adder
        words = ("weight", "scalar", "partial", "bias", "a", "b")
        controls = ("mac", "begins", "empty", "unit", "accumulate", "nothing", "zero", "negate")
        super().__init__(
            {name: In(format.width) for name in words}
            | {name: In(1) for name in controls}
            | {"product": Out(format.width), "sum": Out(format.width)}
        )

    def elaborate(self, platform):
        """Lay out the datapath cycle by cycle."""
        m = Module()
        m.submodules.multiplier = multiplier = self.multiplier
        m.submodules.adder = adder = self.adder
        width = self.format.width

        # Cycle 0. The constants come last: the registers' set and reset inputs make most of them.
        registers = ("a_", "start", "other", "addend")
        a, start, other, addend = (Signal(width, name=name, reset_less=True) for name in registers)
        b, b_sign = Signal(width - 1, name="b_", reset_less=True), Signal(reset_less=True)
        m.d.sync += [
            a.eq(Mux(self.mac, self.weight, self.a)),
            b.eq(Mux(self.mac, self.scalar, self.b)[:-1]),
            b_sign.eq(Mux(self.unit, self.empty, Mux(self.mac, self.scalar, self.b)[-1])),
            start.eq(Mux(self.begins, self.bias, self.partial)),
            other.eq(self.b),
        ]
        with m.If(self.empty):
            m.d.sync += a.eq(0)
        with m.If(self.unit):
            m.d.sync += b.eq(self.format.one)

        # Cycle 1. What is added is chosen no earlier: so the registers in a row that follow are too few for a shift
        # register of LUTs, of which the part has fewer to spare than of registers.
        m.d.comb += [multiplier.a.eq(a), multiplier.b.eq(Cat(b, b_sign))]
        m.d.sync += addend.eq(Mux(self.accumulate, start, other))
        with m.If(self.nothing):
            m.d.sync += addend.eq(Cat(C(0, width - 1), ~self.zero))
        for n in range(multiplier.LATENCY - 1):
            delayed = Signal(width, name=f"addend_{n}", reset_less=True)
            m.d.sync += delayed.eq(addend)
            addend = delayed

        # Cycle 1 + multiplier.LATENCY
        m.d.comb += [
            adder.a.eq(multiplier.z),
            adder.b.eq(Cat(addend[:-1], addend[-1] ^ self.negate)),
            self.product.eq(multiplier.z),
            self.sum.eq(adder.z),
        ]
        return m


class PEArray(wiring.Component):
    """The PEs of a channel under one control.

    One operation per cycle for all lanes, free running, no stall, no reset: a product is at ``product`` after
    ``multiply_latency`` cycles, a sum at ``sum`` after ``add_latency``.

    Parameters
    ----------
    format : FloatFormat
        Number format of operands and results.
    lanes : int
        Number of PEs.
    multiplier, adder : callable
        Make an arithmetic unit for a format, see :class:`OmniPE`.

    Members
    -------
    operation : :py:`In(Operation())`
        What is issued in this cycle. There is no ``valid``: whoever issues knows which results mean something.
    weight, partial, bias, a, b : :py:`In(vector_layout(format, lanes))`
        Operands, one word for each lane.
    scalar : :py:`In(format.width)`
        Operand of all lanes.
    product, sum : :py:`Out(vector_layout(format, lanes))`
        See :class:`OmniPE`.
    """

    def __init__(self, format, lanes, multiplier, adder):
        self.pes = [OmniPE(format, multiplier(format), adder(format)) for _ in range(lanes)]
        first = self.pes[0]
        self.product_cycle = 1 + first.multiplier.LATENCY
        self.multiply_latency = self.product_cycle
        self.add_latency = self.product_cycle + first.adder.LATENCY
        vector = vector_layout(format, lanes)
        super().__init__(
            {name: In(vector) for name in ("weight", "partial", "bias", "a", "b")}
            | {"operation": In(Operation()), "scalar": In(format.width), "product": Out(vector), "sum": Out(vector)}
        )

    def elaborate(self, platform):
        """Delay the control once for all lanes and wire up the PEs."""
        m = Module()
        now = self.operation
        nothing = now.mac & now.begins & ~now.biased
        late = Signal(3, reset_less=True)
        m.d.sync += late.eq(Cat(now.mac, nothing, now.empty))
        negate = now.subtract
        for n in range(self.product_cycle):
            stage = Signal(name=f"negate_{n}", reset_less=True)
            m.d.sync += stage.eq(negate)
            negate = stage
        for n, pe in enumerate(self.pes):
            m.submodules[f"pe_{n}"] = pe
            m.d.comb += [
                pe.mac.eq(now.mac),
                pe.begins.eq(now.begins),
                pe.empty.eq(now.empty),
                pe.unit.eq(now.empty | ~(now.mac | now.multiply)),
                Cat(pe.accumulate, pe.nothing, pe.zero).eq(late),
                pe.negate.eq(negate),
                pe.scalar.eq(self.scalar),
                *(getattr(pe, name).eq(getattr(self, name)[n]) for name in ("weight", "partial", "bias", "a", "b")),
                self.product[n].eq(pe.product),
                self.sum[n].eq(pe.sum),
            ]
        return m
