"""The VECTOR engine: element-wise work on the PEs and the activation units of a channel."""

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.compute.elements import ElementWalker
from etalstm_hw.compute.memory import read_port, scratch_ports, scratch_writes
from etalstm_hw.compute.operands import OperandReader
from etalstm_hw.compute.pe import Operation, Output
from etalstm_hw.contract import (
    FIELDS,
    OPS_OF_INTEGERS,
    PARAMETERS,
    FloatFormat,
    Opcode,
    Source,
    Status,
    VectorOp,
    last_op,
)
from etalstm_hw.contract.integers import DELTA_BITS, MANTISSA_BITS, SUM_BITS, largest_mantissa
from etalstm_hw.fp.activation import FUNCTIONS
from etalstm_hw.fp.format import Float
from etalstm_hw.stream import LaneWrite, instruction_layout, vector_layout

_LIMITS = [largest_mantissa(bits) if bits in DELTA_BITS else 0 for bits in range(1 << FIELDS[Opcode.VECTOR]["bits"])]


class Arrival(data.StructLayout):
    """A result on its way to the scratch memory.

    Members
    -------
    output : where it comes from, an :class:`~etalstm_hw.compute.pe.Output`
    bank : which lanes an activation is for
    address : where it goes
    end : the last one of an instruction
    """

    def __init__(self, address_bits, banks):
        bank_bits = max(1, (banks - 1).bit_length())
        super().__init__({"output": Output, "bank": bank_bits, "address": address_bits, "end": 1})


class Lanes(enum.Enum, shape=2):  # type: ignore[call-arg] # Amaranth's metaclass takes it
    """In which lanes a result is written: in all, or by what a is there."""

    ALL = 0
    NONZERO = 1
    ZERO = 2
    POSITIVE = 3  # the sign is +, and it is not 0


_SUMS = VectorOp.ADD, VectorOp.SUBTRACT, VectorOp.ADD_POSITIVE, VectorOp.ADD_SCALED, VectorOp.ADD_SQUARE

_LANES = {
    VectorOp.SELECT: Lanes.NONZERO,
    VectorOp.SELECT_ZERO: Lanes.ZERO,
    VectorOp.ADD_POSITIVE: Lanes.POSITIVE,
}


def _is_written(which, word):
    """Tell whether a lane whose operand a is `word` writes its result."""
    nonzero = ~word.is_zero
    return (which == Lanes.ALL) | Mux(which == Lanes.ZERO, ~nonzero, nonzero & ~((which == Lanes.POSITIVE) & word.sign))


