"""Loops of a program: what is folded, how addresses advance, and how a program is walked."""

import random
from itertools import islice

import pytest

from etalstm.errors import PlanError
from etalstm.plan.memory.operands import Section
from etalstm.plan.program.fold import FoldError
from etalstm.plan.program.program import Program
from etalstm.plan.program.walk import disassemble, locate, streams_before, walk
from etalstm_hw import contract
from etalstm_hw.config import preset
from etalstm_hw.contract import ENGINE_OF, Engine, Memory, Opcode, Source, Traffic, VectorOp, encode

LOAD = {"memory": Memory.SCRATCH, "kind": 0, "outer": 1, "inner": 1, "inner_stride": 1}


def program():
    return Program(preset("test"))


def load(to, address, **fields):
    to.emit(Opcode.LOAD, address=address, **LOAD | fields)


def executed(words):
    """Opcode, effective address and lane address of everything that is executed, without HALT."""
    return [(step.opcode, step.address, step.fields.get("lane_address")) for step in walk(words)][:-1]


def nest(generator, depth):
    """A random nest of loops: turns, and a body of instructions (lane, address, strides by loop) and loops."""
    body = []
    for _ in range(generator.randint(1, 3)):
        strides = [generator.choice([0, 8, -8, 24]) for _ in range(depth)]
        body.append((generator.randrange(64), generator.randrange(1 << 20, 1 << 21), strides))
    if depth < 3:
        body.insert(generator.randint(0, len(body)), nest(generator, depth + 1))
    return generator.randint(1, 12), body


def emit(to, loop, outer=()):
    """Emit a nest as loops; give what it must execute."""
    turns, body = loop

    def emit_turn(turn):
        for node in body:
            if len(node) == 2:
                emit(to, node, (*outer, turn))
            else:
                load(to, at(node, (*outer, turn)), lane_address=node[0])

    to.loop(turns, emit_turn)


def at(node, turns):
    return node[1] + sum(stride * turn for stride, turn in zip(node[2], turns, strict=True))


def expected(loop, outer=()):
    turns, body = loop
    for turn in range(turns):
        for node in body:
            if len(node) == 2:
                yield from expected(node, (*outer, turn))
            else:
                yield Opcode.LOAD, at(node, (*outer, turn)), node[0]


@pytest.mark.parametrize("seed", range(20))
def test_nested_loops_execute_what_their_turns_say(seed):
    loop, made = nest(random.Random(seed), 1), program()
    emit(made, loop)
    load(made, 5)  # registers are 0 again
    made.halt()
    assert executed(made.words) == [*expected(loop), (Opcode.LOAD, 5, 0)]


def test_many_turns_take_as_many_words_as_few():
    sizes = []
    for turns in (20, 20_000_000):
        made = program()
        made.loop(turns, lambda turn, made=made: load(made, 8 * turn))
        sizes.append(len(made.words))
    assert sizes[0] == sizes[1] < 6
    assert [step.address for step in islice(walk(made.words), 9)] == list(range(0, 72, 8))


def test_turns_that_alternate_share_a_body():
    made = program()
    made.loop(101, lambda turn: load(made, 16 * turn, lane_address=32 * (turn % 3)))
    made.halt()
    assert executed(made.words) == [(Opcode.LOAD, 16 * turn, 32 * (turn % 3)) for turn in range(101)]
    assert len(made.words) < 10


def test_waits_are_relative_and_those_of_all_turns_the_same():
    """A STORE reads what the LOAD of its turn wrote, which overwrites what the STORE of the turn before has read."""
    made = program()

    def turn(number):
        made.emit(Opcode.LOAD, writes=["lane"], address=8 * number, **LOAD)
        made.emit(Opcode.STORE, reads=["lane"], address=1000 + 8 * number, **LOAD)

    made.loop(50, turn)
    made.halt()
    for number, step in enumerate(walk(made.words)):
        number, second = divmod(number, 2)
        if step.opcode != Opcode.HALT:
            waits = (number + 1, 0, 0, 0) if second else (0, 0, 0, number)
            assert step.waits == waits, f"{number}: {step}"


