"""A program under construction: instructions that say what they touch, waits that follow from it."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field

from etalstm.hw import contract
from etalstm.hw.config import Config
from etalstm.hw.contract import Engine, Opcode
from etalstm.plan.tiling import GATES

_WAIT_FIELDS = {
    Engine.LOAD: "wait_load",
    Engine.MAC: "wait_mac",
    Engine.VECTOR: "wait_vector",
    Engine.STORE: "wait_store",
}


@dataclass
class _Uses:
    """Who wrote a resource last, and who has read it since: how many instructions their engines must have completed."""

    written: tuple[Engine, int] | None = None
    read: dict[Engine, int] = field(default_factory=dict)


class Program:
    """Instructions in program order, with waits derived from what each of them reads and writes.

    A resource is any hashable name: a scratch array, half of the queue, a memory array's part. An instruction waits for
    the last writer of what it reads, and for the last writer and all later readers of what it writes. Engines work in
    order, so that waits on an engine's own earlier instructions are only needed where its pipeline does not interlock:
    VECTOR reading what VECTOR wrote.

    Every wait refers to an earlier instruction, so a program never waits for itself, whatever the depth of the queues.

    Parameters
    ----------
    config : Config
    density : float
        Share of elements that compressed streams are taken to keep, where bytes are counted.

    Members
    -------
    words : list of int, one 256-bit instruction each
    read_bytes, write_bytes : dict from Traffic to bytes that the instructions move, all channels together; those of
        compressed streams as if nothing were dropped, without masks and index beats; those of LOAD_ROWS as if every row
        were needed: real ones are at most as many
    spareable_bytes : int
        Bytes of weights among them whose rows may turn out not to be needed
    ends : dict from a log's number to the log, and the place where the index of the last stream in it goes
    """

    def __init__(self, config: Config, density: float = 1.0):
        self._config, self._density = config, density
        self._uses = defaultdict(_Uses)
        self._issued = dict.fromkeys(Engine, 0)
        self.words: list[int] = []
        self.ends: dict[int, tuple[Hashable, Hashable]] = {}
        self.read_bytes = dict.fromkeys(contract.Traffic, 0)
        self.write_bytes = dict.fromkeys(contract.Traffic, 0)
        self.spareable_bytes = 0

    def emit(
        self, opcode: Opcode, *, reads: Iterable[Hashable] = (), writes: Iterable[Hashable] = (), **fields: int
    ) -> None:
        """Append an instruction.

        Parameters
        ----------
        opcode : Opcode
        reads, writes : resources
        fields : values of the instruction's fields; the header is filled in here

        Raises
        ------
        ValueError
            If a field does not fit, or an engine has more instructions than a wait can count.
        """
        engine = contract.ENGINE_OF[opcode]
        reads, writes = list(reads), list(writes)
        waits = defaultdict(int)

        def wait_for(other, count):
            if other != engine or (engine == Engine.VECTOR and count):
                waits[other] = max(waits[other], count)

        for resource in reads:
            if self._uses[resource].written:
                wait_for(*self._uses[resource].written)
        for resource in writes:
            uses = self._uses[resource]
            if uses.written and uses.written[0] != engine:
                wait_for(*uses.written)
            for reader, count in uses.read.items():
                if reader != engine:
                    wait_for(reader, count)

        self._issued[engine] += 1
        done = self._issued[engine]
        if done >= 1 << contract.WAIT_BITS:
            raise ValueError(f"a program can have {(1 << contract.WAIT_BITS) - 1} {engine.name} instructions at most")
        # The channels see what the broadcaster reads as done when the paired MAC is.
        token = (Engine.MAC, self._issued[Engine.MAC] + 1) if engine == Engine.CAST else (engine, done)
        for resource in reads:
            self._uses[resource].read[token[0]] = token[1]
        for resource in writes:
            self._uses[resource] = _Uses(written=token)

        header = {_WAIT_FIELDS[other]: count for other, count in waits.items()}
        self.words.append(contract.encode(opcode, **header, **fields))
        self._count(opcode, fields)

    def halt(self) -> None:
        """Append the HALT that every program ends with."""
        self.words.append(contract.encode(Opcode.HALT))

    def image(self) -> bytes:
        """Bytes of the program as they lie in memory."""
        return b"".join(word.to_bytes(contract.INSTRUCTION_BITS // 8, "little") for word in self.words)

    def _count(self, opcode, fields):
        config = self._config
        match opcode:
            case Opcode.LOAD | Opcode.LOAD_ROWS | Opcode.STORE:
                moved = self._bytes_of(fields["outer"] * fields["inner"], fields) * config.channels
            case Opcode.TRANSPOSE:
                moved = fields["outer"] * fields["lanes"] * config.beat_bytes * config.channels
            case Opcode.CAST:
                moved = self._bytes_of(fields["gates"] * fields["batch"], fields) * fields["blocks"]
            case _:
                return
        reads = opcode in (Opcode.LOAD, Opcode.LOAD_ROWS, Opcode.CAST)
        into = self.read_bytes if reads else self.write_bytes
        into[contract.Traffic(fields["kind"])] += moved
        if opcode == Opcode.LOAD_ROWS:
            self.spareable_bytes += moved
            maps = sum(1 for _ in blocks_of(fields))
            into[contract.Traffic.DELTAS] += maps * self._bytes_of(GATES, {})

    def _bytes_of(self, vectors, fields):
        """Bytes of vectors, or of the stream that they make and its index."""
        config = self._config
        if not fields.get("compressed"):
            return vectors * config.vector_beats * config.beat_bytes
        return (stream_beats(config, vectors, self._density, bool(fields.get("bf16"))) + 1) * config.beat_bytes


def blocks_of(fields: dict[str, int]) -> Iterator[tuple[int, int, int]]:
    """Go through the blocks of a LOAD_ROWS: channel, tile, and how many of its rows belong to each."""
    channel, tile, left = fields["channel"], fields["tile"], fields["outer"]
    while left > 0:
        last = tile == fields["tiles_per_channel"] - 1
        rows = GATES * fields["last_lanes" if last else "lanes"]
        yield channel, tile, rows
        left, channel, tile = left - rows, channel + last, 0 if last else tile + 1


def stream_beats(config: Config, vectors: int, density: float, bf16: bool) -> int:
    """Give the beats of a stream that keeps a share `density` of its elements, rounded up."""
    elements = vectors * config.lanes
    kept = math.ceil(density * elements)
    words = -(-elements // contract.STREAM_BLOCK) + (-(-kept // 2) if bf16 else kept)
    return -(-words // config.beat_words)


def streams_before(words: Iterable[int], stores: int) -> tuple[int, float]:
    """Tell how far a program's streams had come when the STORE engine had completed so many instructions.

    Returns
    -------
    log : int
        The log that the next instruction appends to.
    share : float
        How much of all that goes to this log, before compression, was there.

    Raises
    ------
    ValueError
        If the next instruction appends to none.
    """
    sizes, log, done = defaultdict(int), None, 0
    for word in words:
        opcode, fields = contract.decode(word)
        if opcode == Opcode.HALT or contract.ENGINE_OF[opcode] != Engine.STORE:
            continue
        compressed = opcode == Opcode.STORE and fields["compressed"]
        if not stores and compressed:
            log, done = fields["log"], sizes[fields["log"]]
        stores -= 1
        if compressed:
            sizes[fields["log"]] += fields["outer"] * fields["inner"]
    if log is None:
        raise ValueError("the STORE engine's next instruction appends to no log")
    return log, done / sizes[log]


def disassemble(words: Iterable[int]) -> Iterable[str]:
    """Write instructions as text, one line each: number, opcode, waits, fields that are not 0."""
    for number, word in enumerate(words):
        opcode, fields = contract.decode(word)
        waits = [f"{name[5:]}≥{fields[name]}" for name in _WAIT_FIELDS.values() if fields[name]]
        waits += ["by all channels"] if fields["everyone"] else []
        rest = [f"{name}={fields[name]}" for name in contract.FIELDS[opcode] if fields[name]]
        after = f"  after {', '.join(waits)}" if waits else ""
        yield f"{number:6d}  {opcode.name:9s} {' '.join(rest)}{after}"
