"""The compute part of a channel: PEs, lane memories, and the two engines that use them."""

from amaranth.hdl import C, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.compute.elementwise import VectorEngine
from etalstm_hw.compute.mac import MACEngine
from etalstm_hw.compute.memory import LaneMemories
from etalstm_hw.compute.pe import Operation, PEArray
from etalstm_hw.compute.slots import SlotScheduler
from etalstm_hw.contract import PARAMETERS, Cycle, Memory, Opcode, Status
from etalstm_hw.fp.activation import connect_coefficients
from etalstm_hw.stream import LaneRead, LaneWrite, Scalar, Slots, instruction_layout, vector_layout


class LaneCompute(wiring.Component):
    """The compute part of a channel without its products: executes VECTOR, beside reads and writes from outside.

    Those who make products are subclasses: :class:`Compute`, and
    :class:`~etalstm_hw.integer.compute.IntegerCompute`. Reset clears everything but the memories.

    Parameters
    ----------
    format : FloatFormat
        Number format.
    lanes, beat_words : int
        Number of PEs; words of a beat of ``load``.
    pe : callable
        Makes a PE for a format.
    units : list
        The activation units.
    memories : Component
        What the lanes have of memories, with the scratch memory's ports and ``load``.
    products, scalars : StructLayout
        An instruction of the engine of products, and what the broadcaster sends to it.
    streams : int
        Streams of that: the first is ``scalars``, the next ``scalars1``.
    scratch_depth, queue_depth : int
        Vectors of scratch memory and partial sums.
    scratch_reads, scratch_banks : int
        See :class:`~etalstm_hw.compute.memory.ScratchMemory`.
    integers : bool
        See :class:`VectorEngine`.

    Members
    -------
    mac, vector : :py:`In(stream.Signature(instruction_layout(...)))`
        Instructions of the two engines, free to be executed.
    scalars : :py:`In(stream.Signature(...))`
        What the broadcaster sends.
    parameters : :py:`In(data.ArrayLayout(format.width, PARAMETERS))`
        Values of ``Source.PARAMETER``.
    load : :py:`In(stream.Signature(LaneWrite(format, lanes, beat_words)))`
        Writes from outside. One to the partial sums or beyond the end of a memory is taken, dropped, and reported in
        ``load_status``.
    read : :py:`In(stream.Signature(LaneRead()))`
        Reads of a memory from outside. Those of one that cannot be read are taken, and reported in ``read_status``.
    read_data : :py:`Out(vector_layout(format, lanes))`
        The vector read in the cycle before.
    drain : :py:`In(1)`
        Issue nothing.
    slots : :py:`In(Slots())`
        Fixed slots of the PEs; constant from reset to reset.
    mac_done, vector_done, mac_busy, vector_busy : :py:`Out(1)`
        An instruction's last result is being written; the engine has work left.
    mac_status, vector_status, load_status, read_status : :py:`Out(Status)`
        ``IDLE``, or from an error until reset what it was.
    cycle : :py:`Out(Cycle)`
        What the PEs did, or what held the products back; ``NO_MAC`` if nothing did.
    mac_phase, progress : :py:`Out(1)`
        An instruction of the engine of products has some to issue; something moved in the cycle before.
    activations : :py:`Out(range(activation_units + 1))`
        Values that enter the activation units in this cycle.
    """

    READABLE: tuple[Memory, ...] = (Memory.SCRATCH,)

    def __init__(
        self, format, lanes, beat_words, *, pe, units, memories, products, scalars, scratch_depth, queue_depth,
        scratch_reads, scratch_banks, integers=False, streams=1,
    ):  # fmt: skip
        self.streams = ["scalars", *(f"scalars{n}" for n in range(1, streams))]
        self.memories, self.units = memories, units
        self._depths = {Memory.SCRATCH: scratch_depth, Memory.SUMS: queue_depth}
        self.pes = pes = PEArray(format, lanes, pe)
        self.vector_engine = VectorEngine(
            format, lanes, beat_words, units=len(units), activation_latency=units[0].LATENCY,
            multiply_latency=pes.multiply_latency, add_latency=pes.add_latency, scratch_depth=scratch_depth,
            queue_depth=queue_depth, scratch_reads=scratch_reads, scratch_banks=scratch_banks, integers=integers,
        )  # fmt: skip
        flags = ("mac_done", "vector_done", "mac_busy", "vector_busy", "mac_phase", "progress")
        super().__init__(
            {name: Out(1) for name in flags}
            | {f"{name}_status": Out(Status) for name in ("mac", "vector", "load", "read")}
            | {
                "mac": In(stream.Signature(products)),
                "vector": In(stream.Signature(instruction_layout(Opcode.VECTOR))),
                **{name: In(stream.Signature(scalars)) for name in self.streams},
                "parameters": In(data.ArrayLayout(format.width, PARAMETERS)),
                "load": In(stream.Signature(LaneWrite(format, lanes, beat_words))),
                "read": In(stream.Signature(LaneRead())),
                "read_data": Out(vector_layout(format, lanes)),
                "drain": In(1),
                "slots": In(Slots()),
                "cycle": Out(Cycle),
                "activations": Out(range(len(units) + 1)),
            }
        )

    def elaborate(self, platform):
        """Connect the engine of element-wise work to the PEs and the memories."""
        m = Module()
        m.submodules.memories, m.submodules.pes = memories, pes = self.memories, self.pes
        m.submodules.vector = vector = self.vector_engine
        m.submodules.scheduler = slots = SlotScheduler()
        wiring.connect(m, wiring.flipped(self.vector), vector.i)
        for name in vector.scratch_ports:
            wiring.connect(m, getattr(vector, name), getattr(memories, name))
        m.d.comb += [
            vector.parameters.eq(self.parameters),
            vector.drain.eq(self.drain),
            slots.slots.eq(self.slots),
            vector.pes_free.eq(slots.elementwise),
            self.vector_status.eq(vector.status),
            self.vector_done.eq(vector.done),
            self.vector_busy.eq(vector.busy),
            self.activations.eq(vector.activations),
            pes.a.eq(vector.a),
            pes.b.eq(vector.b),
            pes.operation.eq(vector.operation),
            pes.scalar.eq(vector.scalar),
        ]
        self._activate(m, pes, vector)
        self._read(m, memories, vector)
        self._multiply(m, memories, pes, vector, slots)
        self._check(m, memories, self._load(m, memories, vector))
        scalars = [getattr(self, name) for name in self.streams]
        moves = [(s.valid & s.ready) for s in (self.mac, *scalars, self.load, self.read)]
        moves += [self.cycle == Cycle.MAC, vector.in_flight]
        moved = Signal(len(moves))  # each of them is known late
        m.d.sync += moved.eq(Cat(moves))
        m.d.comb += self.progress.eq(moved.any())
        return m

    def _multiply(self, m, memories, pes, vector, slots):
        """Connect the products; say what the cycle was, and that of the partial sums which are read from outside."""
        raise NotImplementedError

    def _activate(self, m, pes, vector):
        """Give each activation unit a lane's word; give every PE the result that may be its own, and loaded words."""
        for n, unit in enumerate(self.units):
            m.submodules[f"activation_{n}"] = unit
            m.d.comb += [unit.a.eq(vector.to_activate[n]), unit.b.eq(vector.to_pack[n])]
            self._choose(m, unit, vector)
        connect_coefficients(m, self.units)
        m.d.comb += [
            Cat(pes.activated).eq(Cat(unit.z for unit in self.units).replicate(vector.banks)),
            pes.outside.eq(self.load.p.data if vector.scratch_banks == 1 else 0),
            pes.output_select.eq(vector.output_select),
            vector.result.eq(pes.result),
        ]

    def _choose(self, m, unit, vector):
        """Tell an activation unit what to compute."""
        m.d.comb += unit.function.eq(vector.function)

    def _read(self, m, memories, vector):
        """Read the scratch memory from outside, where VECTOR leaves its ports."""
        request, other = self.read.p, vector.outside_read
        m.d.comb += [
            other.valid.eq(self.read.valid & (request.memory == Memory.SCRATCH)),
            other.p.eq(request.address),
            self.read_data.eq(vector.outside_data),
        ]
        with m.If(request.memory == Memory.SCRATCH):
            m.d.comb += self.read.ready.eq(other.ready)
        with m.If(Cat(request.memory != memory for memory in self.READABLE).all()):
            m.d.comb += self.read.ready.eq(1)

    def _load(self, m, memories, vector):
        """Send writes from outside to their memory; give whether one is beyond the end of the scratch memory."""
        load, to_scratch = self.load, self.load.p.memory == Memory.SCRATCH
        beyond = load.valid & to_scratch & (load.p.address >= self._depths[Memory.SCRATCH])
        m.d.comb += [
            memories.load.p.eq(load.p),
            memories.load.valid.eq(load.valid & ~to_scratch),
            vector.outside.p.eq(load.p),
            vector.outside.valid.eq(load.valid & to_scratch),
            load.ready.eq(Mux(to_scratch, vector.outside.ready, memories.load.ready)),
        ]
        with m.If(beyond):
            m.d.comb += vector.outside.p.enable.eq(0)
        return beyond

    def _check(self, m, memories, beyond_scratch):
        """Remember what was asked for and does not exist."""
        with m.If(self.load_status == Status.IDLE):
            with m.If(memories.no_memory):
                m.d.sync += self.load_status.eq(Status.BAD_FIELD)
            with m.Elif(memories.no_address | beyond_scratch):
                m.d.sync += self.load_status.eq(Status.BAD_ADDRESS)
        # Whether a read is taken is known late. So it is checked in the cycle after.
        request, taken, verdict = self.read.p, Signal(), Signal(Status, reset_less=True)
        beyond, known = Const(0), Const(0)
        for memory in self.READABLE:
            known |= request.memory == memory
            beyond |= (request.memory == memory) & (request.address >= self._depths[memory])
        m.d.sync += [
            taken.eq(self.read.valid & self.read.ready),
            verdict.eq(Mux(known, Mux(beyond, Status.BAD_ADDRESS, Status.IDLE), Status.BAD_FIELD)),
        ]
        with m.If(taken & (self.read_status == Status.IDLE)):
            m.d.sync += self.read_status.eq(verdict)


