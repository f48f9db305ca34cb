"""What the model knows of the numbers that a program moves: which of them are zero."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from etalstm.model.sent import SentChanges, SentTokens, sent_arrays
from etalstm.plan.memory.tiling import Partition, Span
from etalstm.plan.plan import Plan
from etalstm_hw import contract
from etalstm_hw.config import Config
from etalstm_hw.contract import STREAM_BLOCK

CERTAIN = 1 << 32  # a threshold of 32 random bits below which an element is kept: all


class _Index(NamedTuple):
    """The beats of an array of indices, the tiles of each of its streams, and the partition that these are of."""

    first: int
    last: int
    streams: list[Span]
    partition: Partition


class _Broadcast(NamedTuple):
    """The beats of an array that is broadcast, how its elements are divided, and which share of them is not zero."""

    first: int
    last: int
    partition: Partition
    share: float


class Densities:
    """Operands of which a share is not zero, drawn at random; what is padding is zero.

    Every block of δ that is broadcast has this share of nonzero scalars, to the nearest scalar. Equal instructions draw
    the same ones. The shares are those of the gates' gradients, of the local gradients, and of the changes of x and h,
    at steps that are no padding; `real` is the share of these, and all else is zero. A product takes h of the step
    before. So the initial h counts. h of the last step does not; it is as rare as if lengths were drawn evenly.

    With integers `digits` is how many digits each element of δ has that are not zero: two of each that is not zero if
    it is not given. A change of x or h has one. As programs bring all steps' changes to the same memory, each step's
    share is the mean of all steps'.
    """

    def __init__(
        self,
        config: Config,
        plan: Plan,
        *,
        delta: float = 1.0,
        local: float = 1.0,
        inputs: float = 1.0,
        real: float = 1.0,
        digits: float | None = None,
    ):
        self._config, self._real = config, real
        self._upper = ((2 * delta if digits is None else digits) - delta) * real
        self._kept: dict[int, float] = {
            contract.Traffic.DELTAS: delta * real,
            contract.Traffic.INTERMEDIATES: local * real,
            contract.Traffic.ACTIVATIONS: inputs * real,
        }
        self._changes = (1 + inputs * (plan.map.steps - 1)) / plan.map.steps * real  # step 0 sends everything
        self._batch = plan.map.batch.size * plan.groups  # of which any may need a row
        self._broadcasts = list(self._arrays(plan, real))
        self._indices = sorted(self._index_arrays(plan))
        integers = [layer.integers for layer in plan.map.products if layer.integers]
        self._sent = [array for each in integers for array in sent_arrays(config, each)]

    def _index_arrays(self, plan: Plan) -> Iterator[_Index]:
        """Give every array of indices."""
        beats = self._config.vector_beats
        for layer in plan.map.products:
            tiling, kinds = layer.tiling, len(layer.stage.kept)
            spans = [span for span in tiling.unit_spans for _ in range(kinds)]
            tiles = [Span(tile, 1) for tile in range(tiling.units.tiles)]
            indices = [(layer.index, spans, tiling.units), (layer.delta_index, tiles, tiling.units)]
            for operand in layer.operands_sent:
                each = [Span(tile, 1) for tile in range(operand.partition.tiles)]
                indices.append((operand.index, each, operand.partition))
            for array, streams, partition in indices:
                if array is not None:
                    yield _Index(array.first * beats, (array.first + array.vectors) * beats, streams, partition)

    def _occupied(self, address: int, elements: int) -> int:
        """Give how many elements of a stream are no padding, from the beat of its index."""
        beats = self._config.vector_beats
        for first, last, streams, partition in self._indices:
            if first <= address < last:
                span = streams[(address - first) // beats % len(streams)]
                lanes = sum(partition.lanes_of(tile) for tile in range(span.first, span.first + span.count))
                return elements * lanes // (span.count * self._config.lanes)
        raise ValueError(f"no index of a stream lies at beat {address}")

    def _arrays(self, plan: Plan, real: float) -> Iterator[_Broadcast]:
        """Give every array that is broadcast. Of tokens each step has a single 1, in its token's column."""
        beats = self._config.vector_beats
        states = real + (1 - max(0.0, 2 * real - 1)) / plan.map.steps
        for layer in plan.map.products:
            units, inputs = layer.tiling.units, layer.tiling.inputs
            arrays = [(layer.operand.array, units, states), *([(layer.x.array, inputs, real)] if layer.x else [])]
            if delta := layer.delta.array if layer.delta else layer.delta_index:
                arrays.append((delta, units, self._kept[contract.Traffic.DELTAS]))
            sent = self._kept[contract.Traffic.ACTIVATIONS]
            arrays += [(operand.index, operand.partition, sent) for operand in layer.operands_sent]
            if tokens := layer.tokens:
                arrays.append((tokens.x.array, inputs, 1.0))
                arrays.append((tokens.chosen.array, tokens.columns, real / tokens.columns.size))
            for array, partition, share in arrays:
                yield _Broadcast(array.first * beats, (array.first + array.vectors) * beats, partition, share)

    def _broadcast(self, cast: dict) -> _Broadcast:
        """Give the array that a CAST broadcasts of."""
        for array in self._broadcasts:
            if array.first <= cast["address"] < array.last:
                return array
        raise ValueError(f"no array that is broadcast lies at beat {cast['address']}")

    def block(self, cast: dict, channel: int, tile: int) -> tuple:
        """Give a block's lanes with elements, masks' threshold and kept elements; its stream's first beat and beats.

        The last number is of SENDs, see :meth:`sent_block`.
        """
        array = self._broadcast(cast)
        left = array.partition.size - channel * array.partition.per_channel - tile * array.partition.lanes
        occupied, threshold = max(0, min(array.partition.lanes_of(tile), left)), round(array.share * CERTAIN)
        if not cast["compressed"]:
            return occupied, threshold, 0, 0, 0, 0
        elements = cast["gates"] * cast["batch"] * self._config.lanes
        beats, kept = self._size(cast["address"] + tile * self._config.vector_beats, elements, cast["kind"], False)
        return occupied, threshold, kept, 0, beats, 0

    def sent_block(self, send: dict, channel: int, tile: int) -> tuple:
        """Give what :meth:`block` does of a SEND's: a sequence's bytes with elements, thresholds of both digits."""
        array = next((one for one in self._sent if one.first <= send["address"] < one.last), None)
        if array is None:
            raise ValueError(f"no array that is sent lies at beat {send['address']}")
        if isinstance(array, SentTokens):
            thresholds = [round(share * self._real * CERTAIN) for share in (array.lower, array.upper)]
            return array.occupied(channel, tile), thresholds[0], 0, 0, 0, thresholds[1]
        is_change = isinstance(array, SentChanges)
        kept = self._changes if is_change else self._kept[send["kind"]]
        upper = min(1.0, self._upper) if send["wide"] and not is_change else 0.0
        return array.occupied(channel, tile), round(kept * CERTAIN), 0, 0, 0, round(upper * CERTAIN)

    def stream(self, fields: dict, elements: int) -> tuple[int, int, int]:
        """Give kept elements, first beat and beats of the stream that an instruction writes or reads.

        Where a stream begins is not known: they follow each other.
        """
        beats, kept = self._size(fields["address"], elements, fields["kind"], bool(fields["bf16"]))
        return kept, 0, beats

    def row_threshold(self, rows: dict) -> int:
        """Give the probability, in 2^32, that a row of a LOAD_ROWS has a scalar that is not zero."""
        kept = self._kept[contract.Traffic.ACTIVATIONS if rows["single"] else contract.Traffic.DELTAS]
        return round((1 - (1 - kept) ** self._batch) * CERTAIN)

    def _size(self, address: int, elements: int, kind: int, bf16: bool) -> tuple[int, int]:
        kept = round(self._occupied(address, elements) * self._kept[kind])
        return -(-count_words(elements, kept, bf16) // self._config.beat_words), kept


@cache
def count_words(elements: int, kept: int, bf16: bool) -> int:
    """Count the words of a stream whose kept elements are spread evenly, as in :mod:`etalstm.model.machine.codec`.

    Each block has a mask. A block of halves fills its last word.
    """
    bounds = np.minimum(np.arange(0, elements + STREAM_BLOCK, STREAM_BLOCK), elements)
    of_block = np.diff(bounds * kept // elements)
    return len(of_block) + int(((of_block + 1) // 2 if bf16 else of_block).sum())
