"""Programs with loops leave the sequencer as if they had been written out; whatever is malformed has a name."""

import random

import pytest

from etalstm_hw.contract import (
    ADDRESS_BITS,
    ADDRESS_REGISTERS,
    ADVANCES,
    INSTRUCTION_BITS,
    LOOP_BITS,
    LOOP_DEPTH,
    PAGE_BYTES,
    Opcode,
    Status,
    encode,
)
from etalstm_hw.contract.image import INSTRUCTION_BYTES, image_of
from etalstm_hw.program.sequencer import SEQUENCER_ENGINE
from tests.hw.program.machine import ADDRESS_BITS as PORT_BITS
from tests.hw.program.machine import Run
from tests.hw.program.reference import execute

SEED = 7
HALT, LOAD = encode(Opcode.HALT), encode(Opcode.LOAD, outer=1, inner=1)
MOST = (1 << ADDRESS_BITS) - 1
BLOCKS = dict.fromkeys(("lanes", "last_lanes", "tiles_per_channel"), 1)
CAST = BLOCKS | dict.fromkeys(("blocks", "gates", "batch", "tiles"), 1)


def loop(turns, *body):
    return [encode(Opcode.LOOP, turns=turns, length=len(body)), *body]


def numbered(count):
    """Loads that can be told apart."""
    return [encode(Opcode.LOAD, outer=1, inner=1, address=100 * n) for n in range(count)]


def check(run, words):
    expected = execute(words)
    got = [(p.word, {name: p.waits[name].target for name in ("load", "mac", "vector", "store") if p.waits[name].wanted})
           for _, p in run.taken]  # fmt: skip
    for n, (one, other) in enumerate(zip(got, expected, strict=False)):
        assert one == other, f"seed {SEED}, instruction {n}: {one}, expected {other}"
    assert len(got) == len(expected), f"{len(got)} instructions, expected {len(expected)}"
    assert run.status == Status.DONE


def random_instruction(generator):
    """An instruction of an engine with waits and a register, or an ADVANCE."""
    if generator.random() < 0.2:
        pairs = {}
        for n in range(generator.randrange(ADVANCES + 1)):
            pairs[f"register{n}"] = generator.randrange(ADDRESS_REGISTERS)
            pairs[f"amount{n}"] = generator.choice([1, 1000, MOST, generator.randrange(MOST)])
        return encode(Opcode.ADVANCE, **pairs)
    waits = {f"wait_{name}": generator.choice([0, 0, 1, 3, 255]) for name in ("load", "mac", "vector", "store")}
    register = {"register": generator.randrange(ADDRESS_REGISTERS), "everyone": generator.randrange(2)}
    count = {"outer": 1, "inner": generator.randrange(1, 9)}
    address = {"address": generator.choice([0, MOST, generator.randrange(MOST)])}
    return generator.choice(
        [
            encode(Opcode.LOAD, **waits, **register, **count, **address, lane_address=generator.randrange(4096)),
            encode(Opcode.STORE, **waits, **register, **count, **address, start=MOST, end=generator.randrange(MOST)),
            encode(Opcode.TRANSPOSE, **waits, **register, **address, outer=1, rows=1, lanes=1),
            encode(Opcode.MAC, **waits, **register, tiles=3, weights=4095, sums=generator.randrange(4096)),
            encode(Opcode.VECTOR, **waits, **register, **count, a=4095, b=1),
            encode(Opcode.CAST, wait_store=waits["wait_store"], **register, **address, **CAST),
            encode(Opcode.LOAD_ROWS, **waits, **register, **count, **address, map=MOST, **BLOCKS),
        ]
    )  # fmt: skip


def random_body(generator, size, depth):
    """So many instructions, with loops among them."""
    words = []
    while size > 0:
        if depth and size > 1 and generator.random() < 0.2:
            body = random_body(generator, generator.randrange(1, size), depth - 1)
            words += loop(generator.randrange(1, 4), *body)
            size -= len(body) + 1
        else:
            words.append(random_instruction(generator))
            size -= 1
    return words


