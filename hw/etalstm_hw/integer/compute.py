"""The compute part of a channel where products are integers."""

from amaranth.lib import wiring

from etalstm_hw.compute.compute import LaneCompute
from etalstm_hw.contract import Cycle, Opcode
from etalstm_hw.integer.memory import IntegerMemories
from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.products import ProductEngine
from etalstm_hw.integer.sender import Sent
from etalstm_hw.integer.unit import ElementUnit
from etalstm_hw.stream import instruction_layout


class IntegerCompute(LaneCompute):
    """Executes PRODUCT and VECTOR on the lanes of a channel.

    Products have PEs of their own, so nothing waits for another's cycles. The read port of the partial sums goes to the
    engine of products first, then to VECTOR.

    Parameters
    ----------
    format, lanes, beat_words, pe, scratch_reads
        As of :class:`LaneCompute`.
    activation : callable
        Makes an activation unit for a format.
    activation_units : int
        How many there are, each with a unit of integers.
    integer_pes, elements : int
        PEs of integers of each lane; elements of a sequence at most.
    integer_pe : callable
        Makes such a PE.
    depths : dict
        ``weight_depth``, ``scratch_depth``, ``queue_depth``: vectors of each memory.
    """

    def __init__(
        self, format, lanes, beat_words, *, pe, activation, activation_units, integer_pes, elements, depths,
        integer_pe=IntegerPE, scratch_reads=2,
    ):  # fmt: skip
        sizes = {name: depths[name] for name in ("weight_depth", "scratch_depth")}
        memories = IntegerMemories(format, lanes, beat_words, integer_pes, scratch_reads=scratch_reads, **sizes)
        self.engine = ProductEngine(
            lanes, integer_pes, depth=depths["queue_depth"] // (2 * integer_pes), elements=elements,
            weight_depth=1 << memories.weights.signature.addr_width, pe=integer_pe,
        )  # fmt: skip
        super().__init__(
            format, lanes, beat_words, pe=pe, units=[ElementUnit(format, activation) for _ in range(activation_units)],
            memories=memories, products=instruction_layout(Opcode.PRODUCT), scalars=Sent(elements),
            scratch_depth=depths["scratch_depth"], queue_depth=depths["queue_depth"], scratch_reads=scratch_reads,
            integers=True,
        )  # fmt: skip

    def _choose(self, m, unit, vector):
        """Tell an activation unit what to compute."""
        m.d.comb += [unit.op.eq(vector.function), unit.limit.eq(vector.limit)]

    def _multiply(self, m, memories, pes, vector, slots):
        """Connect the engine of products; its sums are read by VECTOR where it does not read itself."""
        m.submodules.products = engine = self.engine
        wiring.connect(m, wiring.flipped(self.mac), engine.i)
        wiring.connect(m, wiring.flipped(self.scalars), engine.digits)
        wiring.connect(m, engine.weights, memories.weights)
        wiring.connect(m, vector.sums, engine.read)
        m.d.comb += [
            engine.drain.eq(self.drain),
            vector.sums_free.eq(engine.read_free),
            self.mac_status.eq(engine.status),
            self.mac_done.eq(engine.done),
            self.mac_busy.eq(engine.busy),
            self.mac_phase.eq(engine.active),
        ]
        with m.If(engine.issue):
            m.d.comb += self.cycle.eq(Cycle.MAC)
        with m.Elif(vector.issue_pe):
            m.d.comb += self.cycle.eq(Cycle.ELEMENTWISE)
        with m.Elif(engine.active):
            m.d.comb += self.cycle.eq(Cycle.BROADCAST_EMPTY)
        with m.Else():
            m.d.comb += self.cycle.eq(Cycle.NO_MAC)
