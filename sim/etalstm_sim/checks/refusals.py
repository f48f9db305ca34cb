"""The ending of a valid program with one changed field, by docs/contract/contract.md.

The tables are written from that text, not taken from the hardware, which is compared with them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import OF_ONE_OPERAND, WITH_BITS, Memory, Opcode, Source, Status, VectorOp, is_known, last_op
from etalstm_hw.contract.integers import DELTA_BITS

OPCODES = (1 << contract.OPCODE_BITS) - 1
BROADCASTS = (Opcode.CAST, Opcode.SEND)
"""Instructions of the broadcaster, which wait for nothing but STOREs, and for those of every channel."""
ENDS = frozenset({Status.DONE, Status.STUCK, Status.BAD_FIELD, Status.BAD_ADDRESS, Status.BAD_STREAM, Status.OVERFLOW})
"""Statuses of a program of which the text says only that it ends."""

_REMEMBERED = 1 << 14  # decoded instructions: the same ones come in every case
COUNTS = {
    Opcode.LOAD: ("outer", "inner"),
    Opcode.LOAD_ROWS: ("outer", "inner", "lanes", "last_lanes", "tiles_per_channel"),
    Opcode.STORE: ("outer", "inner"),
    Opcode.VECTOR: ("outer", "inner"),
    Opcode.TRANSPOSE: ("outer", "rows", "lanes"),
    Opcode.MAC: ("tiles",),
    Opcode.CAST: ("blocks", "gates", "batch", "lanes", "last_lanes", "tiles", "tiles_per_channel"),
    Opcode.SEND: ("blocks", "batch", "own", "repeats", "tiles_per_channel"),
}
WAITS = ("wait_load", "wait_mac", "wait_vector", "wait_store")
_OF_STREAMS = {
    Opcode.LOAD: {"bf16"},
    Opcode.STORE: {"bf16", "threshold", "log", "first", "start", "end"},
}


@dataclass(frozen=True)
class Change:
    """A field of an instruction that gets another value.

    Members
    -------
    program : str
    number : int
        Of the instruction in the program.
    field : str
    before, value : int
    """

    program: str
    number: int
    field: str
    before: int
    value: int

    def of(self, words: Sequence[int]) -> list[int]:
        """Give a program with the change."""
        opcode = Opcode(words[self.number] & OPCODES)
        offset, _ = contract.layout(opcode)[self.field]
        changed = list(words)
        changed[self.number] += (self.value - self.before) << offset
        return changed


@dataclass(frozen=True)
class Expected:
    """How a program may end.

    Members
    -------
    statuses : set of Status
    same : bool
        If it is DONE, all results have the bits of the valid program.
    """

    statuses: frozenset[Status]
    same: bool = False

    @property
    def is_definite(self) -> bool:
        """The text says how this case ends; otherwise it only has to end."""
        return self.same or len(self.statuses) == 1


@dataclass(frozen=True)
class Sizes:
    """The sizes of vectors, windows, groups and the broadcaster's buffer, which the text refers to.

    Members
    -------
    config : Config
    window_beats : int
    groups : int
    """

    config: Config
    window_beats: int
    groups: int


@lru_cache
def known_opcodes(integers: bool) -> frozenset[Opcode]:
    """Give the opcodes of a machine whose products are `integers`, or float32."""
    return frozenset(opcode for opcode in Opcode if is_known(opcode, integers))


def loads(memory: int, config: Config) -> bool:
    """Tell whether a LOAD can write a lane memory; a machine whose products are integers has no biases."""
    return memory not in ((Memory.SUMS, Memory.BIAS) if config.integers else (Memory.SUMS,))


def stores(memory: int, config: Config) -> bool:
    """Tell whether a STORE can read a lane memory; sums of integers are no words."""
    return memory in ((Memory.SCRATCH,) if config.integers else (Memory.SCRATCH, Memory.SUMS))


def is_operation(fields: dict[str, int], config: Config) -> bool:
    """Tell whether a VECTOR's operation, sources and bits are ones that there are."""
    op, has_b = fields["op"], fields["op"] not in OF_ONE_OPERAND
    return (
        op <= last_op(config.integers)
        and fields["a_source"] in set(Source)
        and not (has_b and fields["b_source"] not in (Source.SCRATCH, Source.PARAMETER))
        and not (op == VectorOp.ADD_SCALED and Source.PARAMETER in (fields["a_source"], fields["b_source"]))
        and not (op in WITH_BITS and fields["bits"] not in DELTA_BITS)
    )


def is_array(fields: dict[str, int], config: Config) -> bool:
    """Tell whether a SEND's array can be sent: a stream's sequences fit its buffer and its sums, and none is left."""
    beats = fields["blocks"] * config.vector_beats * (1 + fields["wide"])
    return (
        beats * config.beat_words * fields["own"] <= config.broadcast_words
        and fields["own"] * config.tile_sums <= config.queue_depth
        and fields["batch"] <= fields["own"] * config.integer_streams
    )


def is_misplaced(fields: dict[str, int], config: Config) -> bool:
    """Tell whether a PRODUCT's weights do not begin with a row, or its sums not with those of a sequence."""
    return bool(fields["weights"] % config.row_vectors or fields["sums"] % config.tile_sums)


