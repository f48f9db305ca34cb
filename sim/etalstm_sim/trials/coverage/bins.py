"""The bins of functional coverage: opcode × stall × status × architecture, and which of them cannot be hit."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import NamedTuple

from etalstm_hw.contract import (
    ENGINE_OF,
    FIELDS,
    MOST_GATES,
    OF_ONE_OPERAND,
    OPS_OF_INTEGERS,
    Memory,
    Opcode,
    Source,
    Start,
    Status,
    VectorOp,
    is_known,
)
from etalstm_hw.program.buffer import RING_INSTRUCTIONS

NO_OPCODE = "(none)"
"""Instead of an opcode: of an instruction that could not be read, or whose opcode is unknown."""
ANY = "any"
"""Instead of a variant."""
KNOWN = tuple(opcode for opcode in Opcode if is_known(opcode, integers=False))
"""The opcodes of the machines whose coverage is measured: those whose products are float32."""
OPCODES = (*(opcode.name for opcode in KNOWN), NO_OPCODE)
STATUSES = tuple(status for status in Status if status not in (Status.IDLE, Status.RUNNING))
STALLS = ("none", "stalls", "reorders")
PRESET = "test"
"""The configuration whose settings vary, and whose toggles are counted."""
SKIPS_ZEROS, SENDS_ZEROS, FIXED_SHARES, TWO_GROUPS = "skips zeros", "sends zeros", "fixed shares", "two groups"
ARCHITECTURES = (SKIPS_ZEROS, SENDS_ZEROS, FIXED_SHARES, TWO_GROUPS, "preset sim", "preset slice")
"""How the machine runs: :data:`PRESET` with its settings, and two other presets with the default settings."""

KEPT_INSTRUCTIONS = RING_INSTRUCTIONS // 2  # executed ones that stay in the sequencer's buffer
ANOTHER_CHANNEL = "another channel"
Condition = Callable[[dict[str, int]], int]
"""Tells from an instruction's fields whether it has a variant; 0: it has not."""
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


VARIANTS: dict[Opcode, dict[str, Condition]] = {
    Opcode.HALT: {},
    Opcode.LOAD: _each("memory", Memory, Memory.SUMS) | _STREAMS | _TRANSFERS,
    Opcode.MAC: _each("start", Start)
    | {
        "forward": lambda fields: not fields["backward"],
        "backward": lambda fields: fields["backward"],
    },
    Opcode.VECTOR: _each("op", VectorOp, *OPS_OF_INTEGERS)
    | _each("a_source", Source)
    | {
        "b_source SCRATCH": lambda fields: _b_source(fields) == Source.SCRATCH,
        "b_source PARAMETER": lambda fields: _b_source(fields) == Source.PARAMETER,
        "serial": lambda fields: fields["serial"],
    },
    Opcode.STORE: _each("memory", Memory, Memory.WEIGHTS, Memory.BIAS)
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
        ANOTHER_CHANNEL: lambda fields: fields["target"],
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
"""By opcode, the variants and their conditions. The fields have ``depth`` too: the number of loops around it."""

for _opcode in [opcode for opcode in KNOWN if opcode in ENGINE_OF]:
    if _opcode != Opcode.CAST:
        VARIANTS[_opcode]["waits for a LOAD"] = lambda fields: fields["wait_load"]
        VARIANTS[_opcode]["waits for a MAC"] = lambda fields: fields["wait_mac"]
        VARIANTS[_opcode]["waits for a VECTOR"] = lambda fields: fields["wait_vector"]
    VARIANTS[_opcode]["waits for a STORE"] = lambda fields: fields["wait_store"]
    if "address" in FIELDS[_opcode]:
        VARIANTS[_opcode]["register"] = lambda fields: fields["register"]


class Bin(NamedTuple):
    """A situation of an instruction.

    Members
    -------
    opcode : str
    variant : str
        One of the opcode's :data:`VARIANTS`, or :data:`ANY`.
    status : str
        How the program ended.
    stall : str
        One of :data:`STALLS`.
    architecture : str
        One of :data:`ARCHITECTURES`.
    """

    opcode: str
    variant: str
    status: str
    stall: str
    architecture: str


@dataclass(frozen=True)
class Rule:
    """The opcodes at which a program can end with a status, and why it cannot end so at the others."""

    opcodes: frozenset[str]
    reason: str


def _only(*opcodes: Opcode | str) -> frozenset[str]:
    return frozenset(opcode.name if isinstance(opcode, Opcode) else opcode for opcode in opcodes)


def _but(*opcodes: Opcode) -> frozenset[str]:
    return frozenset(OPCODES) - _only(*opcodes, NO_OPCODE)


RULES = {
    Status.DONE: Rule(_but(), "an instruction without an opcode ends its program"),
    Status.BAD_OPCODE: Rule(_only(NO_OPCODE), "the opcode is known"),
    Status.BAD_FIELD: Rule(_but(Opcode.ADVANCE), "every value of an ADVANCE's fields is allowed"),
    Status.BAD_ADDRESS: Rule(
        _but(Opcode.HALT, Opcode.LOOP, Opcode.ADVANCE), "the sequencer's own instructions have no address"
    ),
    Status.READ_ERROR: Rule(
        _only(Opcode.LOAD, Opcode.LOAD_ROWS, Opcode.CAST, NO_OPCODE), "the instruction reads nothing from the memory"
    ),
    Status.WRITE_ERROR: Rule(
        _only(Opcode.STORE, Opcode.TRANSPOSE), "the instruction writes nothing to the memory"
    ),
    Status.TRUNCATED: Rule(_but(Opcode.HALT), "a program with its HALT is not truncated"),
    Status.STUCK: Rule(_but(), "an instruction without an opcode ends its program"),
    Status.ABORTED: Rule(_but(), "an instruction without an opcode ends its program"),
    Status.OVERFLOW: Rule(_only(Opcode.STORE), "the instruction appends to no log"),
    Status.BAD_STREAM: Rule(_only(Opcode.LOAD, Opcode.CAST), "the instruction reads no stream"),
    Status.BAD_CHECK: Rule(frozenset(OPCODES), "every instruction has a check"),
}  # fmt: skip
"""Rules by status. A bin that a rule does not allow cannot be hit."""


def impossible(situation: Bin) -> str | None:
    """Tell why a bin cannot be hit; None if it can."""
    rule = RULES[Status[situation.status]]
    if situation.opcode not in rule.opcodes:
        return rule.reason
    if situation.variant == ANOTHER_CHANNEL and situation.architecture == TWO_GROUPS:
        return "each of preset test's two groups has one channel"
    return None


def all_bins() -> Iterator[Bin]:
    """Give all bins: each opcode with each status, and each variant in programs that are DONE."""
    for stall, architecture in product(STALLS, ARCHITECTURES):
        for name, status in product(OPCODES, STATUSES):
            yield Bin(name, ANY, status.name, stall, architecture)
        for opcode, variants in VARIANTS.items():
            for variant in variants:
                yield Bin(opcode.name, variant, Status.DONE.name, stall, architecture)
