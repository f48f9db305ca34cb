"""The arrays of digits that are sent, where products are integers, and which of their bytes are padding."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.integer_tiling import IntegerTiling
from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.tiling import Partition
from etalstm_hw.config import Config
from etalstm_hw.contract.integers import WORD_BYTES


def _elements(partition: Partition, channel: int, tile: int) -> int:
    """Count the elements of a channel's tile."""
    left = partition.size - channel * partition.per_channel - tile * partition.lanes
    return max(0, min(partition.lanes_of(tile), left))


@dataclass(frozen=True)
class SentArray(ABC):
    """An array of digits: its beats, from `first` to before `last`."""

    first: int
    last: int

    @abstractmethod
    def occupied(self, channel: int, block: int) -> int:
        """Count the bytes of a sequence's block that hold elements."""


@dataclass(frozen=True)
class _Operand(SentArray):
    """x, or the other operand: a block is a group of four tiles."""

    partition: Partition

    def occupied(self, channel: int, block: int) -> int:
        tiles = range(WORD_BYTES * block, min(WORD_BYTES * (block + 1), self.partition.tiles))
        return sum(_elements(self.partition, channel, tile) for tile in tiles)


@dataclass(frozen=True)
class SentChanges(_Operand):
    """How x or the other operand changes."""


@dataclass(frozen=True)
class SentTokens(_Operand):
    """Which token each step has: shares of the lower and of the upper digits that are not zero, at real steps."""

    lower: float
    upper: float


@dataclass(frozen=True)
class _Delta(SentArray):
    """δ: a block is the gates of a tile of units."""

    tiling: IntegerTiling

    def occupied(self, channel: int, block: int) -> int:
        return self.tiling.gates * _elements(self.tiling.units, channel, block)


@dataclass(frozen=True)
class _Transposed(SentArray):
    """δ of each row: a block is some sequences of a step and batch tile."""

    tiling: IntegerTiling

    def occupied(self, channel: int, block: int) -> int:
        number, inside = divmod(block % self.tiling.pair_blocks, self.tiling.tile_blocks)
        return max(0, min(self.tiling.block, self.tiling.batch.size_of(number) - inside * self.tiling.block))


def sent_arrays(config: Config, integers: IntegerArrays) -> Iterator[SentArray]:
    """Give the arrays of a layer that are sent."""

    def beats(array: Array) -> tuple[int, int]:
        return array.first * config.vector_beats, (array.first + array.vectors) * config.vector_beats

    tiling = integers.tiling
    for name, numbers in integers.operands.items():
        yield _Operand(*beats(numbers.digits.sent.array), tiling.columns_of(name))
    for name, changes in integers.changes.items():
        yield SentChanges(*beats(changes.digits.sent.array), tiling.columns_of(name))
    if tokens := integers.tokens:
        yield _Operand(*beats(tokens.x.sent.array), tiling.inputs)
        size, bytes_ = tokens.partition.size, len(tokens.powers)
        yield SentTokens(*beats(tokens.chosen.sent.array), tokens.partition, 1 / size, (bytes_ - 1) / size)
    yield _Delta(*beats(integers.delta.sent.array), tiling)
    yield _Transposed(*beats(integers.gathered.array), tiling)