def test_a_wait_that_reaches_too_far_back_is_for_a_later_instruction():
    made = program()
    made.emit(Opcode.LOAD, writes=["early"], address=0, **LOAD)
    made.loop(1000, lambda turn: load(made, 8 * turn))
    made.emit(Opcode.STORE, reads=["early"], address=0, **LOAD)
    made.halt()
    *_, store, _ = walk(made.words)
    assert store.fields["wait_load"] == 255 and store.waits == (1001 + 1 - 255, 0, 0, 0)


def test_after_a_loop_what_any_of_its_turns_touched_is_waited_for():
    """Turn 500 of 1000 is never emitted; what reads its part waits for the last STORE that may have written it."""
    made = program()

    made.loop(1000, lambda n: made.emit(Opcode.STORE, writes=[Section("y", (n,))], address=8 * n, **LOAD))
    made.emit(Opcode.LOAD, reads=[Section("y", (500,))], address=0, **LOAD)
    made.halt()
    *_, load_step, _ = walk(made.words)
    assert 501 <= load_step.waits[Engine.STORE] <= 1000


@pytest.mark.parametrize(
    ("turn", "message"),
    [
        (lambda made, n: load(made, 8 * n + (n == 99)), "LOAD is 0 in turn 0, 793 in turn 99, expected 792: 8 more"),
        (
            lambda made, n: load(made, 8 * n, inner=1 + (n == 99)),
            "turn 99 of a loop has other instructions than turn 0",
        ),
        (lambda made, n: [load(made, 0) for _ in range(1 + (n == 99))], "turn 99 of a loop has other instructions"),
        (lambda made, n: load(made, 0, lane_address=n), "the first 32 of 100 turns of a loop do not repeat"),
    ],
    ids=["address", "field", "instruction", "no pattern"],
)
def test_turns_that_do_not_repeat_are_an_error(turn, message):
    made = program()
    with pytest.raises(FoldError, match=message):
        made.loop(100, lambda number: turn(made, number))


def test_few_turns_are_written_out():
    made = program()
    made.loop(3, lambda turn: load(made, turn * turn))
    assert [contract.decode(word)[1]["address"] for word in made.words] == [0, 1, 4]


def test_addresses_that_advance_in_too_many_ways_are_refused():
    made = program()
    with pytest.raises(PlanError, match="advance in 16 ways, there are registers for 15"):
        made.loop(9, lambda turn: [load(made, 999 + n * turn) for n in range(1, 17)])
    made = program()
    made.loop(9, lambda turn: [load(made, 999 + n * turn) for n in range(1, 16)])
    made.halt()
    assert [address for _, address, _ in executed(made.words)] == [999 + n * t for t in range(9) for n in range(1, 16)]


def test_too_many_loops_inside_each_other_are_refused():
    made = program()

    def deeper(depth, base):
        if not depth:
            return load(made, base)
        return made.loop(9, lambda turn: deeper(depth - 1, base * 10 + turn))

    deeper(contract.LOOP_DEPTH, 0)
    with pytest.raises(PlanError, match="more than 4 loops inside each other"):
        deeper(contract.LOOP_DEPTH + 1, 0)


def test_a_value_that_fits_no_field_is_a_plan_error():
    with pytest.raises(PlanError, match=r"LOAD.inner must be 0 to 4095, got 5000"):
        load(program(), 0, inner=5000)


@pytest.mark.parametrize(
    ("loop", "message"),
    [
        ({"turns": 0, "length": 1}, "0 turns of 1 instructions"),
        ({"turns": 2, "length": 0}, "2 turns of 0 instructions"),
        ({"turns": 2, "length": 3}, "ends at 4, what is around it at 3"),
    ],
)
def test_a_loop_that_the_machine_refuses_is_not_walked(loop, message):
    words = [contract.encode(Opcode.LOOP, **loop), contract.encode(Opcode.LOAD, **LOAD), contract.encode(Opcode.HALT)]
    with pytest.raises(ValueError, match=message):
        list(walk(words))


