"""Bytes that instructions move."""

import math
from collections.abc import Iterator

from etalstm.plan.memory.tiling import ceil_div
from etalstm.plan.program.fold import Instruction, Repeat
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import Opcode, Traffic


class Volume:
    """Counts what the instructions of a program move, all channels together.

    Compressed streams count as if they kept a share `density` of their elements. LOAD_ROWS counts as if every row were
    needed. The machine reads as many at most.

    `groups`: groups of channels: each has a broadcaster that reads.

    Members
    -------
    read_bytes, write_bytes : dict from Traffic to bytes
    spareable_bytes : int    bytes of weights among them whose rows may turn out not to be needed
    """

    def __init__(self, config: Config, density: float, groups: int = 1):
        self._config, self._density, self._groups = config, density, groups
        self.read_bytes = dict.fromkeys(Traffic, 0)
        self.write_bytes = dict.fromkeys(Traffic, 0)
        self.spareable_bytes = 0

    def count(self, node: Instruction | Repeat, times: int = 1) -> None:
        """Count an instruction, or a loop, that is executed so many times."""
        if isinstance(node, Repeat):
            for inner in node.body:
                self.count(inner, times * node.turns)
        elif "kind" in node.fields:
            self._count(node.opcode, node.fields, times)

    def _count(self, opcode: Opcode, fields: dict[str, int], times: int) -> None:
        moved = times * self._moved(opcode, fields)
        reads = opcode in (Opcode.LOAD, Opcode.LOAD_ROWS, Opcode.CAST, Opcode.SEND)
        into = self.read_bytes if reads else self.write_bytes
        into[Traffic(fields["kind"])] += moved
        if opcode == Opcode.LOAD_ROWS:
            self.spareable_bytes += moved
            maps = sum(1 for _ in blocks_of(fields))
            into[Traffic.DELTAS] += times * self._groups * maps * self._bytes_of(rows_of_a_lane(fields), {})

    def _moved(self, opcode: Opcode, fields: dict[str, int]) -> int:
        config = self._config
        if opcode == Opcode.TRANSPOSE:
            beats = ceil_div(fields["rows"], config.beat_words)
            return fields["outer"] * fields["lanes"] * beats * config.beat_bytes * config.channels
        if opcode in (Opcode.CAST, Opcode.SEND):
            of_sequence = fields["gates"] if opcode == Opcode.CAST else 1 + fields["wide"]
            return self._bytes_of(of_sequence * fields["batch"], fields) * fields["blocks"] * self._groups
        return self._bytes_of(fields["outer"] * fields["inner"], fields) * config.channels

    def _bytes_of(self, vectors: int, fields: dict[str, int]) -> int:
        """Bytes of vectors, or of the stream that they make and its index."""
        config = self._config
        if not fields.get("compressed"):
            return vectors * config.vector_beats * config.beat_bytes
        return (stream_beats(config, vectors, self._density, bool(fields.get("bf16"))) + 1) * config.beat_bytes


def rows_of_a_lane(fields: dict[str, int]) -> int:
    """Give the rows that a lane has in a block of a LOAD_ROWS, each with a vector in the block's map."""
    return 1 if fields["single"] else contract.MOST_GATES


def blocks_of(fields: dict[str, int]) -> Iterator[tuple[int, int, int]]:
    """Go through the blocks of a LOAD_ROWS: channel, tile, and how many lanes of it have rows."""
    channel, tile, left = fields["channel"], fields["tile"], fields["outer"]
    while left > 0:
        last = tile == fields["tiles_per_channel"] - 1
        lanes = fields["last_lanes" if last else "lanes"]
        yield channel, tile, lanes
        left, channel, tile = left - rows_of_a_lane(fields) * lanes, channel + last, 0 if last else tile + 1


def stream_beats(config: Config, vectors: int, density: float, bf16: bool) -> int:
    """Give the beats of a stream that keeps a share `density` of its elements, rounded up."""
    elements = vectors * config.lanes
    kept = math.ceil(density * elements)
    words = -(-elements // contract.STREAM_BLOCK) + (-(-kept // 2) if bf16 else kept)
    return -(-words // config.beat_words)
