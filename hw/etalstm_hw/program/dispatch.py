"""Checks instructions, adds address registers, and turns relative waits into counts."""

from amaranth.hdl import Array, C, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from etalstm_hw import contract
from etalstm_hw.contract import (
    ADDRESS_BITS,
    ADDRESS_REGISTERS,
    ENGINE_OF,
    HEADER_BITS,
    Engine,
    Opcode,
    Status,
    is_known,
)
from etalstm_hw.program.buffer import NUMBER_BITS
from etalstm_hw.program.loops import Fetched
from etalstm_hw.stream import CHANNEL_ENGINES, Dispatched, instruction_layout

_HEADER = instruction_layout(Opcode.HALT)
_ADVANCE = instruction_layout(Opcode.ADVANCE)
_PAIR_BITS = contract.REGISTER_BITS + ADDRESS_BITS  # of ADVANCE: a register and an amount
_ADDRESSED = [opcode for opcode in ENGINE_OF if "address" in contract.FIELDS[opcode]]

# Fields that may not be 0, by opcode.
_COUNTS = {
    Opcode.LOAD: ("outer", "inner"),
    Opcode.LOAD_ROWS: ("outer", "inner", "lanes", "last_lanes", "tiles_per_channel"),
    Opcode.STORE: ("outer", "inner"),
    Opcode.VECTOR: ("outer", "inner"),
    Opcode.TRANSPOSE: ("outer", "rows", "lanes"),
    Opcode.MAC: ("tiles",),
    Opcode.CAST: ("blocks", "gates", "batch", "lanes", "last_lanes", "tiles", "tiles_per_channel"),
    Opcode.SEND: ("blocks", "batch", "own", "repeats", "tiles_per_channel"),
    Opcode.PRODUCT: (),
}
# Fields that must be 0: the broadcaster sees what every channel has stored, and nothing else of the channels.
_ZEROS = dict.fromkeys((Opcode.CAST, Opcode.SEND), ("wait_load", "wait_mac", "wait_vector"))


def _pairs(word):
    """Give the registers and amounts of an ADVANCE; those in use come first."""
    return word[HEADER_BITS : _ADVANCE.size]


def _first_term(word):
    """Give the register and the amount that an instruction adds first."""
    pair, header = _ADVANCE(word[: _ADVANCE.size]), _HEADER(word[:HEADER_BITS])
    own = Cat(header.register, word[HEADER_BITS:][:ADDRESS_BITS])
    return Mux(header.opcode == Opcode.ADVANCE, Cat(pair.register0, pair.amount0), own)


