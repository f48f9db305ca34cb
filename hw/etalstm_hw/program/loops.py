"""Repeats the bodies of loops: gives a program's instructions in the order in which they are executed."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw.contract import INSTRUCTION_BITS, LOOP_BITS, LOOP_DEPTH, OPCODE_BITS, TURN_BITS, Opcode, Status
from etalstm_hw.program.buffer import NUMBER_BITS
from etalstm_hw.stream import instruction_layout

_LOOP = instruction_layout(Opcode.LOOP)


class Fetched(data.StructLayout):
    """An instruction that is next to be executed.

    Members
    -------
    word : the instruction, zeros instead of its check
    number : its number in the program
    verdict : IDLE, or why there is no such instruction: READ_ERROR, BAD_CHECK, TRUNCATED, BAD_FIELD
    """

    def __init__(self):
        super().__init__({"word": INSTRUCTION_BITS, "number": NUMBER_BITS, "verdict": Status})


class _Body(data.StructLayout):
    """A loop that is executed: its body's first instruction, the one after its last, their distance, turns to go."""

    def __init__(self):
        numbers = dict.fromkeys(("start", "end"), NUMBER_BITS)
        super().__init__(numbers | {"length": LOOP_BITS, "turns": TURN_BITS, "active": 1})


class Loops(wiring.Component):
    """Walks through the program in a :class:`~etalstm_hw.program.buffer.ProgramBuffer`; executes its LOOPs.

    An instruction a cycle is given, 1 cycle after the buffer has it. A LOOP takes 2 cycles, the end of a turn 1 cycle
    for each loop that ends there, and what the buffer needs to go back. The walk ends with the first instruction whose
    verdict is not IDLE: one that cannot be read or is damaged, the end of the program, a malformed LOOP, a HALT in a
    loop.

    Members
    -------
    length : :py:`In(NUMBER_BITS)`       instructions of the program; constant
    valid, word, error, damaged, step, back, distance, target
                                         to and from the buffer
    number : :py:`Out(NUMBER_BITS)`      number of the instruction that is wanted from the buffer
    o : :py:`Out(stream.Signature(Fetched()))`
        The instructions but LOOP.
    """

    def __init__(self):
        super().__init__(
            {
                "length": In(NUMBER_BITS),
                "valid": In(1),
                "word": In(INSTRUCTION_BITS),
                "error": In(1),
                "damaged": In(1),
                "step": Out(1),
                "back": Out(1),
                "distance": Out(LOOP_BITS),
                "target": Out(NUMBER_BITS),
                "number": Out(NUMBER_BITS),
                "o": Out(stream.Signature(Fetched())),
            }
        )

    def elaborate(self, platform):
        """The loops inside each other are a stack in registers, the innermost first.

        Whether `number` is at the end of the innermost is found out when either changes: `at_end` is a register. A body
        has an instruction at least, so neither its beginning nor a step back is its end. Where there is no loop, `end`
        is 0. Likewise `past_all` says in a register whether the program has ended; it does not begin before the buffer
        has an instruction, so a cycle after the reset is early enough.
        """
        m = Module()
        stack = [Signal(_Body(), name=f"body{n}") for n in range(LOOP_DEPTH)]
        inner, stored, ended = stack[0], Signal(), Signal()
        loop, is_loop, room = _LOOP(self.o.p.word[: _LOOP.size]), Signal(), Signal()
        at_end, past_all = Signal(), Signal()
        m.d.sync += past_all.eq(self.number == self.length)
        m.d.comb += [
            is_loop.eq(stored & (loop.opcode == Opcode.LOOP) & (self.o.p.verdict == Status.IDLE)),
            room.eq(~ended & (~stored | self.o.ready)),
            self.o.valid.eq(stored & ~is_loop),
            self.distance.eq(inner.length),
            self.target.eq(inner.start),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += stored.eq(0)
        with m.If(is_loop):
            self._enter(m, loop, stack, stored, ended)
        with m.Elif(at_end):
            with m.If(inner.turns == 1):
                m.d.sync += [outer.eq(following) for outer, following in zip(stack, [*stack[1:], 0], strict=True)]
                m.d.sync += at_end.eq(self.number == stack[1].end)
            with m.Else():
                m.d.comb += self.back.eq(1)
                m.d.sync += [inner.turns.eq(inner.turns - 1), self.number.eq(inner.start)]
                m.d.sync += [at_end.eq(0), past_all.eq(0)]
        with m.Elif(room & past_all):
            m.d.sync += [stored.eq(1), ended.eq(1)]
            m.d.sync += [self.o.p.verdict.eq(Status.TRUNCATED), self.o.p.number.eq(self.number)]
        with m.Elif(room & self.valid):
            self._take(m, inner, stored, ended)
            m.d.sync += [at_end.eq(self.number + 1 == inner.end), past_all.eq(self.number + 1 == self.length)]
        return m

    def _enter(self, m, loop, stack, stored, ended):
        """Begin the loop of the LOOP at hand, or refuse it. Its body begins at `number`."""
        end = self.number + loop.length
        limit = Mux(stack[0].active, stack[0].end, self.length)
        with m.If((loop.turns == 0) | (loop.length == 0) | (end > limit) | stack[-1].active):
            m.d.sync += [self.o.p.verdict.eq(Status.BAD_FIELD), ended.eq(1)]
        with m.Else():
            m.d.sync += [
                stored.eq(0),
                *(inner.eq(outer) for inner, outer in zip(stack[1:], stack[:-1], strict=True)),
                Cat(stack[0]).eq(Cat(self.number, end[:NUMBER_BITS], loop.length, loop.turns, Const(1))),
            ]

    def _take(self, m, inner, stored, ended):
        """Take the instruction at hand from the buffer."""
        misplaced, verdict = inner.active & (self.word[:OPCODE_BITS] == Opcode.HALT), Signal(Status)
        with m.If(self.error):
            m.d.comb += verdict.eq(Status.READ_ERROR)
        with m.Elif(self.damaged):
            m.d.comb += verdict.eq(Status.BAD_CHECK)
        with m.Elif(misplaced):
            m.d.comb += verdict.eq(Status.BAD_FIELD)
        m.d.comb += self.step.eq(1)
        m.d.sync += [
            stored.eq(1),
            self.o.p.word.eq(self.word),
            self.o.p.number.eq(self.number),
            self.o.p.verdict.eq(verdict),
            self.number.eq(self.number + 1),
            ended.eq(verdict != Status.IDLE),
        ]