class VectorEngine(wiring.Component):
    """Executes VECTOR instructions in order, one element a cycle, σ, tanh and PACK one every ``lanes / units`` cycles.

    The activation units pack, too, and do what there is to do with integers. So σ, tanh, PACK and all operations on
    integers are called activations here; some have a second operand.

    An element's operands are there in the cycle after its issue. An element whose operands cannot be read in one cycle
    takes two, see :class:`~etalstm_hw.compute.operands.OperandReader`; so does one of two parameters. From issue to
    write an element takes

    - a product: ``multiply_latency + 1`` cycles;
    - a sum, a difference, what is added to a product, or a selection, which adds nothing to b: ``add_latency + 1``
      cycles. Some of these are written only in lanes whose a is of some kind, see :class:`Lanes`;
    - an activation: ``activation_latency + 2`` to ``activation_latency + 1 + lanes / units`` cycles. Each of its writes
      has ``units`` lanes.

    The results pass the PEs' output MUXes, which this engine sets.
    Writes keep the order of the elements: an element that would overtake another one waits. In ``serial`` instructions
    each run of the inner loop waits until nothing is in flight. There is no other interlock: the instruction's waits
    have to see to it that its operands are written, and which of its own results an element sees in the same
    turn is left open. Reset forgets everything.
    ::

        i ─► walker ─► element ─► issue ┬► PEs ──────────────────────────────────┬─output MUX─► results
                                       └─► vector ─│─► lanes in banks ──► units ─┤
        cycle                          0           1..2                 outside ─┘

    Parameters
    ----------
    format : FloatFormat
        Number format.
    lanes, beat_words : int
        Words of a vector, and of a beat from outside.
    units, activation_latency : int
        Activation units, a number that divides lanes; cycles from their operands to their results.
    multiply_latency, add_latency : int
        Cycles from operands to results in the PEs.
    scratch_depth, queue_depth : int
        Vectors of the memories.
    scratch_reads, scratch_banks : int
        See :class:`~etalstm_hw.compute.memory.ScratchMemory`.
    integers : bool
        There are operations on integers; a partial sum is one of ``SUM_BITS``, which only these read whole.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.VECTOR)))`
        Instructions.
    parameters : :py:`In(data.ArrayLayout(format.width, PARAMETERS))`
        Values of ``Source.PARAMETER``.
    drain : :py:`In(1)`
        Issue nothing in this cycle.
    pes_free : :py:`In(1)`
        An element may use the PEs in this cycle.
    waiting : :py:`Out(1)`
        An element lacks nothing but the PEs.
    scratch0, scratch1, sums : :py:`In(memory.ReadPort.Signature(...))`
        Read ports; an enable takes that of the partial sums for that cycle.
    outside_read, outside_data
        Other reads of the scratch memory: ``outside`` and ``outside_data`` of the reader of operands.
    sums_free : :py:`In(1)`
        The port of the partial sums may be taken in this cycle.
    issue, issue_pe : :py:`Out(1)`
        An element, one for the PEs, is issued in this cycle.
    operation : :py:`Out(Operation())`
        What the PEs do with the operands issued in the cycle before.
    a, b : :py:`Out(vector_layout(format, lanes))`
        These operands.
    scalar : :py:`Out(format.width)`
        What ``operation.scale`` multiplies by.
    to_activate, to_pack, function : :py:`Out(...)`
        Operands of the activation units, as wide as partial sums, and second ones; what they compute: a number of
        :data:`~etalstm_hw.fp.activation.FUNCTIONS`, or with integers the operation itself.
    limit, place, valid : :py:`Out(...)`
        The largest integer that QUANTISE leaves; the byte of a word; the units have something to do.
    output_select : :py:`Out(Output)`
        What the PEs' output MUXes are to pass on in this cycle: what arrives, or else what is written from outside.
    result : :py:`In(vector_layout(format, lanes))`
        What they pass on.
    outside : :py:`In(stream.Signature(LaneWrite(format, lanes, beat_words)))`
        Other writes of the scratch memory, which wait for a cycle without a result in their bank. ``memory`` is not
        looked at. Where there is one bank, nor are ``data``: they go to the PEs' output MUXes.
    written0, written1 : :py:`In(memory.WritePort.Signature(...))`
        The scratch memory's write ports, one for each bank.
    activations : :py:`Out(range(units + 1))`
        Values that enter the activation units in this cycle.
    in_flight : :py:`Out(1)`
        Elements have been issued whose results are not written.
    done : :py:`Out(1)`
        With an instruction's last write.
    busy : :py:`Out(1)`
        Anything is left to do.
    status : :py:`Out(Status)`
        See :class:`ElementWalker`.
    """

    def __init__(
        self, format: FloatFormat, lanes, beat_words, *, units, activation_latency, multiply_latency, add_latency,
        scratch_depth, queue_depth, scratch_reads, scratch_banks, integers=False,
    ):  # fmt: skip
        self._functions = {op: op for op in (*FUNCTIONS, *OPS_OF_INTEGERS)} if integers else FUNCTIONS
        self._last = last_op(integers)
        self._sum_bits = SUM_BITS if integers else format.width
        self.format, self.lanes, self.beat_words, self.units = format, lanes, beat_words, units
        if lanes % units:
            raise ValueError(f"the number of activation units must divide lanes ({lanes}), got {units}")
        self.banks, self.activation_latency = lanes // units, activation_latency
        self.multiply_latency, self.add_latency = multiply_latency, add_latency
        self.scratch_depth, self.queue_depth = scratch_depth, queue_depth
        vector, self.scratch_banks = vector_layout(format, lanes), scratch_banks
        reads = scratch_ports(vector, scratch_depth, scratch_reads, scratch_banks)
        ports = reads | scratch_writes(vector, scratch_depth, scratch_banks)
        self._reads, self.scratch_ports = tuple(reads), tuple(ports)
        self._operands = OperandReader(
            format, lanes, self._sum_bits, scratch_depth=scratch_depth, queue_depth=queue_depth, reads=scratch_reads,
            banks=scratch_banks,
        )  # fmt: skip
        super().__init__(
            {name: Out(1) for name in ("issue", "issue_pe", "waiting", "valid", "in_flight", "done", "busy")}
            | {name: In(1) for name in ("drain", "pes_free", "sums_free")}
            | {name: Out(vector) for name in ("a", "b", "outside_data")}
            | {
                "i": In(stream.Signature(instruction_layout(Opcode.VECTOR))),
                "parameters": In(data.ArrayLayout(format.width, PARAMETERS)),
                "sums": In(read_port(data.ArrayLayout(self._sum_bits, lanes), queue_depth)),
                "outside_read": In(stream.Signature(range(scratch_depth))),
                "operation": Out(Operation()),
                "scalar": Out(format.width),
                "to_activate": Out(data.ArrayLayout(self._sum_bits, units)),
                "to_pack": Out(vector_layout(format, units)),
                "function": Out(range(max(self._functions.values()) + 1)),
                "limit": Out(MANTISSA_BITS - 1),
                "place": Out(2),
                "output_select": Out(Output),
                "result": In(vector),
                "outside": In(stream.Signature(LaneWrite(format, lanes, beat_words))),
                "activations": Out(range(units + 1)),
                "status": Out(Status),
            }
            | {name: In(port) for name, port in ports.items()}
        )

    def elaborate(self, platform):
        """Issue elements; send operands to where they are used; collect results."""
        m = Module()
        m.submodules.walker = walker = ElementWalker(
            scratch_depth=self.scratch_depth, queue_depth=self.queue_depth, last_op=self._last
        )
        wiring.connect(m, wiring.flipped(self.i), walker.i)
        element, following = walker.o.p, walker.following
        # Of the element at hand, found out when it comes, to keep them out of the decision to issue.
        activation, select, arithmetic = (Signal(reset_less=True) for _ in range(3))
        selects = (following.op == VectorOp.SELECT) | (following.op == VectorOp.SELECT_ZERO)
        with m.If(walker.follows & (self.issue | ~walker.o.valid)):
            m.d.sync += [
                activation.eq(Cat(following.op == op for op in self._functions).any()),
                select.eq(selects),
                arithmetic.eq(following.op.matches(*_SUMS) | selects),
            ]
        m.d.comb += [
            self.status.eq(walker.status),
            self.issue.eq(walker.o.valid & walker.o.ready),
            self.issue_pe.eq(self.issue & ~activation),
        ]
        arrival = Arrival((self.scratch_depth - 1).bit_length(), self.banks)
        operands = self._read(m, walker)
        self._operate(m, element, select)
        bank_issue, bank = self._activate(m, element, operands.whole, self.issue & activation, arrival)
        self._schedule(m, element, activation, arithmetic, walker.o, operands)
        arriving = self._follow_results(m, element, arithmetic, bank_issue, bank)
        self._write(m, arriving, element)
        m.d.comb += self.busy.eq(self.i.valid | walker.o.valid | self.in_flight)
        return m

    def _read(self, m, walker):
        """Let the reader of operands have the memories' ports; give the reader."""
        m.submodules.operands = operands = self._operands
        for name in (*self._reads, "sums"):
            wiring.connect(m, getattr(operands, name), wiring.flipped(getattr(self, name)))
        wiring.connect(m, wiring.flipped(self.outside_read), operands.outside)
        m.d.comb += [
            operands.element.eq(walker.o.p),
            operands.valid.eq(walker.o.valid),
            operands.following.eq(walker.following),
            operands.follows.eq(walker.follows),
            operands.issue.eq(self.issue),
            operands.parameters.eq(self.parameters),
            *(getattr(self, name).eq(getattr(operands, name)) for name in ("a", "b", "scalar", "outside_data")),
        ]
        return operands

    def _operate(self, m, element, select):
        """One cycle after the issue tell the PEs what to do with the operands."""
        op = element.op
        m.d.sync += self.operation.eq(0)
        with m.If(self.issue):
            m.d.sync += [
                self.operation.multiply.eq(op == VectorOp.MULTIPLY),
                self.operation.subtract.eq(op == VectorOp.SUBTRACT),
                self.operation.scale.eq(op == VectorOp.ADD_SCALED),
                self.operation.square.eq(op == VectorOp.ADD_SQUARE),
                self.operation.empty.eq(select),
            ]

    def _activate(self, m, element, whole, issue, arrival):
        """Hold a vector while its lanes pass the units, bank by bank, and say what arrives and when it set out.

        Of a vector that the units keep nothing sets out.
        """
        read, function, running = Signal(), Signal.like(self.function, reset_less=True), Signal()
        limit, place = Signal.like(self.limit, reset_less=True), Signal.like(self.place, reset_less=True)
        vector = Signal(self.lanes * self._sum_bits, reset_less=True)
        second = Signal(self.lanes * self.format.width, reset_less=True)
        waiting, current, following = Signal(arrival), Signal(arrival), Signal(arrival)
        bank = Signal.like(following.bank, reset_less=True)
        keeps, kept = Signal(reset_less=True), Signal(reset_less=True)
        m.d.sync += read.eq(issue)
        with m.If(issue):
            m.d.sync += keeps.eq(element.keeps)
            m.d.sync += [waiting.address.eq(element.d), waiting.end.eq(element.end), place.eq(element.place)]
            m.d.sync += limit.eq(Array(C(most, len(limit)) for most in _LIMITS)[element.bits])
            with m.Switch(element.op):
                for op, number in self._functions.items():
                    with m.Case(op):
                        m.d.sync += function.eq(number)
        with m.If(running):
            m.d.sync += bank.eq(bank + 1)
            with m.If(bank == self.banks - 1):
                m.d.sync += running.eq(0)
        with m.If(read):
            m.d.sync += [vector.eq(whole), second.eq(self.b)]
            m.d.sync += [self.function.eq(function), self.limit.eq(limit), self.place.eq(place)]
            m.d.sync += [current.eq(waiting), kept.eq(keeps), bank.eq(0), running.eq(1)]

        m.d.comb += [
            Cat(self.to_activate).eq(vector.word_select(bank, self.units * self._sum_bits)),
            Cat(self.to_pack).eq(second.word_select(bank, self.units * self.format.width)),
            following.output.eq(Output.ACTIVATION),
            following.bank.eq(bank),
            following.address.eq(current.address),
            following.end.eq(current.end & (bank == self.banks - 1)),
            self.activations.eq(Mux(running, self.units, 0)),
            self.valid.eq(running),
        ]
        self._vector_stays = read | (running & (bank != self.banks - 1))
        return running & ~kept, following

    def _schedule(self, m, element, activation, arithmetic, elements, operands):
        """Issue an element unless it would overtake a result, the units that it needs are taken, or the engine drains.

        Whether the port of the partial sums is free is known last. So `able` is all but that.

        The lowest bit of `writes` that is 0 tells the cycles until the last write that is under way, that of `pause`
        those until the activation units can take a vector: a bit takes less logic than a comparison.
        """
        product, total = self.multiply_latency + 1, self.add_latency + 1
        first, last = self.activation_latency + 2, self.activation_latency + 1 + self.banks
        writes, pause = Signal(max(product, total, last)), Signal(self.banks)
        able, lacks_pes, early = Signal(), Signal(), Signal()
        sums_there = (element.a_source != Source.SUMS) | self.sums_free
        m.d.comb += [
            early.eq(Mux(activation, writes[first - 1], Mux(arithmetic, writes[total - 1], writes[product - 1]))),
            operands.may_read.eq(~(element.after & self.in_flight) & ~self.drain),
            able.eq(~early & ~(activation & pause[0]) & operands.may_read & operands.ready),
            lacks_pes.eq(~self.pes_free & ~activation),
            operands.able.eq(elements.valid & able & ~lacks_pes),
            elements.ready.eq(able & ~lacks_pes & sums_there),
            self.waiting.eq(elements.valid & able & lacks_pes & sums_there),
        ]
        m.d.sync += [writes.eq(writes >> 1), pause.eq(pause >> 1)]
        with m.If(self.issue):
            of_pes = Mux(arithmetic, (1 << total - 1) - 1, (1 << product - 1) - 1)
            m.d.sync += writes.eq(Mux(activation, (1 << last - 1) - 1, of_pes))
            with m.If(activation):
                m.d.sync += pause.eq((1 << self.banks - 1) - 1)

    def _follow_results(self, m, element, arithmetic, bank_issue, bank):
        """Delay the address and lanes of each result until the result is there; give those that arrive.

        Those of products and sums set out with the issue, those of a bank of lanes when it enters the activation units.
        """
        product, total, unit = self.multiply_latency + 1, self.add_latency + 1, self.activation_latency
        setting_out = Signal(bank.shape())
        m.d.comb += [
            setting_out.output.eq(Mux(arithmetic, Output.SUM, Output.PRODUCT)),
            setting_out.address.eq(element.d),
            setting_out.end.eq(element.end),
        ]
        starts = {total: self.issue_pe & arithmetic, product: self.issue_pe & ~arithmetic}
        valid = Signal(max(product, total, unit))
        arrival = bank.shape()
        stages = [Signal(arrival, name=f"arrival_{n}", reset_less=True) for n in range(len(valid))]
        for n, stage in enumerate(stages):
            older = stages[n + 1] if n + 1 < len(stages) else arrival.const({})
            m.d.sync += [stage.eq(older), valid[n].eq(valid[n + 1] if n + 1 < len(stages) else 0)]
            with m.If(starts.get(n + 1, 0)):
                m.d.sync += [stage.eq(setting_out), valid[n].eq(1)]
            if n + 1 == unit:
                with m.If(bank_issue):
                    m.d.sync += [stage.eq(bank), valid[n].eq(1)]
        m.d.sync += self.in_flight.eq(valid[1:].any() | self.issue | bank_issue | self._vector_stays)
        return valid[0], stages[0]

    def _write(self, m, arriving, element):
        """Write what arrives, in the lanes that it is for, or else what comes from outside."""
        valid, arrival = arriving
        which = Signal(Lanes, reset_less=True)
        with m.If(self.issue):
            m.d.sync += which.eq(Lanes.ALL)
            for op, lanes in _LANES.items():
                with m.If(element.op == op):
                    m.d.sync += which.eq(lanes)
        # With the kind in two bits, a lane's decision takes no more LUTs than it would without POSITIVE.
        words = [Float(self.format)(self.a[n]) for n in range(self.lanes)]
        selected = Cat(_is_written(which, word) for word in words)
        for n in range(self.add_latency):  # to the cycle in which the sum is there
            mask = Signal(self.lanes, name=f"mask_{n}", reset_less=True)
            m.d.sync += mask.eq(selected)
            selected = mask

        banks, written = Cat((arrival.bank == n).replicate(self.units) for n in range(self.banks)), Signal(self.lanes)
        with m.Switch(arrival.output):
            with m.Case(Output.PRODUCT):
                m.d.comb += written.eq(-1)
            with m.Case(Output.SUM):
                m.d.comb += written.eq(selected)
            with m.Case(Output.ACTIVATION):
                m.d.comb += written.eq(banks)
        outside = Output.OUTSIDE if self.scratch_banks == 1 else arrival.output
        conflicts = [self._write_bank(m, bank, valid, arrival, written) for bank in range(self.scratch_banks)]
        m.d.comb += [
            self.output_select.eq(Mux(valid, arrival.output, outside)),
            self.outside.ready.eq(~Cat(conflicts).any()),
            self.done.eq(valid & arrival.end),
        ]

    def _write_bank(self, m, bank, valid, arrival, written):
        """Write a result to a bank, or what comes from outside; tell whether this has to wait."""
        port, outside, inside = getattr(self, f"written{bank}"), self.outside.p, self.scratch_banks - 1
        arrives, mine, data = valid, C(1, 1), self.result
        if inside:
            arrives, mine = valid & (arrival.address[0] == bank), outside.address[0] == bank
            data = Mux(arrives, self.result, outside.data)
        beats = Cat((enable & mine & self.outside.valid).replicate(self.beat_words) for enable in outside.enable)
        m.d.comb += [
            port.addr.eq(Mux(arrives, arrival.address[inside:], outside.address[inside:])),
            port.data.eq(data),
            port.en.eq(Mux(arrives, written, beats)),
        ]
        return arrives & mine