class Dispatch(wiring.Component):
    """Executes ADVANCE and hands the instructions of engines on, in order.

    An instruction a cycle, each after 2 cycles; an ADVANCE takes a cycle for each of its pairs up to the last that is
    not 0. A HALT, and an instruction that is refused, stay where they are: they show when all before them were taken.
    Reset clears the address registers and the counts that waits are relative to.

    Parameters
    ----------
    integers : bool
        Products are integers, else float32: which opcodes there are.

    Members
    -------
    i : :py:`In(stream.Signature(Fetched()))`
    o : :py:`Out(stream.Signature(Dispatched()))`
    halt : :py:`Out(1)`                  the program has come to its HALT
    refusal : :py:`Out(Status)`          IDLE, or why the next instruction is not executed: its own verdict, BAD_OPCODE,
                                         or BAD_FIELD for a count of 0 and for a wait that a CAST cannot have
    waiting : :py:`Out(1)`               an instruction is here and not handed on
    number : :py:`Out(NUMBER_BITS)`        number of the first such instruction
    """

    def __init__(self, integers=False):
        self._integers = integers
        for opcode in _ADDRESSED:
            if contract.layout(opcode)["address"] != (HEADER_BITS, ADDRESS_BITS):
                raise ValueError(f"{opcode.name}.address must be the first field after the header")
        super().__init__(
            {
                "i": In(stream.Signature(Fetched())),
                "o": Out(stream.Signature(Dispatched())),
                "halt": Out(1),
                "refusal": Out(Status),
                "waiting": Out(1),
                "number": Out(NUMBER_BITS),
            }
        )

    def elaborate(self, platform):
        """One register after the checks, one after the sums; `o` is the second."""
        m = Module()
        checked, valid, number = Signal(Fetched()), Signal(), Signal(NUMBER_BITS)
        addressed, advance, free = Signal(), Signal(), Signal()
        more = Signal()  # an ADVANCE has pairs after the present one: a register, since the next word hangs on it
        leaves = Signal()
        term = Signal(_PAIR_BITS)  # what is added now: registers, since the sum takes long
        opcode = checked.word[: contract.OPCODE_BITS]
        good = valid & (checked.verdict == Status.IDLE)
        m.d.comb += [
            free.eq(~self.o.valid | self.o.ready),
            advance.eq(good & (opcode == Opcode.ADVANCE)),
            self.halt.eq(good & (opcode == Opcode.HALT) & ~self.o.valid),
            self.refusal.eq(Mux(valid & ~self.o.valid, checked.verdict, Status.IDLE)),
            self.i.ready.eq(~valid | leaves),
            self.waiting.eq(self.o.valid | valid | self.i.valid),
            self.number.eq(Mux(self.o.valid, number, Mux(valid, checked.number, self.i.p.number))),
        ]
        total = self._advance(m, checked.word, advance, more, term)
        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        with m.If(advance):
            m.d.comb += leaves.eq(~more)
        with m.Elif(good & (opcode != Opcode.HALT) & free):
            m.d.comb += leaves.eq(1)
            m.d.sync += [self.o.valid.eq(1), number.eq(checked.number)]
            self._resolve(m, checked.word, Mux(addressed, total, checked.word[HEADER_BITS:][:ADDRESS_BITS]))
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid), checked.eq(self.i.p), checked.verdict.eq(self._check(m))]
            m.d.sync += addressed.eq(Cat(self._is(code) for code in _ADDRESSED).any())
            m.d.sync += [more.eq(_pairs(self.i.p.word)[_PAIR_BITS:].any()), term.eq(_first_term(self.i.p.word))]
        return m

    def _is(self, opcode):
        return self.i.p.word[: contract.OPCODE_BITS] == opcode

    def _check(self, m):
        """Give the verdict of the instruction at ``i``."""
        verdict, word = Signal(Status), self.i.p.word
        with m.If(self.i.p.verdict != Status.IDLE):
            m.d.comb += verdict.eq(self.i.p.verdict)
        with m.Else():
            with m.Switch(word[: contract.OPCODE_BITS]):
                for opcode, names in _COUNTS.items():
                    if not is_known(opcode, self._integers):
                        continue
                    fields = instruction_layout(opcode)(word[: instruction_layout(opcode).size])
                    bad = Cat(*(fields[name] == 0 for name in names), *(fields[n] != 0 for n in _ZEROS.get(opcode, ())))
                    with m.Case(opcode):
                        m.d.comb += verdict.eq(Mux(bad.any(), Status.BAD_FIELD, Status.IDLE))
                with m.Case(Opcode.HALT, Opcode.ADVANCE):
                    pass
                with m.Default():
                    m.d.comb += verdict.eq(Status.BAD_OPCODE)
        return verdict

    def _advance(self, m, word, advance, more, term):
        """Add the term at hand, a register and an amount; in an ADVANCE keep the sum and bring the next pair there.

        Returns the sum. ``more`` becomes whether pairs follow the next one.
        """
        registers = [Signal(ADDRESS_BITS, name=f"register{n}") for n in range(1, ADDRESS_REGISTERS)]
        number, amount = term[: contract.REGISTER_BITS], term[contract.REGISTER_BITS :]
        pairs, total = _pairs(word), Signal(ADDRESS_BITS)
        following = pairs[_PAIR_BITS:]
        m.d.comb += total.eq(Array([C(0, ADDRESS_BITS), *registers])[number] + amount)
        with m.If(advance):
            m.d.sync += [pairs.eq(following), more.eq(following[_PAIR_BITS:].any()), term.eq(following)]
            with m.Switch(number):
                for n, register in enumerate(registers, 1):
                    with m.Case(n):
                        m.d.sync += register.eq(total)
        return total

    def _resolve(self, m, word, address):
        """Put the instruction into ``o``, its relative waits as targets, and count it for those that follow."""
        header, o = _HEADER(word[:HEADER_BITS]), self.o.p
        fields = Cat(address, word[HEADER_BITS + ADDRESS_BITS :])
        m.d.sync += [
            o.word.eq(Cat(header.opcode, Const(0, HEADER_BITS - contract.OPCODE_BITS), fields)),
            o.waits.everyone.eq(header.everyone),
        ]
        for name in CHANNEL_ENGINES:
            number = Signal(contract.TARGET_BITS, init=1, name=f"{name}_number")  # that its next instruction will get
            distance, wait = header[f"wait_{name}"], o.waits[name]
            own = Cat(header.opcode == code for code, engine in ENGINE_OF.items() if engine == Engine[name.upper()])
            m.d.sync += [
                wait.wanted.eq(distance != 0),
                wait.target.eq(number - distance),
                number.eq(number + own.any()),
            ]