def streamed(seed):
    """A program of loops whose STOREs append to two logs; the second begins anew in the middle."""
    generator, made = random.Random(seed), program()

    def store(log, first=0):
        fields = LOAD | {"outer": 1, "inner": generator.randint(1, 4)} if first else LOAD | {"inner": 1 + log}
        made.emit(Opcode.STORE, address=0, compressed=1, log=log, first=first, **fields)

    def body(turn):
        store(0)
        made.loop(7, lambda _: [store(1), load(made, 0)])
        made.emit(Opcode.STORE, address=0, **LOAD)

    store(0, first=1)
    for _ in range(2):
        store(1, first=1)
        made.loop(generator.randint(1, 30), body)
    made.halt()
    return made.words


def reference(words, stores):
    """What :func:`streams_before` says, by going through everything."""
    steps = [step for step in walk(words) if ENGINE_OF.get(step.opcode) == Engine.STORE]
    fields = steps[stores].fields
    if not fields["compressed"]:
        return None
    log, before, total, passed = fields["log"], 0, 0, False
    for number, step in enumerate(steps):
        f = step.fields
        if not f["compressed"] or f["log"] != log:
            passed |= number == stores
            continue
        if f["first"]:
            if passed:
                break
            before = total = 0
        passed |= number == stores
        size = f["outer"] * f["inner"]
        before, total = before + size * (not passed), total + size
    return log, before / total


@pytest.mark.parametrize("seed", range(5))
def test_streams_before_is_what_all_turns_add_up_to(seed):
    words = streamed(seed)
    own = [step.number for step in walk(words) if ENGINE_OF.get(step.opcode) == Engine.STORE]
    for stores, number in enumerate(own):
        assert locate(words, Engine.STORE, stores)[0] == number
        if wanted := reference(words, stores):
            assert streams_before(words, stores) == wanted, stores
    assert locate(words, Engine.STORE, len(own)) is None


def test_locate_names_the_turns():
    made = program()
    made.loop(1000, lambda turn: load(made, 8 * turn))
    number, turns = locate(made.words, Engine.LOAD, 123)
    assert (number, turns) == (1, (123,))


def test_a_listing_shows_loops_and_registers():
    made = program()
    made.loop(100, lambda turn: load(made, 64 + 8 * turn))
    made.halt()
    lines = list(disassemble(made.words))
    assert [line.split(maxsplit=1)[0] for line in lines] == [str(n) for n in range(len(lines))]
    assert lines[0].endswith("LOOP      turns=100 length=2")
    assert lines[1].startswith("     1    LOAD      address=64+r1 ")
    assert lines[2] == "     2    ADVANCE   r1+=8" and lines[3] == "     3  ADVANCE   r1+=-800"


def test_a_listing_names_what_the_contract_names():
    tanh = encode(Opcode.VECTOR, op=VectorOp.TANH, a_source=Source.SUMS, a=5, outer=2, inner=3, wait_mac=1)
    loaded = encode(Opcode.LOAD, memory=Memory.WEIGHTS, kind=Traffic.WEIGHTS, address=7, outer=1, inner=4)
    lines = [" ".join(line.split()) for line in disassemble([tanh, loaded, encode(Opcode.VECTOR, op=31, outer=1)])]
    assert lines[0] == "0 VECTOR op=tanh a_source=sums b_source=scratch a=5 outer=2 inner=3 after mac -1"
    assert lines[1] == "1 LOAD address=7 kind=weights memory=weights outer=1 inner=4"
    assert lines[2].startswith("2 VECTOR op=31 ")


def test_a_listing_says_what_lies_at_an_address():
    loaded = encode(Opcode.LOAD, memory=Memory.SCRATCH, kind=Traffic.ACTIVATIONS, address=24, outer=1, inner=1)
    lines = list(disassemble([loaded, encode(Opcode.HALT)], {24: "h0[2]"}.get))
    assert lines[0].endswith("  ; h0[2]") and ";" not in lines[1]
