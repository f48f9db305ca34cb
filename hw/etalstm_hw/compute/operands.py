"""Reads the operands of elements: scratch words, partial sums and parameters."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.compute.elements import Element, has_one_operand
from etalstm_hw.compute.memory import read_port, scratch_ports
from etalstm_hw.contract import PARAMETERS, FloatFormat, Source, VectorOp
from etalstm_hw.stream import vector_layout


class Place(enum.Enum, shape=2):  # type: ignore[call-arg] # Amaranth's metaclass takes it
    """Where an operand is in the cycle after the issue."""

    PORT0 = 0
    KEPT = 1  # of a: the partial sums' port; of b: the register of the word that was read before
    PARAMETER = 2
    PORT1 = 3


class OperandReader(wiring.Component):
    """Reads both operands of each element; they are there in the cycle after the issue.

    Operand a is read in the cycle of the issue. So is b where the scratch memory exists twice (``reads`` of 2).

    With one copy, the memory has ``banks``, each of which has one read port. Operand b is read

    - together with a of the element before, if that one lies in another bank or is no scratch word;
    - else in the first cycle in which the element may read. That is the cycle of its issue, unless a lies in the same
      bank: such an element takes two cycles;
    - not at all in an inner loop in which b's address stays the same: b is kept from the element before.

    So two banks give an element a cycle, if the addresses of a and b have odd strides or lie in different banks.
    No b is read before its instruction has come, or in ``serial`` instructions before the results of the turn before
    are written. Within a turn, b may be older than the results of earlier elements.

    Of two parameters b is looked up in a cycle before the issue.

    Parameters
    ----------
    format : FloatFormat
        Number format.
    lanes, sum_bits : int
        Words of a vector; bits of a partial sum.
    scratch_depth, queue_depth, reads, banks : int
        Vectors of the memories; copies and banks of the scratch memory, see
        :class:`~etalstm_hw.compute.memory.ScratchMemory`.

    Members
    -------
    element, following : :py:`In(Element())`
        The element at hand, and that which comes with or after its issue.
    valid, follows : :py:`In(1)`
        They are there. In the cycle of an issue, or without an element at hand, the following one becomes that.
    may_read, able, issue : :py:`In(1)`
        The element at hand may read; is issued if the port of the partial sums lets it; is issued.
    ready : :py:`Out(1)`
        It can be issued, as far as its operands go.
    parameters : :py:`In(data.ArrayLayout(format.width, PARAMETERS))`
        Values of ``Source.PARAMETER``.
    scratch0, scratch1 : :py:`In(memory.ReadPort.Signature(...))`
        See :class:`~etalstm_hw.compute.memory.ScratchMemory`.
    sums : :py:`In(memory.ReadPort.Signature(...))`
        Read port of the partial sums; an enable takes it for that cycle.
    outside : :py:`In(stream.Signature(scratch_depth))`
        Addresses of other reads of the scratch memory. They wait for a cycle in which no b is read, and not their bank.
        An element that only waits for the partial sums reads as if it were issued. So these do not hang on it.
    outside_data : :py:`Out(vector_layout(format, lanes))`
        What they have read, one cycle later.
    a, b : :py:`Out(vector_layout(format, lanes))`
        Operands.
    whole : :py:`Out(data.ArrayLayout(sum_bits, lanes))`
        Operand a, as wide as a partial sum, with its sign.
    scalar : :py:`Out(format.width)`
        The parameter.
    """

    def __init__(self, format: FloatFormat, lanes, sum_bits, *, scratch_depth, queue_depth, reads, banks):
        vector, self._lanes, self._format, self._sum_bits = vector_layout(format, lanes), lanes, format, sum_bits
        self._reads, self._banks = reads, banks
        self._ports = list(scratch_ports(vector, scratch_depth, reads, banks))
        sums = data.ArrayLayout(sum_bits, lanes)
        super().__init__(
            {name: In(1) for name in ("valid", "follows", "may_read", "able", "issue")}
            | {name: In(Element()) for name in ("element", "following")}
            | {name: In(port) for name, port in scratch_ports(vector, scratch_depth, reads, banks).items()}
            | {name: Out(vector) for name in ("a", "b", "outside_data")}
            | {
                "ready": Out(1),
                "parameters": In(data.ArrayLayout(format.width, PARAMETERS)),
                "sums": In(read_port(sums, queue_depth)),
                "outside": In(stream.Signature(range(scratch_depth))),
                "whole": Out(sums),
                "scalar": Out(format.width),
            }
        )

    def elaborate(self, platform):
        """What an element needs is found out when it comes, to keep it out of the decision to issue."""
        m = Module()
        element, following = self.element, self.following
        advance, a_scratch, b_scratch, next_b_scratch = Signal(), Signal(), Signal(reset_less=True), Signal()
        has_b = ~has_one_operand(following.op)
        m.d.comb += [
            advance.eq(self.follows & (self.issue | ~self.valid)),
            a_scratch.eq(element.a_source == Source.SCRATCH),
            next_b_scratch.eq((following.b_source == Source.SCRATCH) & has_b),
            self.sums.addr.eq(element.a),
            self.sums.en.eq(self.able & (element.a_source == Source.SUMS)),
        ]
        with m.If(advance):
            m.d.sync += b_scratch.eq(next_b_scratch)
        if self._reads == 2:
            b_read, places = self._read_copies(m, a_scratch)
        else:
            b_read, places = self._read_banks(m, advance, a_scratch, b_scratch, next_b_scratch)
        constants, looked_up = self._read_parameters(m, advance, has_b)
        m.d.comb += self.ready.eq(b_read & looked_up)
        self._choose(m, a_scratch, b_scratch, places, constants)
        return m

    def _bank(self, address):
        """Give the bank that an address lies in."""
        return address[0] if self._banks == 2 else Const(0, 1)

    def _in_bank(self, address):
        """Give the address inside its bank."""
        return address[self._banks - 1 :]

    def _read_copies(self, m, a_scratch):
        """Read both operands in the cycle of the issue, reads from outside by a's port; give where they are then."""
        element, reads_a = self.element, Signal()
        m.d.comb += [
            reads_a.eq(self.able & a_scratch),
            self.outside.ready.eq(~reads_a),
            self.scratch0.en.eq(reads_a | self.outside.valid),
            self.scratch0.addr.eq(Mux(reads_a, element.a, self.outside.p)),
            self.scratch1.en.eq(self.issue & (element.b_source == Source.SCRATCH)),
            self.scratch1.addr.eq(element.b),
            self.outside_data.eq(self.scratch0.data),
        ]
        self._kept = Const(0)
        return Const(1), (Place.PORT0, Place.PORT1)

    def _read_banks(self, m, advance, a_scratch, b_scratch, next_b_scratch):
        """Read b when its bank is free, ahead of the element if possible; give whether the issue need not wait for it,
        and where the operands of an element that is issued are then.
        """
        element, following = self.element, self.following
        clash, there, arrives, bank = Signal(reset_less=True), Signal(), Signal(), Signal(reset_less=True)
        may_be_ahead, reads_a, reads_b, reads_next = Signal(), Signal(), Signal(), Signal()
        a_in, b_in, next_in = (self._bank(address) for address in (element.a, element.b, following.b))
        m.d.comb += [
            reads_a.eq(self.able & a_scratch),
            reads_b.eq(self.valid & self.may_read & b_scratch & ~there),
            # All but the issue, which is known last.
            may_be_ahead.eq(
                (self.follows & next_b_scratch & ~following.after & ~following.same_b)
                & ~reads_b
                & ~(self.valid & a_scratch & (a_in == next_in))
            ),
            reads_next.eq(may_be_ahead & (self.able | ~self.valid)),
        ]
        with m.If(advance):
            m.d.sync += there.eq(following.same_b | may_be_ahead)
            a_is_scratch = following.a_source == Source.SCRATCH
            m.d.sync += clash.eq(a_is_scratch & next_b_scratch & (self._bank(following.a) == next_in))
        with m.Elif(reads_b):
            m.d.sync += there.eq(1)

        # One MUX serves b's register and reads from outside. So no two of them read in one cycle.
        self._kept = Signal(self.b.shape(), reset_less=True)
        words = Array(getattr(self, name).data.as_value() for name in self._ports)[bank]
        m.d.comb += self.outside_data.eq(words)
        outside_in = self._bank(self.outside.p)
        m.d.comb += self.outside.ready.eq(~reads_b & ~reads_next & ~(reads_a & (a_in == outside_in)))
        m.d.sync += [
            arrives.eq(reads_b | (may_be_ahead & (self.issue | ~self.valid))),
            bank.eq(Mux(reads_b, b_in, Mux(reads_next, next_in, outside_in))),
        ]
        with m.If(arrives):
            m.d.sync += self._kept.eq(words)
        for n, name in enumerate(self._ports):
            port, of_a, of_b, of_next = getattr(self, name), Signal(), Signal(), Signal()
            addresses = Array(map(self._in_bank, (self.outside.p, following.b, element.a, element.b)))
            m.d.comb += [
                of_a.eq(reads_a & (a_in == n)),
                of_b.eq(reads_b & (b_in == n)),
                of_next.eq(reads_next & (next_in == n)),
                port.en.eq(of_a | of_b | of_next | self.outside.valid),
                port.addr.eq(addresses[Cat(of_b | of_next, of_b | of_a)]),
            ]
        a_place, b_place = (Mux(of_bank, Place.PORT1, Place.PORT0) for of_bank in (a_in, b_in))
        return ~clash | there, (a_place, Mux(there, Place.KEPT, b_place))

    def _read_parameters(self, m, advance, has_b):
        """Look up one parameter a cycle: of two, b's in a cycle before the issue.

        ADD_SCALED has one, whose number its bits are. Give the parameters of the element that was issued, and whether
        the issue need not wait for one.
        """
        element, following = self.element, self.following
        constants = [Signal(self._format.width, name=f"parameter_{n}", reset_less=True) for n in "ab"]
        both, waits, read = Signal(reset_less=True), Signal(), Signal()
        word = Signal(self._format.width)
        of_a = (element.a_source == Source.PARAMETER) & ~waits
        of_operand = Mux(of_a, element.a, element.b)[: PARAMETERS.bit_length() - 1]
        number = Mux(element.op == VectorOp.ADD_SCALED, element.bits, of_operand)
        m.d.comb += [
            waits.eq(both & ~read),
            word.eq(self.parameters[number]),
            self.scalar.eq(constants[0]),
        ]
        m.d.sync += read.eq((read | (self.valid & self.may_read & both)) & ~self.issue)
        with m.If(advance):
            of_parameters = (following.a_source == Source.PARAMETER) & (following.b_source == Source.PARAMETER)
            m.d.sync += both.eq(of_parameters & has_b)
        with m.If(self.issue):
            m.d.sync += constants[0].eq(word)
        with m.If(waits | ~both):
            m.d.sync += constants[1].eq(word)
        return constants, ~waits

    def _choose(self, m, a_scratch, b_scratch, places, constants):
        """Choose the operands, one cycle after the issue."""
        a_place, b_place = (Signal(Place, reset_less=True) for _ in "ab")
        of_sums = self.element.a_source == Source.SUMS
        with m.If(self.issue):
            m.d.sync += [
                a_place.eq(Mux(a_scratch, places[0], Mux(of_sums, Place.KEPT, Place.PARAMETER))),
                b_place.eq(Mux(b_scratch, places[1], Place.PARAMETER)),
            ]
        lower = Cat(word[: self._format.width] for word in self.sums.data)
        for operand, place, kept, constant in (
            (self.a, a_place, lower, constants[0]),
            (self.b, b_place, self._kept, constants[1]),
        ):
            with m.Switch(place):
                for n, name in enumerate(self._ports):
                    with m.Case((Place.PORT0, Place.PORT1)[n]):
                        m.d.comb += operand.eq(getattr(self, name).data)
                with m.Case(Place.KEPT):
                    m.d.comb += operand.eq(kept)
                with m.Default():
                    m.d.comb += operand.eq(constant.replicate(self._lanes))
        more = self._sum_bits - self._format.width
        for whole, total, word in zip(self.whole, self.sums.data, self.a, strict=True):
            upper = Mux(a_place == Place.KEPT, total[-more:], word[-1].replicate(more)) if more else Const(0, 0)
            m.d.comb += whole.eq(Cat(word, upper))
