"""The compute part of a channel where products are integers."""

from amaranth.hdl import Cat, Mux, Signal
from amaranth.lib import wiring

from etalstm_hw.compute.compute import LaneCompute
from etalstm_hw.contract import PARAMETER_DELTA_THRESHOLD, Cycle, Opcode, Status
from etalstm_hw.integer.memory import IntegerMemories
from etalstm_hw.integer.sender import Sent
from etalstm_hw.integer.unit import ElementUnit
from etalstm_hw.stream import instruction_layout


class IntegerCompute(LaneCompute):
    """Executes PRODUCT and VECTOR on the lanes of a channel.

    Products have PEs of their own, so nothing waits for another's cycles. The read port of the partial sums goes to the
    engine of products first, then to VECTOR.

    Each stream of digits has an engine; all execute the same instructions. Each has sums of its own: those of engine n
    are read from address n·``queue_depth`` on. All engines read the same weights, each by a port of its own. In a cycle
    in which weights are loaded one of the two engines at a copy stands still.

    Parameters
    ----------
    format, lanes, beat_words, pe, scratch_reads, scratch_banks
        As of :class:`LaneCompute`.
    activation : callable
        Makes an activation unit for a format.
    activation_units : int
        How many there are, each with a unit of integers.
    integer_pes, streams, elements : int
        PEs of integers of each lane and stream; streams of digits; elements of a sequence at most.
    engine : callable
        Makes the engine of products of a stream.
    weights : callable
        Makes a memory of weights, see :class:`IntegerMemories`.
    depths : dict
        ``weight_depth``, ``scratch_depth``, ``queue_depth``: vectors of each memory.
    """

    def __init__(
        self, format, lanes, beat_words, *, pe, activation, activation_units, integer_pes, streams, elements, engine,
        weights, depths, scratch_reads, scratch_banks,
    ):  # fmt: skip
        memories = IntegerMemories(
            format, lanes, beat_words, integer_pes, weight_depth=depths["weight_depth"],
            scratch_depth=depths["scratch_depth"], scratch_reads=scratch_reads, scratch_banks=scratch_banks,
            weights=weights, streams=streams,
        )  # fmt: skip
        self._queue_depth = depths["queue_depth"]
        self.engines = [engine() for _ in range(streams)]
        units = [ElementUnit(format, lanes // activation_units, activation) for _ in range(activation_units)]
        super().__init__(
            format, lanes, beat_words, pe=pe, units=units, memories=memories,
            products=instruction_layout(Opcode.PRODUCT), scalars=Sent(elements), scratch_depth=depths["scratch_depth"],
            queue_depth=streams * self._queue_depth, scratch_reads=scratch_reads, scratch_banks=scratch_banks,
            integers=True, streams=streams,
        )  # fmt: skip

    def _choose(self, m, unit, vector):
        """Tell an activation unit what to compute."""
        m.d.comb += [
            unit.op.eq(vector.function),
            unit.threshold.eq(self.parameters[PARAMETER_DELTA_THRESHOLD]),
            *(getattr(unit, name).eq(getattr(vector, name)) for name in ("limit", "place", "valid")),
        ]

    def _multiply(self, m, memories, pes, vector, slots):
        """Connect the engines of products; their sums are read by VECTOR where they do not read themselves."""
        for n, (engine, scalars) in enumerate(zip(self.engines, self.streams, strict=True)):
            m.submodules[f"products{n}"] = engine
            wiring.connect(m, wiring.flipped(getattr(self, scalars)), engine.digits)
            wiring.connect(m, engine.weights, getattr(memories, f"weights{n}"))
            m.d.comb += [
                engine.drain.eq(self.drain),
                engine.weights_free.eq(memories.free[n]),
                engine.i.p.eq(self.mac.p),
            ]
        self._give_to_all(m)
        self._read_sums(m, vector)
        engines = self.engines
        m.d.comb += [
            self.mac_busy.eq(Cat(engine.busy for engine in engines).any()),
            self.mac_phase.eq(Cat(engine.active for engine in engines).any()),
        ]
        for engine in engines:
            with m.If(engine.status != Status.IDLE):
                m.d.comb += self.mac_status.eq(engine.status)
        with m.If(Cat(engine.issue for engine in engines).any()):
            m.d.comb += self.cycle.eq(Cycle.MAC)
        with m.Elif(vector.issue_pe):
            m.d.comb += self.cycle.eq(Cycle.ELEMENTWISE)
        with m.Elif(self.mac_phase):
            m.d.comb += self.cycle.eq(Cycle.BROADCAST_EMPTY)
        with m.Else():
            m.d.comb += self.cycle.eq(Cycle.NO_MAC)

    def _give_to_all(self, m):
        """Give every engine each instruction once; tell when all have done one."""
        engines = self.engines
        taken, takes = Signal(len(engines)), Signal(len(engines))
        m.d.comb += [
            *(engine.i.valid.eq(self.mac.valid & ~taken[n]) for n, engine in enumerate(engines)),
            takes.eq(Cat(engine.i.valid & engine.i.ready for engine in engines)),
            self.mac.ready.eq((taken | takes).all()),
        ]
        m.d.sync += taken.eq(Mux(self.mac.ready, 0, taken | takes))
        # An engine may have done the next one, or another behind it, before the slowest has done this one.
        ahead = [Signal(3, name=f"ahead{n}") for n in range(len(engines))]
        there = [count + engine.done for count, engine in zip(ahead, engines, strict=True)]
        m.d.comb += self.mac_done.eq(Cat(count != 0 for count in there).all())
        m.d.sync += [count.eq(now - self.mac_done) for count, now in zip(ahead, there, strict=True)]

    def _read_sums(self, m, vector):
        """Read a vector of sums from the engine that has it."""
        inside, asked = (self._queue_depth - 1).bit_length(), vector.sums.addr
        number = asked[inside:]
        read = Signal(max(1, len(number)))
        with m.If(vector.sums.en):
            m.d.sync += read.eq(number)
        for n, engine in enumerate(self.engines):
            m.d.comb += [
                engine.read.addr.eq(asked[:inside]),
                engine.read.en.eq(vector.sums.en & (number == n)),
            ]
            with m.If(read == n):
                m.d.comb += vector.sums.data.eq(engine.read.data)
            with m.If(number == n):
                m.d.comb += vector.sums_free.eq(engine.read_free)
