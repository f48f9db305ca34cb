"""Unrolls VECTOR instructions into single elements."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import (
    COUNT_BITS,
    FIELDS,
    LANE_ADDRESS_BITS,
    OF_BYTES,
    OF_ONE_OPERAND,
    PARAMETERS,
    WITH_BITS,
    Opcode,
    Source,
    Status,
    VectorOp,
)
from etalstm_hw.contract.integers import DELTA_BITS, WORD_BYTES
from etalstm_hw.stream import instruction_layout

VECTOR = FIELDS[Opcode.VECTOR]


class Element(data.StructLayout):
    """One operation of all lanes.

    Members
    -------
    op : what to do, a :class:`VectorOp`
    a_source, b_source : where the operands come from, each a :class:`Source`
    a, b, d : addresses of operands and result
    bits : of an integer, or the number of a parameter
    place : which byte of a word it makes or takes, if it does
    keeps : it makes a byte of a word that is not whole yet, and nothing is written
    after : it may be issued only when every result before it is written
    same_b : in this turn of the inner loop b has had the same address in the element before
    end : the last of an instruction
    """

    def __init__(self):
        addresses = {name: LANE_ADDRESS_BITS for name in ("a", "b", "d")}
        fields = {name: VECTOR[name] for name in ("op", "a_source", "b_source", "bits")}
        super().__init__(fields | addresses | {"place": 2, "keeps": 1, "after": 1, "same_b": 1, "end": 1})


def has_one_operand(op):
    """Tell whether an operation is a function of one operand."""
    return Cat(op == each for each in OF_ONE_OPERAND).any()


class ElementWalker(wiring.Component):
    """Runs through the two loops of VECTOR instructions, one element per cycle.

    Strides count from 0 up and addresses wrap around at the size of an address. An element is at ``o`` one cycle
    after its instruction at ``i``, and stays until taken; the elements of the next instruction follow without a gap.
    Reset forgets the instruction.

    Parameters
    ----------
    scratch_depth, queue_depth : int
        Vectors of the memories.
    last_op : VectorOp
        The last of the operations that there are.

    Members
    -------
    i : :py:`In(stream.Signature(instruction_layout(Opcode.VECTOR)))`
        Instructions, taken with their last element.
    o : :py:`Out(stream.Signature(Element()))`
        Elements.
    following, follows : :py:`Out(...)`
        The element that comes to ``o`` next, and whether it is there: it comes when ``o`` is taken, or empty. It may
        turn out to be one that may not be executed, or that does not exist, as the instruction has none.
    status : :py:`Out(Status)`
        ``BAD_FIELD`` or ``BAD_ADDRESS`` from the first element that may not be executed until reset, otherwise
        ``IDLE``. That element is not given out, nor is any after it.
    """

    def __init__(self, *, scratch_depth, queue_depth, last_op):
        self.scratch_depth, self.queue_depth, self.last_op = scratch_depth, queue_depth, last_op
        self._integers = last_op == max(VectorOp)
        super().__init__(
            {
                "i": In(stream.Signature(instruction_layout(Opcode.VECTOR))),
                "o": Out(stream.Signature(Element())),
                "following": Out(Element()),
                "follows": Out(1),
                "status": Out(Status),
            }
        )

    def elaborate(self, platform):
        """Compute the element that follows and check it; give out the one that waits."""
        m = Module()
        element, valid = Signal(Element(), reset_less=True), Signal()
        following, i = self.following, self.i.p
        advance, empty = Signal(), Signal()
        m.d.comb += [
            empty.eq((i.outer == 0) | (i.inner == 0)),
            self.follows.eq(self.i.valid & (self.status == Status.IDLE)),
            advance.eq(self.follows & ~empty & (~valid | (self.o.valid & self.o.ready))),
            *(following[name].eq(i[name]) for name in ("op", "a_source", "b_source", "bits")),
            self.i.ready.eq(advance & following.end),
            self.o.p.eq(element),
        ]
        self._run_loops(m, following, advance)
        # The check of an element takes as many levels of logic as its issue. So it is made before the register.
        verdict = Signal(Status, reset_less=True)
        with m.If(advance):
            m.d.sync += [element.eq(following), verdict.eq(self._check(m, following)), valid.eq(1)]
        with m.Elif(self.o.ready & self.o.valid):
            m.d.sync += valid.eq(0)

        m.d.comb += self.o.valid.eq(valid & (verdict == Status.IDLE) & (self.status == Status.IDLE))
        with m.If(self.status == Status.IDLE):
            with m.If(self.i.valid & empty):
                m.d.sync += self.status.eq(Status.BAD_FIELD)
            with m.If(valid):
                m.d.sync += self.status.eq(verdict)
        return m

    def _run_loops(self, m, following, advance):
        """Two counters, and for each address its value and that at which this turn of the outer loop began."""
        i = self.i.p
        fresh, turns = Signal(init=1), Signal(init=1)  # before the first element of an instruction, of an inner loop
        inner, outer = (Signal(COUNT_BITS, name=name, reset_less=True) for name in ("inner", "outer"))
        inner_now, outer_now = (Signal(COUNT_BITS, name=f"{name}_now") for name in ("inner", "outer"))
        inner_ends, of_bytes = Signal(), Const(0)
        b_stays = Signal(
            reset_less=True
        )  # in an inner loop, so it is looked at only when the instruction has been there
        m.d.sync += b_stays.eq(i.b_inner == 0)
        if self._integers:
            of_bytes = Cat(i.op == op for op in OF_BYTES).any()
        m.d.comb += [
            inner_now.eq(Mux(fresh, 0, inner)),
            outer_now.eq(Mux(fresh, 0, outer)),
            inner_ends.eq(inner_now + 1 == i.inner),
            following.place.eq(inner_now),
            following.keeps.eq(of_bytes & ~inner_ends & (following.place != WORD_BYTES - 1)),
            following.after.eq(i.serial & turns & ~fresh),
            following.same_b.eq(b_stays & ~turns),
            following.end.eq(inner_ends & (outer_now + 1 == i.outer)),
        ]
        with m.If(advance):
            m.d.sync += [fresh.eq(following.end), turns.eq(inner_ends)]
            m.d.sync += inner.eq(Mux(inner_ends, 0, inner_now + 1))
            m.d.sync += outer.eq(outer_now + inner_ends)
        for name in ("a", "b", "d"):
            address, turn = (
                Signal(LANE_ADDRESS_BITS, name=f"{name}_{n}", reset_less=True) for n in ("address", "turn")
            )
            turn_now, next_turn = (Signal(LANE_ADDRESS_BITS, name=f"{name}_{n}") for n in ("turn_now", "next_turn"))
            m.d.comb += [
                following[name].eq(Mux(fresh, i[name], address)),
                turn_now.eq(Mux(fresh, i[name], turn)),
                next_turn.eq(turn_now + i[f"{name}_outer"]),
            ]
            with m.If(advance):
                m.d.sync += turn.eq(Mux(inner_ends, next_turn, turn_now))
                m.d.sync += address.eq(Mux(inner_ends, next_turn, following[name] + i[f"{name}_inner"]))

    def _check(self, m, element):
        """Give the verdict on an element."""
        has_b, has_bits, scales = ~has_one_operand(element.op), Const(0), element.op == VectorOp.ADD_SCALED
        if self._integers:
            has_bits = Cat(element.op == op for op in WITH_BITS).any()
        depths = {Source.SCRATCH: self.scratch_depth, Source.SUMS: self.queue_depth, Source.PARAMETER: PARAMETERS}

        def beyond(name):
            return sum((element[f"{name}_source"] == s) & (element[name] >= depth) for s, depth in depths.items())

        verdict = Signal(Status)
        with m.If(
            (element.op > self.last_op)
            | (has_bits & (element.bits < DELTA_BITS[0]))
            | (element.a_source > max(Source))
            | (has_b & (element.b_source != Source.SCRATCH) & (element.b_source != Source.PARAMETER))
            | (scales & ((element.a_source == Source.PARAMETER) | (element.b_source == Source.PARAMETER)))
        ):
            m.d.comb += verdict.eq(Status.BAD_FIELD)
        with m.Elif((beyond("a") != 0) | (has_b & (beyond("b") != 0)) | (element.d >= self.scratch_depth)):
            m.d.comb += verdict.eq(Status.BAD_ADDRESS)
        with m.Else():
            m.d.comb += verdict.eq(Status.IDLE)
        return verdict