@pytest.mark.parametrize("beat_bits", [128, 256])
@pytest.mark.parametrize("stall", [0.0, 0.5, 0.9])
def test_gives_what_the_program_means(stall, beat_bits):
    """Nested loops, bodies shorter and longer than the ring, registers that wrap, every kind of wait."""
    generator = random.Random(SEED)
    words = [*random_body(generator, 60, LOOP_DEPTH), *loop(2, *random_body(generator, 100, LOOP_DEPTH - 1)), HALT]
    check(Run(words, stall=stall, beat_bits=beat_bits, limit=200000), words)


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130])
def test_bodies_of_every_size_are_repeated(size):
    """Turns that end where a burst, half of the ring, or the ring does; the last instruction is the program's, too."""
    words = [LOAD, *loop(3, *numbered(size)), HALT]
    check(Run(words, stall=0.3), words)


def test_loops_that_end_together():
    innermost = loop(2, *numbered(2))
    words = [*loop(2, *loop(3, *loop(2, LOAD, *innermost))), LOAD, HALT]
    check(Run(words), words)


def test_a_short_body_is_read_once():
    """After its first turn nothing is read, and each turn's end costs a cycle."""
    turns, size = 40, 20
    words = [*loop(turns, *numbered(size)), HALT]
    run = Run(words, latency=100)
    check(run, words)
    assert run.beats == 2 * len(words)
    assert run.cycles < turns * (size + 1) + 150, run.cycles


def test_a_long_body_loses_no_cycle_while_engines_have_work():
    """Its first instructions are read again at each turn's end, in a latency, which queues bridge."""
    turns, size, latency, period = 6, 100, 40, 4
    words = [*loop(turns, *numbered(size)), HALT]
    run = Run(words, latency=latency, period=period)
    check(run, words)
    lost = run.cycles - turns * size * period
    assert lost < (turns + 1) * (latency + 12), f"{lost} cycles beside {turns * size * period}"


def test_an_advance_takes_a_cycle_for_each_pair():
    pairs = {f"{part}{n}": 1 for n in range(3) for part in ("register", "amount")}
    plain, advancing = ([LOAD] * 30 + [word] * 30 + [HALT] for word in (LOAD, encode(Opcode.ADVANCE, **pairs)))
    cycles = [Run(words, latency=0).cycles for words in (plain, advancing)]
    assert cycles[1] <= cycles[0] + 2 * 30 + 2, cycles


LONG = (1 << LOOP_BITS) - 1
DEEP = loop(1, *loop(1, *loop(1, *loop(1, LOAD))))


@pytest.mark.parametrize(
    ("words", "status", "instruction", "taken"),
    [
        ([LOAD, *loop(0, LOAD), HALT], Status.BAD_FIELD, 1, 1),
        ([LOAD, encode(Opcode.LOOP, turns=2), HALT], Status.BAD_FIELD, 1, 1),
        ([LOAD, *loop(1, *DEEP), HALT], Status.BAD_FIELD, 5, 1),
        ([encode(Opcode.LOOP, turns=2, length=3), LOAD, LOAD], Status.BAD_FIELD, 0, 0),
        ([encode(Opcode.LOOP, turns=2, length=LONG), LOAD, HALT], Status.BAD_FIELD, 0, 0),
        ([LOAD, encode(Opcode.LOOP, turns=1, length=1)], Status.BAD_FIELD, 1, 1),
        ([encode(Opcode.LOOP, turns=2, length=2), *loop(2, LOAD, LOAD), HALT], Status.BAD_FIELD, 1, 0),
        ([encode(Opcode.LOOP, turns=2, length=2), LOAD, *loop(2, LOAD), HALT], Status.BAD_FIELD, 2, 1),
        ([LOAD, *loop(2, LOAD, HALT), HALT], Status.BAD_FIELD, 3, 2),
        ([LOAD, *loop(3, LOAD, 15), HALT], Status.BAD_OPCODE, 3, 2),
        ([LOAD, *loop(3, LOAD, encode(Opcode.STORE, outer=1)), HALT], Status.BAD_FIELD, 3, 2),
        ([LOAD, encode(Opcode.CAST, wait_mac=1, **CAST), HALT], Status.BAD_FIELD, 1, 1),
        ([LOAD, *loop(2, LOAD, LOAD)], Status.TRUNCATED, 4, 5),
        ([], Status.TRUNCATED, 0, 0),
    ],
    ids=["turns", "length", "depth", "beyond", "far", "last", "outer", "outer_last", "halt", "opcode", "count", "cast",
         "truncated", "empty"],
)  # fmt: skip
@pytest.mark.parametrize("stall", [0.0, 0.5])
def test_names_what_is_malformed(words, status, instruction, taken, stall):
    """The instruction's number is its place in the program; those before it are handed on."""
    run = Run(words, stall=stall)
    assert (run.status, run.engine, run.instruction) == (status, SEQUENCER_ENGINE, instruction)
    assert [p.word for _, p in run.taken] == [LOAD] * taken


