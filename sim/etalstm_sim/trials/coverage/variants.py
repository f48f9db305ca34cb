"""Variants of instructions: flags, operands, lane memories, waits, what is at an edge."""

from collections.abc import Callable
from enum import IntEnum

from etalstm_hw.config import Config
from etalstm_hw.contract import (
    COMMON_OPS,
    ENGINE_OF,
    FIELDS,
    MOST_GATES,
    OF_BYTES,
    OF_ONE_OPERAND,
    OWN_WINDOW,
    WITH_BITS,
    Memory,
    Opcode,
    Source,
    Start,
    VectorOp,
)
from etalstm_hw.contract.integers import DELTA_BITS, WORD_BYTES
from etalstm_hw.program.buffer import RING_INSTRUCTIONS

KEPT_INSTRUCTIONS = RING_INSTRUCTIONS // 2  # executed ones that stay in the sequencer's buffer
ANOTHER_CHANNEL, OF_A_LATER_STREAM = "another channel", "sums of a later stream"
Condition = Callable[[dict[str, int]], int]
"""Tells from what :func:`seen` gives of an instruction whether it has a variant; 0: it has not."""
_TRANSFERS: dict[str, Condition] = {
    "with more to come": lambda fields: fields["more"],
    "of another group": lambda fields: fields["group"],
    "strided by groups": lambda fields: fields["group_stride"],
}
_STREAMS: dict[str, Condition] = {
    "stream": lambda fields: fields["compressed"] and not fields["bf16"],
    "bf16 stream": lambda fields: fields["compressed"] and fields["bf16"],
}


def _each(field: str, members: type[IntEnum], *left_out: IntEnum) -> dict[str, Condition]:
    """Make a variant of each value of a field."""
    return {f"{field} {member.name}": _is(field, member) for member in members if member not in left_out}


def _is(field: str, value: int) -> Condition:
    return lambda fields: fields[field] == value


def _b_source(fields: dict[str, int]) -> int | None:
    return None if fields["op"] in OF_ONE_OPERAND else fields["b_source"]


_PASSES: dict[str, Condition] = {
    "forward": lambda fields: not fields["backward"],
    "backward": lambda fields: fields["backward"],
}

VARIANTS: dict[Opcode, dict[str, Condition]] = {
    Opcode.HALT: {},
    Opcode.LOAD: _each("memory", Memory, Memory.SUMS, Memory.BIAS) | _STREAMS | _TRANSFERS,
    Opcode.MAC: _each("start", Start) | _PASSES,
    Opcode.VECTOR: {f"op {op.name}": _is("op", op) for op in COMMON_OPS}
    | _each("a_source", Source)
    | {
        "b_source SCRATCH": lambda fields: _b_source(fields) == Source.SCRATCH,
        "b_source PARAMETER": lambda fields: _b_source(fields) == Source.PARAMETER,
        "serial": lambda fields: fields["serial"],
    },
    Opcode.STORE: _each("memory", Memory, Memory.WEIGHTS, Memory.BIAS, Memory.SUMS)
    | _STREAMS
    | {
        "begins a log": lambda fields: fields["compressed"] and fields["first"],
        "goes on in a log": lambda fields: fields["compressed"] and not fields["first"],
        "log 1": lambda fields: fields["compressed"] and fields["log"] == 1,
        "above a threshold": lambda fields: fields["compressed"] and fields["threshold"],
    },
    Opcode.TRANSPOSE: {
        "one square": lambda fields: fields["outer"] == 1,
        "several squares": lambda fields: fields["outer"] > 1,
        ANOTHER_CHANNEL: lambda fields: fields["target"] not in (0, OWN_WINDOW),
        "its own window": lambda fields: fields["target"] == OWN_WINDOW,
    },
    Opcode.CAST: {
        "by rows": lambda fields: not fields["batch_outer"],
        "by batch": lambda fields: fields["batch_outer"],
        "streams": lambda fields: fields["compressed"],
        "narrow": lambda fields: fields["narrow"],
        "begins sums": lambda fields: fields["start"],
        "goes on with sums": lambda fields: not fields["start"],
        "finishes sums": lambda fields: fields["finish"],
        "leaves sums open": lambda fields: not fields["finish"],
        "several blocks": lambda fields: fields["blocks"] > 1,
        "from a later lane": lambda fields: fields["lane"],
        ANOTHER_CHANNEL: lambda fields: fields["channel"],
        "a block of four gates": lambda fields: fields["gates"] == MOST_GATES,
    },
    Opcode.SEND: {
        "of one digit": lambda fields: not fields["wide"],
        "of two digits": lambda fields: fields["wide"],
        "one block": lambda fields: fields["blocks"] == 1,
        "several blocks": lambda fields: fields["blocks"] > 1,
        "from a later tile": lambda fields: fields["tile"],
        ANOTHER_CHANNEL: lambda fields: fields["channel"],
        "once": lambda fields: fields["repeats"] == 1,
        "several times": lambda fields: fields["repeats"] > 1,
        "one sequence": lambda fields: fields["batch"] == 1,
        "several sequences": lambda fields: fields["batch"] > 1,
        "as many as the streams get": lambda fields: fields["batch"] == fields["own"] * fields["streams"],
        "fewer than the streams get": lambda fields: fields["batch"] < fields["own"] * fields["streams"],
        "as many as there are sums for": lambda fields: fields["own"] == fields["most_sequences"],
        "fills its buffer": lambda fields: fields["sent_words"] == fields["buffer_words"],
    },
    Opcode.PRODUCT: _PASSES | {
        "begins sums": lambda fields: not fields["adds"],
        "adds to sums": lambda fields: fields["adds"],
        "from the first row on": lambda fields: not fields["weights"],
        "up to the last row": lambda fields: fields["end_of_rows"] == fields["most_rows"],
        "the same rows again": lambda fields: fields["repeats"] > 1 and not fields["rows"],
        "other rows each time": lambda fields: fields["repeats"] > 1 and fields["rows"],
        "from the first sum on": lambda fields: not fields["sums"],
        "up to the last sum": lambda fields: fields["end_of_sums"] == fields["most_sums"],
    },
    Opcode.LOAD_ROWS: {
        "four rows of a lane": lambda fields: not fields["single"],
        "one row of a lane": lambda fields: fields["single"],
        "several blocks": lambda fields: fields["tiles_per_channel"] > 1,
    },
    Opcode.LOOP: {
        "one turn": lambda fields: fields["turns"] == 1,
        "several turns": lambda fields: fields["turns"] > 1,
        "longer than the sequencer keeps": lambda fields: fields["length"] > KEPT_INSTRUCTIONS,
        "inside no loop": lambda fields: fields["depth"] == 0,
        "inside one": lambda fields: fields["depth"] == 1,
        "inside two": lambda fields: fields["depth"] == 2,
        "inside three": lambda fields: fields["depth"] == 3,
    },
    Opcode.ADVANCE: {
        "one register": lambda fields: not fields["register1"],
        "several registers": lambda fields: fields["register1"],
        "six registers": lambda fields: fields["register5"],
    },
}  # fmt: skip
"""By opcode, the variants that all machines have which know it."""
_OF_FLOATS: dict[Opcode, dict[str, Condition]] = {
    Opcode.LOAD: _each("memory", Memory, Memory.WEIGHTS, Memory.SCRATCH, Memory.SUMS),
    Opcode.STORE: {f"memory {Memory.SUMS.name}": _is("memory", Memory.SUMS)},
}
_OF_INTEGERS: dict[Opcode, dict[str, Condition]] = {
    Opcode.VECTOR: {
        **{f"op {op.name}": _is("op", op) for op in VectorOp if op not in COMMON_OPS},
        "of the fewest bits": lambda fields: fields["op"] in WITH_BITS and fields["bits"] == DELTA_BITS[0],
        "of the most bits": lambda fields: fields["op"] in WITH_BITS and fields["bits"] == DELTA_BITS[-1],
        "bytes of a whole word": lambda fields: fields["op"] in OF_BYTES and fields["inner"] >= WORD_BYTES,
        "bytes of a part of a word": lambda fields: fields["op"] in OF_BYTES and fields["inner"] % WORD_BYTES,
        OF_A_LATER_STREAM: lambda fields: fields["a_source"] == Source.SUMS and fields["a"] >= fields["most_sums"],
    },
}
"""Variants of machines of one kind alone."""

