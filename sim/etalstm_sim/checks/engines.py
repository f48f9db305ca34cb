"""Checks of single instructions by the engines: fields, lane addresses, windows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from etalstm_hw import contract
from etalstm_hw.contract import OF_ONE_OPERAND, OWN_WINDOW, Memory, Opcode, Source, Status
from etalstm_sim.checks.instruction import Instruction
from etalstm_sim.checks.lanes import depth_of, leaves, source_depth
from etalstm_sim.checks.refusals import Sizes, is_array, is_operation, loads, stores

_ROWS = 4  # of a lane, in a LOAD_ROWS that is not `single`
NOTHING = frozenset[Status]()


@dataclass(frozen=True)
class Check:
    """The result of checking an instruction.

    Members
    -------
    refusal : Status or None
        With which the instruction is refused, whatever the data.
    possible : frozenset of Status
        With which it may be refused: the data decide.
    by_sequencer : bool
        The sequencer refuses it, not the engine.
    is_late : bool
        It is refused while other instructions of the engine are in flight.
    work : int
        Vectors or beats that the engine moves.
    reads : tuple of int
        Beats with indices of the streams that are read, in order.
    elements : int
        Of each of these streams.
    writes : tuple of range
        Beats of a window that are overwritten.
    """

    refusal: Status | None = None
    possible: frozenset[Status] = NOTHING
    by_sequencer: bool = False
    is_late: bool = False
    work: int = 0
    reads: tuple[int, ...] = ()
    elements: int = 0
    writes: tuple[range, ...] = ()


@dataclass(frozen=True)
class Block:
    """A block of a CAST or a SEND, or of the map of a LOAD_ROWS."""

    channel: int
    tile: int
    lanes: int


class Engines:
    """Checks instructions that have passed the sequencer.

    Parameters
    ----------
    sizes : Sizes
    """

    def __init__(self, sizes: Sizes):
        self._sizes, self._config = sizes, sizes.config
        self._channels = sizes.config.channels // sizes.groups  # of a group
        self._checks: dict[Opcode | None, Callable[[dict[str, int], int], Check]] = {
            Opcode.LOAD: self._load,
            Opcode.LOAD_ROWS: self._load_rows,
            Opcode.STORE: self._store,
            Opcode.TRANSPOSE: self._transpose,
            Opcode.VECTOR: self._vector,
            Opcode.CAST: self._cast,
            Opcode.SEND: self._send,
            Opcode.MAC: lambda fields, address: Check(),  # a MAC is checked with its CAST
            Opcode.PRODUCT: lambda fields, address: Check(),  # likewise
        }

    def check(self, instruction: Instruction, address: int) -> Check:
        """Check an instruction with its effective address."""
        return self._checks[instruction.opcode](instruction.fields, address)

    def _load(self, fields: dict[str, int], address: int) -> Check:
        beats = fields["outer"] * fields["inner"] * self._config.vector_beats
        read = 1 if fields["compressed"] else beats
        starts = [address + group * fields["group_stride"] for group in range(self._sizes.groups)]
        if fields["group"] > self._sizes.groups:
            return Check(Status.BAD_FIELD)
        if max(starts) + read > self._sizes.window_beats:
            return Check(Status.BAD_ADDRESS)
        refusal = self._lanes(fields, written=True)
        reads = tuple(sorted(set(starts))) if fields["compressed"] else ()
        return Check(refusal, work=beats, reads=reads, elements=beats * self._config.beat_words)

    def _store(self, fields: dict[str, int], address: int) -> Check:
        beats, size = fields["outer"] * fields["inner"] * self._config.vector_beats, self._sizes.window_beats
        refusal = self._lanes(fields, written=False)
        if refusal == Status.BAD_FIELD:  # of sums of integers only after the STOREs before
            return Check(refusal, is_late=fields["memory"] == Memory.SUMS)
        outside = address >= size or fields["end"] > size if fields["compressed"] else address + beats > size
        if outside:
            return Check(Status.BAD_ADDRESS, is_late=refusal is not None)
        writes = () if fields["compressed"] else (range(address, address + beats),)
        elements = beats * self._config.beat_words
        return Check(refusal, is_late=True, work=beats, elements=elements, writes=writes)

    def _lanes(self, fields: dict[str, int], *, written: bool) -> Status | None:
        """Check the lane memory and addresses of a LOAD or a STORE."""
        memory = Memory(fields["memory"])
        if not (loads if written else stores)(memory, self._config):
            return Status.BAD_FIELD
        outer, inner = ((fields[name], fields[f"{name}_stride"]) for name in ("outer", "inner"))
        beyond = leaves(depth_of(self._config, memory), fields["lane_address"], outer, inner)
        return Status.BAD_ADDRESS if beyond else None

    def _load_rows(self, fields: dict[str, int], address: int) -> Check:
        """Check the maps, which the sequencer reads, and the rows, from which the maps choose."""
        per_lane = 1 if fields["single"] else _ROWS
        left, beats = fields["outer"], per_lane * self._config.vector_beats
        for block in blocks(fields):
            if not left:
                break
            if block.lanes > self._config.lanes or block.lanes * per_lane > left:
                return Check(Status.BAD_FIELD, by_sequencer=True)
            end = fields["map"] + (block.tile + 1) * beats
            if block.channel >= self._channels or end > self._sizes.window_beats:
                return Check(Status.BAD_ADDRESS, by_sequencer=True)
            left -= block.lanes * per_lane
        return self._rows(fields, address)

    def _rows(self, fields: dict[str, int], address: int) -> Check:
        row, memory = fields["inner"] * self._config.vector_beats, Memory(fields["memory"])
        work = fields["outer"] * row
        if not loads(memory, self._config):
            return Check(Status.BAD_FIELD, is_late=True)
        depth, inner = depth_of(self._config, memory), (fields["inner"], fields["inner_stride"])
        lane = [fields["lane_address"] + n * fields["outer_stride"] for n in range(fields["outer"])]
        bad = [
            address + (n + 1) * row > self._sizes.window_beats
            or leaves(depth, first % (1 << contract.LANE_ADDRESS_BITS), (1, 0), inner)
            for n, first in enumerate(lane)
        ]
        if all(bad):  # at least one row is read
            return Check(Status.BAD_ADDRESS, is_late=True, work=work)
        return Check(possible=frozenset({Status.BAD_ADDRESS}) if any(bad) else NOTHING, work=work)

    def _transpose(self, fields: dict[str, int], address: int) -> Check:
        lanes, config = self._config.lanes, self._config
        if max(fields["rows"], fields["lanes"]) > lanes:
            return Check(Status.BAD_FIELD)
        beats = -(-fields["rows"] // config.beat_words)
        furthest = address + (self._channels - 1) * fields["channel_beats"] + beats
        furthest += (fields["outer"] - 1) * fields["outer_beats"] + (fields["lanes"] - 1) * fields["lane_beats"]
        outer, inner = (fields["outer"], fields["outer_stride"]), (fields["rows"], fields["inner_stride"])
        beyond = leaves(config.scratch_depth, fields["lane_address"], outer, inner)
        beyond_channels = fields["target"] != OWN_WINDOW and fields["target"] >= self._channels
        if beyond_channels or furthest > self._sizes.window_beats or beyond:
            return Check(Status.BAD_ADDRESS, is_late=beyond)
        writes = tuple(
            range(start, start + beats)
            for n in range(self._channels)
            for q in range(fields["outer"])
            for lane in range(fields["lanes"])
            for start in [
                address + n * fields["channel_beats"] + q * fields["outer_beats"] + lane * fields["lane_beats"]
            ]
        )
        return Check(work=fields["outer"] * (fields["rows"] + fields["lanes"] * beats), writes=writes)

    def _vector(self, fields: dict[str, int], address: int) -> Check:
        has_b, config = fields["op"] not in OF_ONE_OPERAND, self._config
        if not is_operation(fields, config):
            return Check(Status.BAD_FIELD, is_late=True)
        depths = {"a": source_depth(config, Source(fields["a_source"])), "d": config.scratch_depth}
        if has_b:
            depths["b"] = source_depth(config, Source(fields["b_source"]))
        for name, depth in depths.items():
            outer, inner = ((fields[loop], fields[f"{name}_{loop}"]) for loop in ("outer", "inner"))
            if leaves(depth, fields[name], outer, inner):
                return Check(Status.BAD_ADDRESS, is_late=True)
        return Check(work=fields["outer"] * fields["inner"])

    def _cast(self, fields: dict[str, int], address: int) -> Check:
        """Check the blocks in order; blocks before a refused one are read."""
        config, vectors = self._config, fields["gates"] * fields["batch"]
        beats, compressed = vectors * config.vector_beats, fields["compressed"]
        most_sums = contract.cast_sums(config.lanes, config.broadcast_words)
        reads, refusal = [], None
        for block in islice(blocks(fields), fields["blocks"]):
            first = address + block.tile * (config.vector_beats if compressed else beats)
            end_of_sums = fields["first_sum"] + inner_indices(fields, block.lanes)
            if (
                fields["gates"] > contract.MOST_GATES
                or vectors * config.lanes > config.broadcast_words
                or fields["lane"] + block.lanes > config.lanes
                or end_of_sums > most_sums
            ):
                refusal = Status.BAD_FIELD
            elif block.channel >= self._channels or first + (1 if compressed else beats) > self._sizes.window_beats:
                refusal = Status.BAD_ADDRESS
            if refusal:
                break
            reads.append(first)
        elements = beats * config.beat_words
        return Check(refusal, work=len(reads) * beats, reads=tuple(reads) if compressed else (), elements=elements)

    def _send(self, fields: dict[str, int], address: int) -> Check:
        """Check the array, then its blocks in order; blocks before a refused one are read."""
        config = self._config
        if not is_array(fields, config):
            return Check(Status.BAD_FIELD)
        beats = planes(fields) * fields["batch"] * config.vector_beats
        read, refusal = 0, None
        for block in islice(blocks(fields | {"lanes": config.lanes, "last_lanes": config.lanes}), fields["blocks"]):
            if block.channel >= self._channels or address + (block.tile + 1) * beats > self._sizes.window_beats:
                refusal = Status.BAD_ADDRESS
                break
            read += 1
        return Check(refusal, work=read * beats, elements=beats * config.beat_words)


def planes(fields: dict[str, int]) -> int:
    """Count the planes of a SEND's array: the digits of an element."""
    return 1 + fields["wide"]


def blocks(fields: dict[str, int]) -> Iterator[Block]:
    """Give the blocks of a CAST, a SEND or a LOAD_ROWS, without end."""
    channel, tile, tiles = fields["channel"], fields["tile"], fields["tiles_per_channel"]
    while True:
        last = tile == tiles - 1
        yield Block(channel, tile, fields["last_lanes"] if last else fields["lanes"])
        tile = 0 if last else (tile + 1) % (1 << contract.TILE_BITS)
        channel += last


def inner_indices(fields: dict[str, int], lanes: int) -> int:
    """Count the inner indices of a block of a CAST, from its first sum on."""
    return fields["gates"] * lanes if fields["batch_outer"] else fields["batch"]