@pytest.mark.parametrize("bit", range(0, INSTRUCTION_BITS, 5))
def test_a_bit_that_has_turned_is_noticed(bit):
    words = [LOAD, *loop(2, LOAD, LOAD), HALT]
    image = bytearray(image_of(words))
    at = 3 * INSTRUCTION_BYTES + bit // 8
    image[at] ^= 1 << bit % 8
    run = Run(words, image=bytes(image))
    assert (run.status, run.engine, run.instruction) == (Status.BAD_CHECK, SEQUENCER_ENGINE, 3)
    assert [p.word for _, p in run.taken] == [LOAD, LOAD]


@pytest.mark.parametrize("size", [3, 100], ids=["kept", "read again"])
def test_a_program_out_of_order_is_noticed(size):
    """An instruction that is there twice, in the place of another; whether a turn reads it again or not."""
    words = [*loop(2, *numbered(size)), HALT]
    image = bytearray(image_of(words))
    ends = size * INSTRUCTION_BYTES
    image[ends : ends + INSTRUCTION_BYTES] = image[ends - INSTRUCTION_BYTES : ends]
    run = Run(words, image=bytes(image))
    assert (run.status, run.instruction, len(run.taken)) == (Status.BAD_CHECK, size, size - 1)


def test_memory_without_a_program_is_none():
    run = Run([HALT], image=bytes(INSTRUCTION_BYTES))
    assert (run.status, run.instruction) == (Status.BAD_CHECK, 0)


@pytest.mark.parametrize("length", [(1 << 32) - 1, 1 << 28, (1 << 27) + 1])
@pytest.mark.parametrize("words, status", [([LOAD, LOAD, HALT], Status.DONE), ([LOAD, LOAD], Status.READ_ERROR)])
def test_a_program_may_be_longer_than_memory(length, words, status):
    """What is there is executed; what cannot be read is named."""
    run = Run(words, length=length)
    assert (run.status, len(run.taken)) == (status, 2)
    assert run.instruction == 2 if status == Status.READ_ERROR else run.instruction is not None


def test_a_program_that_passes_the_last_address_does_not_go_on_at_the_first():
    """The address of the instruction behind has one bit too many."""
    fitting = PAGE_BYTES * 8 // INSTRUCTION_BITS
    run = Run([LOAD] * fitting, length=fitting + 9, program=(1 << PORT_BITS) - PAGE_BYTES)
    assert (run.status, run.instruction, len(run.taken)) == (Status.READ_ERROR, fitting, fitting)


def test_a_program_beyond_the_addresses_is_not_read():
    run = Run([LOAD, HALT], program=1 << PORT_BITS)
    assert (run.status, run.instruction, run.taken, run.beats) == (Status.READ_ERROR, 0, [], 0)


def test_an_error_beyond_the_halt_is_none():
    assert Run([LOAD, HALT], length=50).status == Status.DONE


def test_turns_that_move_nothing_are_stuck():
    """Loops of ADVANCE alone, 2^128 turns: the watchdog ends them, as no engine moves."""
    advance = encode(Opcode.ADVANCE, register0=1, amount0=1)
    most = (1 << 32) - 1
    run = Run([*loop(most, *loop(most, *loop(most, *loop(most, advance)))), HALT], watchdog=300)
    assert run.status == Status.STUCK


def test_stuck_waits_for_accesses_in_flight():
    """An engine that never ends; the drain may take as long as the watchdog, from its own beginning."""
    run = Run([LOAD, LOAD, HALT], watchdog=50, period=1 << 20, in_flight=40)
    assert (run.status, run.instruction) == (Status.STUCK, 0)
    assert run.drained == 41


def test_a_drain_that_never_ends_is_left():
    run = Run([LOAD, LOAD, HALT], watchdog=50, period=1 << 20, in_flight=1 << 20)
    assert run.status == Status.STUCK
    assert 50 <= run.drained < 60