for _opcode in ENGINE_OF:
    if _opcode not in (Opcode.CAST, Opcode.SEND):
        VARIANTS[_opcode]["waits for a LOAD"] = lambda fields: fields["wait_load"]
        VARIANTS[_opcode]["waits for a MAC"] = lambda fields: fields["wait_mac"]
        VARIANTS[_opcode]["waits for a VECTOR"] = lambda fields: fields["wait_vector"]
    VARIANTS[_opcode]["waits for a STORE"] = lambda fields: fields["wait_store"]
    if "address" in FIELDS[_opcode]:
        VARIANTS[_opcode]["register"] = lambda fields: fields["register"]


def variants_of(opcode: Opcode, *, integers: bool) -> dict[str, Condition]:
    """Give an opcode's variants on machines whose products are `integers`, or float32."""
    return VARIANTS[opcode] | (_OF_INTEGERS if integers else _OF_FLOATS).get(opcode, {})


def seen(
    opcode: Opcode, fields: dict[str, int], depth: int, sent: dict[str, int] | None, config: Config
) -> dict[str, int]:
    """Give what variants look at: an instruction's fields, what is around it, and sizes of the machine.

    Parameters
    ----------
    opcode : Opcode
    fields : dict
    depth : int
        Number of the loops around the instruction.
    sent : dict or None
        Of a PRODUCT the fields of its SEND.
    config : Config
    """
    found = fields | {"depth": depth, "most_sums": config.queue_depth}
    if opcode == Opcode.SEND:
        vectors = fields["blocks"] * (1 + fields["wide"]) * fields["own"]
        found |= {"streams": config.integer_streams, "most_sequences": config.queue_depth // config.tile_sums}
        found |= {"sent_words": vectors * config.lanes, "buffer_words": config.broadcast_words}
    if opcode == Opcode.PRODUCT:
        times, own, blocks = (sent[name] if sent else 0 for name in ("repeats", "own", "blocks"))
        first_of_last = fields["weights"] // config.row_vectors + (times - 1) * fields["rows"]
        found |= {"repeats": times, "most_rows": config.weight_depth // config.row_vectors}
        found |= {"end_of_rows": first_of_last + blocks * WORD_BYTES * config.lanes}
        found |= {"end_of_sums": fields["sums"] + times * own * config.tile_sums}
    return found
