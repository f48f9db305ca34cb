"""Cases of the handmade program: everything that can end a program, and extreme values."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from etalstm_hw.contract import LOOP_DEPTH, MOST_GATES, OPCODE_BITS, Opcode, Status, VectorOp, encode, layout
from etalstm_sim.simulation import Fault
from etalstm_sim.trials.coverage.handmade import CASTED, JUNK, LAST, LOADED, LOGS, MAP, STORED, TRANSPOSED, Program

UNKNOWN_OPCODE = 15
LONG_BODY = 70  # instructions, more than the sequencer keeps
_MOST_ROUNDS = 4095  # both counts of a VECTOR: then it takes millions of cycles
_FAULTY_PAGES = {
    Status.READ_ERROR: (None, LOADED, CASTED, MAP),  # of the program, LOAD, CAST, LOAD_ROWS
    Status.WRITE_ERROR: (STORED, TRANSPOSED),
}


@dataclass(frozen=True)
class Case:
    """A program, and what happens to it.

    Members
    -------
    name : str
    words : list of int
    status : Status
        With which the program has to end.
    fault : Fault or None
        That accesses to a page of the memory meet.
    page : int or None
        Number of that page in the first channel's window; None: the program's page.
    damaged : int or None
        Number of an instruction in whose check a bit is turned over.
    """

    name: str
    words: list[int]
    status: Status
    fault: Fault | None = None
    page: int | None = None
    damaged: int | None = None


def cases(program: Program) -> Iterator[Case]:
    """Give the program as it is, and ended in every way, at each instruction that can end it so."""
    yield Case("whole", program.words(), Status.DONE)
    for status, changes in _wrong_fields(program).items():
        for name, fields in changes.items():
            yield Case(f"{status.name} of {name}", program.words(**{name: fields}), status)
    for status, pages in _FAULTY_PAGES.items():
        for page, fault in product(pages, (Fault.SUBORDINATE_ERROR, Fault.DECODE_ERROR)):
            yield Case(f"{status.name} at page {page}, {fault.name}", program.words(), status, fault, page)
    yield Case("long loops", _long_loops(), Status.DONE)
    yield Case("silence", program.words(), Status.STUCK, Fault.NEVER, LAST)
    yield Case("no HALT", program.words()[:-1], Status.TRUNCATED)
    loop = encode(Opcode.LOOP, turns=1, length=1)
    yield Case("HALT in a loop", [*program.words()[:-1], loop, program.words()[-1]], Status.BAD_FIELD)
    unknown = [*program.words()[:-1], UNKNOWN_OPCODE]
    yield Case("unknown opcode", unknown, Status.BAD_OPCODE)
    for words in (program.words(), unknown):
        for opcode, number in {word % (1 << OPCODE_BITS): n for n, word in enumerate(words)}.items():
            yield Case(f"damaged opcode {opcode}", words, Status.BAD_CHECK, damaged=number)
    yield Case("abort", program.words(last_vector={"outer": _MOST_ROUNDS, "inner": _MOST_ROUNDS}), Status.ABORTED)


def extremes(program: Program) -> Iterator[list[int]]:
    """Give programs in which one field has all bits set."""
    for name, (opcode, fields) in program.instructions.items():
        for field, (_, width) in layout(opcode).items():
            if field != "opcode" and fields.get(field) != (1 << width) - 1:
                yield program.words(**{name: {field: (1 << width) - 1}})


def transfers(program: Program) -> Iterator[list[int]]:
    """Give programs of one instruction that reads or writes the memory."""
    for name in ("load", "store", "transpose", "send" if program.config.integers else "cast", "load_rows"):
        opcode, fields = program.instructions[name]
        yield [encode(opcode, **fields), encode(Opcode.HALT)]


def _wrong_fields(program: Program) -> dict[Status, dict[str, dict[str, int]]]:
    """Give a wrong field of an instruction of each opcode, by the status that it causes."""
    config = program.config
    of_products = _of_integers(program) if config.integers else _of_floats(program)
    address, lane_address = _ones(Opcode.LOAD), _ones(Opcode.VECTOR, "d")
    return {
        Status.BAD_FIELD: {
            "load": {"outer": 0},
            "vector_ADD": {"op": len(VectorOp)},
            "store": {"inner": 0},
            "transpose": {"rows": 0},
            "load_rows": {"last_lanes": config.lanes + 1},
            "loop3": {"turns": 0},
            **of_products[Status.BAD_FIELD],
        },
        Status.BAD_ADDRESS: {
            "load": {"address": address},
            "vector_ADD": {"d": lane_address},
            "store": {"address": address},
            "transpose": {"target": config.channels},
            "load_rows": {"map": address},
            **of_products[Status.BAD_ADDRESS],
        },
        Status.OVERFLOW: {"compress": {"end": program.page(LOGS)}},
        Status.BAD_STREAM: {
            "decompress": {"address": program.page(JUNK)},
            **of_products.get(Status.BAD_STREAM, {}),
        },
    }


def _of_floats(program: Program) -> dict[Status, dict[str, dict[str, int]]]:
    return {
        Status.BAD_FIELD: {"mac": {"tiles": 2}, "cast": {"gates": MOST_GATES + 1}},
        Status.BAD_ADDRESS: {"mac": {"weights": _ones(Opcode.MAC, "weights")}, "cast": {"address": _ones(Opcode.CAST)}},
        Status.BAD_STREAM: {"cast_stream": {"address": program.page(JUNK)}},
    }


def _of_integers(program: Program) -> dict[Status, dict[str, dict[str, int]]]:
    most = program.config.queue_depth // program.config.tile_sums
    return {
        Status.BAD_FIELD: {
            "send": {"repeats": 0},
            "send_full": {"own": most + 1},
            "send_wide": {"batch": 2 * program.config.integer_streams + 1},
            "send_again": {"own": most, "blocks": _ones(Opcode.SEND, "blocks")},
            "product": {"weights": 1},
            "product_wide": {"sums": 1},
        },
        Status.BAD_ADDRESS: {
            "send_full": {"address": _ones(Opcode.SEND)},
            "send_other_channel": {"channel": program.config.channels},
            "product": {"sums": program.config.queue_depth},
            "product_again": {"rows": _ones(Opcode.PRODUCT, "rows")},
        },
    }


def _ones(opcode: Opcode, field: str = "address") -> int:
    return (1 << layout(opcode)[field][1]) - 1


def _long_loops() -> list[int]:
    """Give a program with loops too long for the sequencer's buffer: their instructions are read anew in each turn.

    The body has a VECTOR, because the watchdog sees progress of engines only.
    """
    nothing = [encode(Opcode.ADVANCE)] * (LONG_BODY - 1)
    body = [*nothing, encode(Opcode.VECTOR, op=VectorOp.ADD, outer=1, inner=1)]
    loops = [encode(Opcode.LOOP, turns=2, length=LONG_BODY + LOOP_DEPTH - 1 - depth) for depth in range(LOOP_DEPTH)]
    return [*body, *loops, *body, *body, encode(Opcode.HALT)]
