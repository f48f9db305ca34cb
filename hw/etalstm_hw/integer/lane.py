"""A lane's integer PEs, and the wide sums that their short ones are added to."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.fp.pipeline import register
from etalstm_hw.integer.pe import IntegerPE, fields
from etalstm_hw.integer.widths import DIGIT_SHIFT, FIELD_BITS, SCALAR_BITS, WEIGHT_BITS, WIDE


def lane_weights(pes):
    """Layout of the weights that a lane's PEs take: the low ones of all PEs, then the high ones."""
    return data.ArrayLayout(signed(WEIGHT_BITS), 2 * pes)


class Control(data.StructLayout):
    """What the lanes of an array do in a cycle.

    Members
    -------
    begins : the PEs' sums begin, see :class:`IntegerPE`
    capture : the PEs' sums are complete: take them
    pe, high : whose captured sum comes to the adder, and which of its two
    fresh : of the first captured ones of a sum: they are added to the old sums, not to what is kept
    alone : but to 0, as ``fresh`` ones without old sums
    upper : they are of upper digits, and weigh 2^DIGIT_SHIFT as much
    write, written : the wide sum that left the adder is kept, as this one
    """

    def __init__(self, pes):
        flags = ("begins", "capture", "high", "fresh", "alone", "upper", "write")
        super().__init__(dict.fromkeys(flags, 1) | {"pe": range(pes), "written": range(2 * pes)})


class IntegerLane(wiring.Component):
    """Multiplies all weights of a lane by one scalar a cycle. The sums stay in the PEs while scalars of a sum come.

    A PE's word holds CHUNK products. Then, or earlier, the words of all PEs are captured, and the PEs begin anew
    without a gap. The captured words wait for their turns, a PE's for two cycles: its two sums are added to wide ones,
    first the low one, then the high one. A small memory keeps the wide ones.
    ::

        PEs ──capture──► words ─► (one sum a cycle) ─│─► + ─│─► sums
                                             memory ─│───┘  │
                                               └────────────┘

    Parameters
    ----------
    pes : int
        PEs of a lane: a power of two. Two captures are at least as many cycles apart as these have sums.
    pe : callable
        Makes a PE with the ports and the times of :class:`IntegerPE`.

    Members
    -------
    weights : :py:`In(lane_weights(pes))`
    scalar : :py:`In(signed(SCALAR_BITS))`
        0 where there is nothing to multiply.
    control : :py:`In(Control(pes))`
    old : :py:`In(WIDE)`
        The sum that ``control`` names, which one is added to that begins.
    sum : :py:`Out(WIDE)`
        The wide sum that ``control`` named two cycles ago.
    """

    def __init__(self, pes, *, pe=IntegerPE):
        self._count, self._pe = pes, pe
        super().__init__(
            {
                "weights": In(lane_weights(pes)),
                "scalar": In(signed(SCALAR_BITS)),
                "control": In(Control(pes)),
                "old": In(WIDE),
                "sum": Out(WIDE),
            }
        )

    def elaborate(self, platform):
        """Place the PEs; capture their words; add them, one after the other."""
        m = Module()
        pes = [self._pe() for _ in range(self._count)]
        words = [Signal(2 * FIELD_BITS, name=f"word_{n}", reset_less=True) for n in range(self._count)]
        for n, pe in enumerate(pes):
            m.submodules[f"pe_{n}"] = pe
            m.d.comb += [
                pe.low.eq(self.weights[n]),
                pe.high.eq(self.weights[self._count + n]),
                pe.scalar.eq(self.scalar),
                pe.begins.eq(self.control.begins),
            ]
        # Words that moved past one place would take a LUT for each bit of each PE.
        with m.If(self.control.capture):
            m.d.sync += [word.eq(pe.sums) for word, pe in zip(words, pes, strict=True)]
        word = Signal(2 * FIELD_BITS)
        m.d.comb += word.eq(Array(words)[self.control.pe])
        self._collect(m, word)
        return m

    def _collect(self, m, word):
        """Add a PE's sum to its wide one."""
        control = self.control
        m.submodules.wide = wide = memory.Memory(shape=WIDE.width, depth=2 * self._count, init=[])
        read, write = wide.read_port(domain="comb"), wide.write_port()
        m.d.comb += read.addr.eq(Cat(control.high, control.pe))
        low, high, carry = fields(word)
        field, carry = Mux(control.high, high, low), control.high & carry
        # Below a field that is shifted lie ones, which hand on the carry.
        field = Mux(control.upper, Cat(carry.replicate(DIGIT_SHIFT), field).as_signed(), field)
        field = register(m, "field", field, signed(FIELD_BITS + DIGIT_SHIFT))
        carry = register(m, "carry", carry)
        # One of the two is 0, so a LUT of the adder takes both, with the field, from which its carry comes.
        kept, old = Signal(WIDE, reset_less=True), Signal(WIDE, reset_less=True)
        m.d.sync += [
            kept.eq(Mux(control.fresh, 0, read.data)),
            old.eq(Mux(control.fresh & ~control.alone, self.old, 0)),
        ]
        m.d.comb += [
            self.sum.eq(register(m, "total", (field + (kept | old) + carry)[: WIDE.width].as_signed(), WIDE)),
            write.data.eq(self.sum),
            write.addr.eq(control.written),
            write.en.eq(control.write),
        ]