def expected(words: Sequence[int], change: Change, addresses: Iterable[int], sizes: Sizes) -> Expected:
    """Predict how a program may end.

    Parameters
    ----------
    words : sequence of int
        Of the valid program.
    change : Change
    addresses : iterable of int
        Effective addresses of the changed instruction, in beats, in all its executions.
    sizes : Sizes
    """
    opcode = Opcode(words[change.number] & OPCODES)
    status = refused(change.of(words), sizes.config)
    if status:
        # A body that a loop repeats too often may end the program before that.
        return Expected(ENDS | {status} if opcode == Opcode.LOOP else frozenset({status}))
    if change.field == "opcode":
        return Expected(ENDS)
    _, fields = contract.decode(change.of(words)[change.number])
    if change.field in ("tiles",) or _bad_field(opcode, fields, sizes):
        return Expected(frozenset({Status.BAD_FIELD}))
    if _bad_address(opcode, fields, addresses, sizes):
        return Expected(frozenset({Status.BAD_ADDRESS}))
    if _is_without_effect(opcode, fields, change):
        return Expected(frozenset({Status.DONE}), same=True)
    if change.field in WAITS and _is_stricter(change):
        return Expected(frozenset({Status.DONE, Status.STUCK}), same=True)
    return Expected(ENDS)


def refused(words: Sequence[int], config: Config) -> Status | None:
    """Give the status with which the sequencer refuses a program; None if it does not."""
    ends: list[int] = []
    known = known_opcodes(config.integers)
    for number, word in enumerate(words):
        while ends and ends[-1] == number:
            ends.pop()
        if word & OPCODES not in known:
            return Status.BAD_OPCODE
        opcode, fields = _decoded(word)
        if opcode == Opcode.HALT:
            return Status.BAD_FIELD if ends else None
        if opcode == Opcode.LOOP:
            end, limit = number + 1 + fields["length"], ends[-1] if ends else len(words)
            if not fields["turns"] or not fields["length"] or end > limit or len(ends) == contract.LOOP_DEPTH:
                return Status.BAD_FIELD
            ends.append(end)
        if _is_refused(word, config.lanes):
            return Status.BAD_FIELD
    return Status.TRUNCATED


_decoded = lru_cache(_REMEMBERED)(contract.decode)


@lru_cache(_REMEMBERED)
def _is_refused(word: int, vector_words: int) -> bool:
    opcode, fields = _decoded(word)
    if any(not fields[name] for name in COUNTS.get(opcode, ())):
        return True
    if opcode in BROADCASTS:
        return any(fields[name] for name in WAITS[:3])
    return opcode == Opcode.LOAD_ROWS and max(fields["lanes"], fields["last_lanes"]) > vector_words


def _bad_field(opcode: Opcode, fields: dict[str, int], sizes: Sizes) -> bool:
    """Tell whether an engine refuses an instruction's fields."""
    config, lanes = sizes.config, sizes.config.lanes
    match opcode:
        case Opcode.VECTOR:
            return not is_operation(fields, config)
        case Opcode.TRANSPOSE:
            return max(fields["rows"], fields["lanes"]) > lanes
        case Opcode.LOAD:
            return fields["group"] > sizes.groups or not loads(fields["memory"], config)
        case Opcode.STORE:
            return not stores(fields["memory"], config)
        case Opcode.CAST:
            vectors = fields["gates"] * fields["batch"]
            return fields["gates"] > contract.MOST_GATES or vectors * lanes > config.broadcast_words
        case Opcode.SEND:
            return not is_array(fields, config)
        case Opcode.PRODUCT:
            return is_misplaced(fields, config)
    return False


def _bad_address(opcode: Opcode, fields: dict[str, int], addresses: Iterable[int], sizes: Sizes) -> bool:
    """Tell whether a transfer of whole vectors leaves its window."""
    if opcode not in (Opcode.LOAD, Opcode.STORE) or fields["compressed"]:
        return False
    beats = fields["outer"] * fields["inner"] * sizes.config.vector_beats
    return any(address + beats > sizes.window_beats for address in addresses)


def _is_without_effect(opcode: Opcode, fields: dict[str, int], change: Change) -> bool:
    """Tell whether a field is unused, or only changes counts of cycles and bytes."""
    field, of_header = change.field, change.field in contract.HEADER
    if opcode in (Opcode.LOOP, Opcode.ADVANCE, Opcode.HALT):
        return of_header
    if field == "register":
        return "address" not in fields
    if field == "everyone":
        return opcode in (*BROADCASTS, Opcode.LOAD_ROWS) or not fields["wait_store"]
    if field == "bits":
        return fields["op"] not in (*WITH_BITS, VectorOp.ADD_SCALED)
    if field in _OF_STREAMS.get(opcode, ()):
        return not fields["compressed"]
    return field in ("kind", "backward") or (field == "serial" and change.value == 1)


def is_weaker(change: Change) -> bool:
    """Tell whether instructions may begin earlier than in the valid program.

    A wait counts instructions of an engine. So if others are dispatched, later waits are for other instructions.
    """
    if change.field in ("opcode", "more", "turns", "length"):
        return True
    if change.field == "everyone":
        return not change.value
    return change.field in WAITS and not _is_stricter(change)


def _is_stricter(change: Change) -> bool:
    """Tell whether a wait is for a later instruction than before."""
    return change.value > 0 and (change.before == 0 or change.value < change.before)
