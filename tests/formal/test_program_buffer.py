"""ProgramBuffer: the instruction at hand is the one of its number, forwards, backwards and after every jump."""

from amaranth.asserts import AnyConst
from amaranth.hdl import Assert, Assume, Cover, Mux, Signal

from tests.formal.harness import Shadow, bench, constant, stream_out
from tests.formal.prove import Change, Mutant, Proof, bounded

_INDEX_BITS, _DEPTH, _ADDRESS_BITS = 4, 8, 6


def program_buffer(load):
    """Follow one instruction of the program, whichever the solver picks, in whatever order the program is executed.

    Instructions of two beats of 1 byte, requests of two of them, a ring of 8: the ring wraps, steps back hit and miss.
    The program has up to 15 instructions. A step back may withdraw a request that is not taken.
    """
    unit = load("hw.program.buffer").ProgramBuffer(beat_bits=8, address_bits=_ADDRESS_BITS, depth=_DEPTH)
    m = bench(unit)
    command, data, length = unit.command, unit.data, unit.length
    constant(m, unit.program, length)
    asks, arrives = stream_out(m, command, name="command", unless=unit.back), data.valid & data.ready

    # The memory answers in order. The followed instruction's beats, and whether they can be read, never change.
    number, word, broken = AnyConst(_INDEX_BITS), AnyConst(16), AnyConst(1)
    at, ends = Signal(3), Signal()
    first = Signal(_ADDRESS_BITS + 1)  # beat of the program
    m.d.comb += first.eq(command.p.address - unit.program)
    asked = Shadow(m, _DEPTH, push=asks, value=first, pop=ends, name="asked")
    sizes = Shadow(m, _DEPTH, push=asks, value=command.p.beats, pop=ends, name="sizes")
    place = asked.head + at
    mine = place[1:] == number
    m.d.comb += [
        Assume(unit.program < 16),
        Assume(~data.valid | (asked.count != 0)),
        Assume(~(arrives & mine) | (data.p.data == word.word_select(place[0], 8))),
        Assume(~(arrives & mine) | (data.p.error == (broken & place[0]))),
        ends.eq(arrives & (at + 1 == sizes.head)),
    ]
    with m.If(arrives):
        m.d.sync += at.eq(Mux(ends, 0, at + 1))

    # Its user goes on, or back to an instruction that was there before.
    index, jumped = Signal(_INDEX_BITS), Signal()
    m.d.comb += [
        Assume(~unit.step | (unit.valid & (index < length) & ~unit.back)),
        Assume(~unit.back | ((unit.distance != 0) & (unit.distance <= index) & (unit.target == index - unit.distance))),
    ]
    m.d.sync += jumped.eq(jumped | unit.back)
    with m.If(unit.back):
        m.d.sync += index.eq(unit.target)
    with m.Else():
        m.d.sync += index.eq(index + unit.step)
    there = unit.valid & (index == number)
    m.d.comb += [
        Assert(~there | (unit.error == broken)),
        Assert(~there | broken | (unit.word == word)),
        Assert(~unit.valid | (index < length)),
        Assert(~command.valid | ((first + command.p.beats <= length << 1) & (command.p.beats != 0))),
        Assert(~command.valid | (command.p.beats <= 4) & ~first[0]),
        Assert(data.ready),
        Cover(there & (number == 5) & jumped),
        Cover(unit.back & (unit.distance == 1) & (asked.count == 2)),
    ]
    return m


def _mutant(old, new, survives=""):
    return Mutant("hw.program.buffer", old, new, survives)


PROOFS = [
    Proof(
        name="ProgramBuffer",
        build=program_buffer,
        claim="the instruction at hand is the one of its number, also after steps back; nothing beyond the end is read",
        method=bounded(14),
        reach=18,
        small=(
            Change(
                "hw.program.buffer",
                "from etalstm.hw.contract import ADDRESS_BITS, INSTRUCTION_BITS, LOOP_BITS",
                "ADDRESS_BITS, INSTRUCTION_BITS, LOOP_BITS = 4, 16, 4",
            ),
            Change("hw.program.buffer", "INDEX_BITS = 32", f"INDEX_BITS = {_INDEX_BITS}"),
            Change("hw.axi", "BURST_BEATS = 16", "BURST_BEATS = 4"),
        ),
        mutants=(
            _mutant("self.distance <= behind", "self.distance <= behind + 1"),
            _mutant("stored.eq(whole & (dropped == 0))", "stored.eq(whole)"),
            _mutant("place.eq(place + self.step)", "place.eq(place + self.valid)"),
            _mutant("ready.eq(ready + stored - self.step)", "ready.eq(ready + stored)"),
            _mutant(
                "behind.eq(Mux(behind == self._depth // 2, behind, behind + self.step))",
                "behind.eq(behind + self.step)",
            ),
            _mutant("dropped.eq(dropped + pending + asked - whole)", "dropped.eq(dropped + pending + asked)"),
            _mutant("dropped.eq(dropped + pending + asked - whole)", "dropped.eq(dropped + pending - whole)"),
            _mutant("place.eq(fill + stored), ready.eq(0)", "place.eq(fill), ready.eq(0)"),
            _mutant("ready.eq(ready + stored + self.distance", "ready.eq(ready + self.distance"),
            _mutant(
                "word = Cat(held, self.data.p.data)[self._beat_bits :]",
                "word = Cat(self.data.p.data, held)[: len(held)]",
            ),
            _mutant("failed.eq(error & ~last)", "failed.eq(0)", "the followed instruction fails with its last beat"),
            _mutant("Mux(left < to_boundary, left, to_boundary)", "to_boundary"),
            _mutant("(ready + pending + self._burst <= self._depth // 2)", "1"),
            _mutant("m.d.sync += following.eq(self.target)", "pass"),
            _mutant("with m.If((left != 0) & ~missed):", "with m.If(left != 0):"),
        ),
    )
]


def test_proof(task, prove):
    prove(task)
