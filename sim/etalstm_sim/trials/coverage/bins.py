"""The bins of functional coverage: opcode × stall × status × architecture, and which of them cannot be hit.

There are two kinds of machines, which have bins of their own: products are float32, or integers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from etalstm_hw.contract import Opcode, Status, is_known
from etalstm_sim.trials.coverage.variants import ANOTHER_CHANNEL, OF_A_LATER_STREAM, variants_of

NO_OPCODE = "(none)"
"""Instead of an opcode: of an instruction that could not be read, or whose opcode is unknown."""
ANY = "any"
"""Instead of a variant."""
STATUSES = tuple(status for status in Status if status not in (Status.IDLE, Status.RUNNING))
STALLS = ("none", "stalls", "reorders")
SKIPS_ZEROS, SENDS_ZEROS, FIXED_SHARES, TWO_GROUPS = "skips zeros", "sends zeros", "fixed shares", "two groups"


@dataclass(frozen=True)
class Kind:
    """A kind of machines whose coverage is measured.

    Members
    -------
    integers : bool
        Products are integers, else float32.
    preset : str
        The configuration whose settings vary, and whose toggles are counted.
    presets : tuple of str
        All that run; those that take longest come first.
    settings : tuple of (str, int)
        Architectures and groups of channels in the runs of `preset`. Other presets run with the first only.
    architectures : tuple of str
        How the machine runs: `preset` with its settings, and the other presets.
    """

    integers: bool
    preset: str
    presets: tuple[str, ...]
    settings: tuple[tuple[str, int], ...]
    architectures: tuple[str, ...]

    @property
    def known(self) -> tuple[Opcode, ...]:
        """The opcodes that there are."""
        return tuple(opcode for opcode in Opcode if is_known(opcode, self.integers))

    @property
    def opcodes(self) -> tuple[str, ...]:
        """Their names, and :data:`NO_OPCODE`."""
        return (*(opcode.name for opcode in self.known), NO_OPCODE)

    @property
    def variants(self) -> dict[Opcode, tuple[str, ...]]:
        """By opcode, the names of its variants."""
        return {opcode: tuple(variants_of(opcode, integers=self.integers)) for opcode in self.known}


FLOATS = Kind(
    False, "test", ("slice", "test", "sim"), (("swing", 1), ("dynamic", 1), ("static", 1), ("swing", 2)),
    (SKIPS_ZEROS, SENDS_ZEROS, FIXED_SHARES, TWO_GROUPS, "preset sim", "preset slice"),
)  # fmt: skip
ONE_STREAM, TWO_STREAMS = "preset test-int8", "preset sim-int8"
INTEGERS = Kind(True, "test-int8", ("sim-int8", "test-int8"), (("swing", 1),), (ONE_STREAM, TWO_STREAMS))
KINDS = FLOATS, INTEGERS
KIND_OF = {preset: kind for kind in KINDS for preset in kind.presets}


def kind_of(preset: str) -> Kind:
    """Give the kind of machines whose settings vary in a preset; ``ValueError`` if there is none."""
    for kind in KINDS:
        if kind.preset == preset:
            return kind
    raise ValueError(f"preset must be {' or '.join(kind.preset for kind in KINDS)}, got {preset!r}")


class Bin(NamedTuple):
    """A situation of an instruction.

    Members
    -------
    opcode : str
    variant : str
        One of the opcode's :attr:`Kind.variants`, or :data:`ANY`.
    status : str
        How the program ended.
    stall : str
        One of :data:`STALLS`.
    architecture : str
        One of :attr:`Kind.architectures`.
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
    return _only(*Opcode) - _only(*opcodes)


RULES = {
    Status.DONE: Rule(_but(), "an instruction without an opcode ends its program"),
    Status.BAD_OPCODE: Rule(_only(NO_OPCODE), "the opcode is known"),
    Status.BAD_FIELD: Rule(_but(Opcode.ADVANCE), "every value of an ADVANCE's fields is allowed"),
    Status.BAD_ADDRESS: Rule(
        _but(Opcode.HALT, Opcode.LOOP, Opcode.ADVANCE), "the sequencer's own instructions have no address"
    ),
    Status.READ_ERROR: Rule(
        _only(Opcode.LOAD, Opcode.LOAD_ROWS, Opcode.CAST, Opcode.SEND, NO_OPCODE),
        "the instruction reads nothing from the memory",
    ),
    Status.WRITE_ERROR: Rule(
        _only(Opcode.STORE, Opcode.TRANSPOSE), "the instruction writes nothing to the memory"
    ),
    Status.TRUNCATED: Rule(_but(Opcode.HALT), "a program with its HALT is not truncated"),
    Status.STUCK: Rule(_but(), "an instruction without an opcode ends its program"),
    Status.ABORTED: Rule(_but(), "an instruction without an opcode ends its program"),
    Status.OVERFLOW: Rule(_only(Opcode.STORE), "the instruction appends to no log"),
    Status.BAD_STREAM: Rule(_only(Opcode.LOAD, Opcode.CAST), "the instruction reads no stream"),
    Status.BAD_CHECK: Rule(_only(*Opcode, NO_OPCODE), "every instruction has a check"),
}  # fmt: skip
"""Rules by status. A bin that a rule does not allow cannot be hit."""


def impossible(situation: Bin) -> str | None:
    """Tell why a bin cannot be hit; None if it can."""
    rule = RULES[Status[situation.status]]
    if situation.opcode not in rule.opcodes:
        return rule.reason
    if situation.variant == ANOTHER_CHANNEL and situation.architecture == TWO_GROUPS:
        return "each of preset test's two groups has one channel"
    if situation.variant == OF_A_LATER_STREAM and situation.architecture == ONE_STREAM:
        return "preset test-int8 has one stream of digits"
    return None


def all_bins(kind: Kind) -> Iterator[Bin]:
    """Give all bins: each opcode with each status, and each variant in programs that are DONE."""
    for stall, architecture in product(STALLS, kind.architectures):
        for name, status in product(kind.opcodes, STATUSES):
            yield Bin(name, ANY, status.name, stall, architecture)
        for opcode, variants in kind.variants.items():
            for variant in variants:
                yield Bin(opcode.name, variant, Status.DONE.name, stall, architecture)
