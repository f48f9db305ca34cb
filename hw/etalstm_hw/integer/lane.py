"""A lane's integer PEs, and the wide sums that their short ones are added to."""

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
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
    pe : whose captured sums come to the adders
    fresh : of the first captured ones of a sum: they are not added to what is kept
    alone : but to 0, else to the old sums
    upper : they are of upper digits, and weigh 2^DIGIT_SHIFT as much
    write, written : the wide sums that left the adders are kept, for this PE
    """

    def __init__(self, pes):
        flags = dict.fromkeys(("begins", "capture", "fresh", "alone", "upper", "write"), 1)
        super().__init__(flags | {"pe": range(pes), "written": range(pes)})


class IntegerLane(wiring.Component):
    """Multiplies all weights of a lane by one scalar a cycle. The sums stay in the PEs while scalars of a sum come.

    A PE's word holds CHUNK products. Then, or earlier, the words of all PEs are captured, and the PEs begin anew
    without a gap. The captured words move past one place, a PE a cycle, where their two sums are added to wide ones,
    which a small memory keeps for each PE.
    ::

        PEs ──capture──► words ─► (one PE a cycle) ─│─► + ─│─► sums
                                            memory ─│───┘  │
                                              └────────────┘

    Parameters
    ----------
    pes : int
        PEs of a lane: a power of two from 4 to CHUNK. Two captures are at least as many cycles apart.
    pe : callable
        Makes a PE with the ports and the times of :class:`IntegerPE`.

    Members
    -------
    weights : :py:`In(lane_weights(pes))`
    scalar : :py:`In(signed(SCALAR_BITS))`
        0 where there is nothing to multiply.
    control : :py:`In(Control(pes))`
    old_low, old_high : :py:`In(WIDE)`
        Sums of the PE that ``control`` names, which those are added to that begin.
    low, high : :py:`Out(WIDE)`
        The wide sums of a PE: of the one that ``control`` named two cycles ago.
    """

    def __init__(self, pes, *, pe=IntegerPE):
        self._count, self._pe = pes, pe
        super().__init__(
            {
                "weights": In(lane_weights(pes)),
                "scalar": In(signed(SCALAR_BITS)),
                "control": In(Control(pes)),
                "old_low": In(WIDE),
                "old_high": In(WIDE),
                "low": Out(WIDE),
                "high": Out(WIDE),
            }
        )

    def elaborate(self, platform):
        """Place the PEs; move their words; add them."""
        m = Module()
        pes = [self._pe() for _ in range(self._count)]
        words = [Signal(2 * FIELD_BITS, name=f"word_{n}", reset_less=True) for n in range(self._count)]
        for n, pe in enumerate(pes):
            m.submodules[f"pe_{n}"] = pe
            following = words[n + 1] if n + 1 < self._count else C(0, 2 * FIELD_BITS)
            m.d.comb += [
                pe.low.eq(self.weights[n]),
                pe.high.eq(self.weights[self._count + n]),
                pe.scalar.eq(self.scalar),
                pe.begins.eq(self.control.begins),
            ]
            m.d.sync += words[n].eq(Mux(self.control.capture, pe.sums, following))
        self._collect(m, words[0])
        return m

    def _collect(self, m, word):
        """Add a PE's sums to its wide ones."""
        control = self.control
        m.submodules.wide = wide = memory.Memory(shape=2 * WIDE.width, depth=self._count, init=[])
        read, write = wide.read_port(domain="comb"), wide.write_port()
        m.d.comb += read.addr.eq(control.pe)
        low, high, carry = fields(register(m, "word", word))
        old = Mux(control.alone, 0, Cat(self.old_low, self.old_high))
        kept = register(m, "kept", Mux(control.fresh, old, read.data))
        upper = register(m, "upper", control.upper)
        results = []
        for name, half, field, more in (("low", 0, low, C(0, 1)), ("high", 1, high, carry)):
            # The LUTs of the adder shift, too. Below a field that is shifted lie ones, which hand on the carry.
            field = Mux(upper, Cat(more.replicate(DIGIT_SHIFT), field).as_signed(), field)
            total = kept.word_select(half, WIDE.width).as_signed() + field + more
            results.append(register(m, name, total[: WIDE.width].as_signed(), WIDE))
        m.d.comb += [
            Cat(self.low, self.high).eq(Cat(results)),
            write.data.eq(Cat(results)),
            write.addr.eq(control.written),
            write.en.eq(control.write),
        ]
