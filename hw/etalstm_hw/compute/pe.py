"""Omni-PE: one multiplier and one adder that serve matrix products and element-wise work alike."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.add import Adder
from etalstm_hw.fp.multiply import Multiplier
from etalstm_hw.stream import vector_layout

_WORDS = ("weight", "partial", "bias", "a", "b", "activated", "outside")  # that each lane has its own of


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
    scale : a · scalar + b
    square : a · a + b
    """

    def __init__(self):
        names = ("mac", "empty", "begins", "biased", "multiply", "subtract", "scale", "square")
        super().__init__(dict.fromkeys(names, 1))


class Output(enum.Enum, shape=2):  # type: ignore[call-arg] # Amaranth's metaclass takes it
    """What the output MUX of every PE passes on."""

    PRODUCT = 0  #: the multiplier's result, which skips the adder
    SUM = 1  #: the adder's
    ACTIVATION = 2  #: of the activation units, which the lanes share
    OUTSIDE = 3  #: a word that is loaded


class OmniPE(wiring.Component):
    """Datapath of one lane: one multiplier, one adder, four operand MUXes, and the output MUX that skips the adder.

    The partial sums lie beside the PE, with the lane's other memories (:mod:`~etalstm_hw.compute.memory`):
    ``sum`` is written there, ``partial`` is read from there. Source: η-LSTM, the Omni-PE design.
    ::

         weight ─┐
              a ─┴─MUX 1──│─┐
         scalar ─┐          ├─ multiplier ──┬──────────────────────────┐
           a, b ─┴─MUX 2──│─┘               └─┐                        ├─output MUX─► result
              b ──────────│─┐                 ├─ adder ──┬─────────────┤
        partial ─┐          ├─MUX 4─│─ delay ─┘          └─► sum       │
           bias ─┴─MUX 3──│─┘       (and sign)   activated, outside ───┘

        cycle 0             1        2        1 + multiplier.LATENCY   + adder.LATENCY

    ======================  ======  ======  ========  =========  ==========
    operation               MUX 1   MUX 2   MUX 3     MUX 4      output MUX
    ======================  ======  ======  ========  =========  ==========
    MAC                     weight  scalar  partial   MUX 3      (to the sums)
    MAC that begins a sum   weight  scalar  bias      MUX 3, -0  (to the sums)
    a · b, outer product    a       b                            product
    a + b, a - b            a       1                 b          sum
    a · scalar + b          a       scalar            b          sum
    a · a + b               a       a                 b          sum
    selection of b          0       -1                b          sum
    ======================  ======  ======  ========  =========  ==========

    Takes one operation per cycle, free running. Every operation has a fixed result time. So an addend is delayed by the
    time of a product. Every operation passes the multiplier. An addition multiplies ``a`` by 1, which only flushes
    subnormals; the adder would flush them anyway. An operation without a product multiplies 0 by -1: -0 is the neutral
    element of addition. So nothing but the multiplier feeds the adder's first operand.

    The output MUX takes four words, because a LUT of the part chooses between four: results of the activation units
    and loaded words use the same write port of the scratch memory.

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
        Operands of element-wise work, some of which multiplies by ``scalar``.
    mac, begins : :py:`In(1)`
        Select the operands, in their cycle: ``weight`` instead of ``a``; ``bias`` instead of ``partial``.
    scaled, squared : :py:`In(1)`
        Select what is multiplied by, in the operands' cycle: ``scalar``, or ``a``, instead of ``b``.
    empty, unit : :py:`In(1)`
        Select constants, in the operands' cycle: 0 instead of ``a``; 1 instead of ``b``, or -1 if ``empty``.
    accumulate, nothing, zero : :py:`In(1)`
        Select what is added, in the cycle after: ``bias`` or ``partial`` instead of ``b``; -0; with ``nothing``: 0.
    negate : :py:`In(1)`
        The adder adds minus ``b``; in the cycle of the product.
    activated, outside : :py:`In(format.width)`
        Words of others for the output MUX.
    output_select : :py:`In(Output)`
        Sets the output MUX; in the cycle of the result.
    result : :py:`Out(format.width)`
        What the output MUX passes on, in the same cycle.
    sum : :py:`Out(format.width)`
        The adder's result, for the memory of the partial sums.
    LATENCY : (int, int)
        Cycles from an operation to its product, and to its sum.
    """

    def __init__(self, format, multiplier, adder):
        self.format, self.multiplier, self.adder = format, multiplier, adder
        product = 1 + multiplier.LATENCY
        self.LATENCY = product, product + adder.LATENCY
        controls = (
            "mac", "begins", "scaled", "squared", "empty", "unit", "accumulate", "nothing", "zero", "negate",
        )  # fmt: skip
        super().__init__(
            {name: In(format.width) for name in (*_WORDS, "scalar")}
            | {name: In(1) for name in controls}
            | {"output_select": In(Output), "result": Out(format.width), "sum": Out(format.width)}
        )

    @classmethod
    def of(cls, format) -> "OmniPE":
        """Make a PE with the arithmetic units of a format."""
        return cls(format, Multiplier(format), Adder(format))

    def elaborate(self, platform):
        """Lay out the datapath cycle by cycle."""
        m = Module()
        m.submodules.multiplier = multiplier = self.multiplier
        m.submodules.adder = adder = self.adder
        width = self.format.width

        # Cycle 0, MUXes 1 to 3. The constants come last: the registers' set and reset inputs make most of them.
        registers = ("a_", "start", "other", "addend")
        a, start, other, addend = (Signal(width, name=name, reset_less=True) for name in registers)
        b, b_sign = Signal(width - 1, name="b_", reset_less=True), Signal(reset_less=True)
        factor = Mux(self.scaled, self.scalar, Mux(self.squared, self.a, self.b))
        m.d.sync += [
            a.eq(Mux(self.mac, self.weight, self.a)),
            b.eq(factor[:-1]),
            b_sign.eq(Mux(self.unit, self.empty, factor[-1])),
            start.eq(Mux(self.begins, self.bias, self.partial)),
            other.eq(self.b),
        ]
        with m.If(self.empty):
            m.d.sync += a.eq(0)
        with m.If(self.unit):
            m.d.sync += b.eq(self.format.one)

        # Cycle 1, MUX 4. What is added is chosen no earlier: so the registers in a row that follow are too few for a
        # shift register of LUTs, of which the part has fewer to spare than of registers.
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
            self.sum.eq(adder.z),
        ]

        # The output MUX. A product is here with the sums of operations that were issued adder.LATENCY cycles before.
        words = {
            Output.PRODUCT: multiplier.z,
            Output.SUM: adder.z,
            Output.ACTIVATION: self.activated,
            Output.OUTSIDE: self.outside,
        }
        with m.Switch(self.output_select):
            for output, word in words.items():
                with m.Case(output):
                    m.d.comb += self.result.eq(word)
        return m