class Compute(LaneCompute):
    """Executes MAC and VECTOR on the lanes of a channel.

    The swing: in every cycle the PEs take one operation of all lanes, an element of VECTOR if one is ready, otherwise a
    MAC. The read port of the partial sums goes to VECTOR first, then to ``read``, then to the MAC; those of the scratch
    memory go to VECTOR, then to ``read``.

    With fixed ``slots`` each cycle belongs to one kind of work, whether it has any or not: see :class:`SlotScheduler`.

    Parameters
    ----------
    format, lanes, beat_words, pe, scratch_reads, scratch_banks
        As of :class:`LaneCompute`.
    activation : callable
        Makes an activation unit for a format.
    activation_units : int
        How many there are.
    depths : dict
        ``weight_depth``, ``bias_depth``, ``scratch_depth``, ``queue_depth``: vectors of each memory.
    """

    READABLE = (Memory.SCRATCH, Memory.SUMS)

    def __init__(
        self, format, lanes, beat_words, *, pe, activation, activation_units, depths, scratch_reads, scratch_banks
    ):
        scratch = {"scratch_reads": scratch_reads, "scratch_banks": scratch_banks}
        super().__init__(
            format, lanes, beat_words, pe=pe, units=[activation(format) for _ in range(activation_units)],
            memories=LaneMemories(format, lanes, beat_words, **scratch, **depths),
            products=instruction_layout(Opcode.MAC), scalars=Scalar(format), scratch_depth=depths["scratch_depth"],
            queue_depth=depths["queue_depth"], **scratch,
        )  # fmt: skip
        own = {name: depths[name] for name in ("weight_depth", "queue_depth", "bias_depth")}
        self.mac_engine = MACEngine(format, self.pes.add_latency + 1, **own)

    def _multiply(self, m, memories, pes, vector, slots):
        """Let MACs have the cycles of the PEs that elements leave."""
        m.submodules.mac = mac = self.mac_engine
        wiring.connect(m, wiring.flipped(self.mac), mac.i)
        wiring.connect(m, wiring.flipped(self.scalars), mac.scalars)
        m.d.comb += [
            vector.sums_free.eq(1),
            mac.pes_free.eq(~vector.issue_pe & ~self.drain & Mux(mac.step.backward, slots.backward, slots.forward)),
            self.mac_status.eq(mac.status),
            self.mac_done.eq(mac.done),
            self.mac_busy.eq(mac.busy),
            self.mac_phase.eq(mac.active),
        ]
        reads_sums = self._arbitrate(m, memories, mac, vector)
        self._operate(m, memories, pes, mac, vector)
        self._classify(m, mac, vector, reads_sums)

    def _arbitrate(self, m, memories, mac, vector):
        """Give the read port of the partial sums to one of three."""
        request, port = self.read.p, memories.sums
        mine, from_sums = Signal(), Signal()
        asks = self.read.valid & (request.memory == Memory.SUMS)
        m.d.comb += [
            mine.eq(asks & ~vector.sums.en),
            vector.sums.data.eq(port.data),
            port.en.eq(vector.sums.en | mine | (mac.issue & mac.uses_sums)),
            port.addr.eq(Mux(vector.sums.en, vector.sums.addr, Mux(mine, request.address, mac.step.sums))),
            mac.sums_free.eq(~(vector.sums.en | asks)),
        ]
        m.d.sync += from_sums.eq(request.memory == Memory.SUMS)
        with m.If(request.memory == Memory.SUMS):
            m.d.comb += self.read.ready.eq(~vector.sums.en)
        with m.If(from_sums):
            m.d.comb += self.read_data.eq(port.data)
        return vector.sums.en | asks

    def _operate(self, m, memories, pes, mac, vector):
        """Send operands of the operation issued in the cycle before to the PEs, and write sums back."""
        step = mac.step
        issued, operation = Signal(), Signal(Operation(), reset_less=True)
        scalar = Signal(pes.scalar.shape(), reset_less=True)
        narrow, high = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += issued.eq(mac.issue)
        with m.If(mac.issue):
            m.d.sync += [operation.mac.eq(1), scalar.eq(step.value)]
            m.d.sync += [operation[name].eq(step[name]) for name in ("begins", "biased", "empty")]
            m.d.sync += [narrow.eq(step.narrow), high.eq(step.high)]
        m.d.comb += [
            memories.weights.addr.eq(step.weight),
            memories.weights.en.eq(mac.issue),
            memories.bias.addr.eq(step.bias),
            memories.bias.en.eq(mac.issue & step.begins),
            *(pes.weight[n].eq(_weight(word, narrow, high)) for n, word in enumerate(memories.weights.data)),
            pes.scalar.eq(Mux(issued, scalar, vector.scalar)),
            pes.partial.eq(memories.sums.data),
            pes.bias.eq(memories.bias.data),
            pes.operation.eq(Mux(issued, operation, vector.operation)),
            memories.new_sums.addr.eq(mac.write_address),
            memories.new_sums.data.eq(pes.sum),
            memories.new_sums.en.eq(mac.write),
        ]

    def _classify(self, m, mac, vector, port_taken):
        """Say what the PEs did, or why they did nothing."""
        with m.If(mac.issue):
            m.d.comb += self.cycle.eq(Cycle.MAC)
        with m.Elif(vector.issue_pe):
            m.d.comb += self.cycle.eq(Cycle.ELEMENTWISE)
        with m.Elif(vector.waiting | (mac.ready & ~self.drain)):
            m.d.comb += self.cycle.eq(Cycle.SHARE)
        with m.Elif(mac.waiting & mac.uses_sums & port_taken):
            m.d.comb += self.cycle.eq(Cycle.SUMS_PORT)
        with m.Elif(mac.waiting):
            m.d.comb += self.cycle.eq(Cycle.HAZARD)
        with m.Elif(mac.active):
            m.d.comb += self.cycle.eq(Cycle.BROADCAST_EMPTY)
        with m.Else():
            m.d.comb += self.cycle.eq(Cycle.NO_MAC)


def _weight(word, narrow, high):
    """Give a lane's weight: a word of the memory, or if it is `narrow` a half of it as the upper half of the weight.

    The multiplier's operand register follows. The choice between the two halves, and that between weight and element,
    are one LUT.
    """
    half = len(word) // 2
    return Mux(narrow, Cat(C(0, half), Mux(high, word[half:], word[:half])), word)