class PEArray(wiring.Component):
    """The PEs of a channel under one control.

    One operation per cycle for all lanes, free running, no stall, no reset: a product is at the output MUX after
    ``multiply_latency`` cycles, a sum there and at ``sum`` after ``add_latency``.

    Parameters
    ----------
    format : FloatFormat
        Number format of operands and results.
    lanes : int
        Number of PEs.
    pe : callable
        Makes a PE for a format, see :class:`OmniPE`.

    Members
    -------
    operation : :py:`In(Operation())`
        What is issued in this cycle. There is no ``valid``: whoever issues knows which results mean something.
    weight, partial, bias, a, b : :py:`In(vector_layout(format, lanes))`
        Operands, one word for each lane.
    scalar : :py:`In(format.width)`
        Operand of all lanes.
    output_select : :py:`In(Output)`
        Sets the output MUX of all lanes; there is no ``valid`` here either.
    activated, outside : :py:`In(vector_layout(format, lanes))`
        Words of others for the output MUX.
    result, sum : :py:`Out(vector_layout(format, lanes))`
        See :class:`OmniPE`.
    """

    def __init__(self, format, lanes, pe):
        self.pes = [pe(format) for _ in range(lanes)]
        self.multiply_latency, self.add_latency = self.pes[0].LATENCY
        vector = vector_layout(format, lanes)
        super().__init__(
            {name: In(vector) for name in _WORDS}
            | {"operation": In(Operation()), "scalar": In(format.width), "output_select": In(Output)}
            | {"result": Out(vector), "sum": Out(vector)}
        )

    def elaborate(self, platform):
        """Delay the control once for all lanes and wire up the PEs."""
        m = Module()
        now = self.operation
        nothing, scaled = now.mac & now.begins & ~now.biased, now.mac | now.scale
        late = Signal(3, reset_less=True)
        m.d.sync += late.eq(Cat(now.mac, nothing, now.empty))
        negate = now.subtract
        for n in range(self.multiply_latency):
            stage = Signal(name=f"negate_{n}", reset_less=True)
            m.d.sync += stage.eq(negate)
            negate = stage
        for n, pe in enumerate(self.pes):
            m.submodules[f"pe_{n}"] = pe
            m.d.comb += [
                pe.mac.eq(now.mac),
                pe.begins.eq(now.begins),
                pe.scaled.eq(scaled),
                pe.squared.eq(now.square),
                pe.empty.eq(now.empty),
                pe.unit.eq(now.empty | ~(scaled | now.multiply | now.square)),
                Cat(pe.accumulate, pe.nothing, pe.zero).eq(late),
                pe.negate.eq(negate),
                pe.scalar.eq(self.scalar),
                pe.output_select.eq(self.output_select),
                *(getattr(pe, name).eq(getattr(self, name)[n]) for name in _WORDS),
                self.result[n].eq(pe.result),
                self.sum[n].eq(pe.sum),
            ]
        return m
