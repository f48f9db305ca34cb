"""What the model knows of the numbers that a program moves: which of them are zero."""

from etalstm.hw import contract
from etalstm.hw.config import Config
from etalstm.hw.contract import STREAM_BLOCK, Opcode
from etalstm.plan.plan import Plan
from etalstm.plan.tiling import Span
from etalstm.storage import KINDS

CERTAIN = 1 << 32  # a threshold of 32 random bits below which an element is kept: all


class Densities:
    """Operands of which a share is not zero, drawn at random; what is padding is zero.

    Parameters
    ----------
    config : Config
    plan : Plan
        Whose programs run.
    delta, local : float
        Shares of the gates' gradients and of the local gradients that are not zero.
    """

    def __init__(self, config: Config, plan: Plan, *, delta: float = 1.0, local: float = 1.0):
        self._config = config
        self._threshold = {contract.Traffic.DELTAS: round(delta * CERTAIN)}
        self._kept = {contract.Traffic.DELTAS: delta, contract.Traffic.INTERMEDIATES: local}
        self._positions: dict[int, int] = {}
        self._streams: dict[int, tuple[int, int, int]] = {}
        self._shares = sorted(self._arrays(plan))
        self._indices = sorted(self._index_arrays(plan))

    def _index_arrays(self, plan: Plan):
        """Give first and last beat of every array of indices, its streams' tiles, and the layer's tiling."""
        beats = self._config.vector_beats
        for layer in plan.map.layers:
            tiling, kinds = layer.tiling, len(KINDS)
            groups = [group for group in tiling.unit_groups for _ in range(kinds)]
            tiles = [Span(tile, 1) for tile in range(tiling.units.tiles)]
            for array, streams in ((layer.index, groups), (layer.delta_index, tiles)):
                if array is not None:
                    yield array.first * beats, (array.first + array.vectors) * beats, streams, tiling.units

    def _occupied(self, address: int, elements: int) -> int:
        """Give how many elements of a stream are no padding, from the beat of its index."""
        beats = self._config.vector_beats
        for first, last, streams, units in self._indices:
            if first <= address < last:
                group = streams[(address - first) // beats % len(streams)]
                lanes = sum(units.lanes_of(tile) for tile in range(group.first, group.first + group.count))
                return elements * lanes // (group.count * self._config.lanes)
        raise ValueError(f"no index of a stream lies at beat {address}")

    def _arrays(self, plan: Plan):
        """Give first beat, last beat and share of every array that is broadcast."""
        beats = self._config.vector_beats
        for layer in plan.map.layers:
            units, inputs = layer.tiling.units, layer.tiling.inputs
            arrays = [(layer.x.array, inputs), (layer.h.array, units)]
            arrays += [(layer.delta.array, units)] if layer.delta else [(layer.delta_index, units)]
            for array, share in arrays:
                yield array.first * beats, (array.first + array.vectors) * beats, share.share, share.size

    def _real_lanes(self, cast: dict, channel: int, tile: int) -> int:
        """Give how many lanes of a tile hold elements of the network."""
        for first, last, share, size in self._shares:
            if first <= cast["address"] < last:
                lanes = self._config.lanes
                return max(0, min(lanes, share - tile * lanes, size - channel * share - tile * lanes))
        raise ValueError(f"no array that is broadcast lies at beat {cast['address']}")

    def block(self, cast: dict, channel: int, tile: int, address: int, lanes: int) -> tuple:
        """Describe a block of a CAST: real lanes, threshold of its masks, their place, kept elements, its stream."""
        real = self._real_lanes(cast, channel, tile)
        threshold = self._threshold.get(cast["kind"], CERTAIN)
        kept = start = beats = 0
        if cast["compressed"]:
            elements = cast["gates"] * cast["batch"] * self._config.lanes
            start, beats, kept = self._stream_of(address, elements, self._kept[cast["kind"]], False)
        return real, threshold, -1, kept, start, beats

    def stream(self, opcode: Opcode, fields: dict, elements: int) -> tuple[int, int, int]:
        """Give start, beats and kept elements of the stream that an instruction writes or reads."""
        density, bf16 = self._kept[fields["kind"]], bool(fields["bf16"])
        if opcode == Opcode.LOAD:
            return self._stream_of(fields["address"], elements, density, bf16)
        beats, kept = self._size(fields["address"], elements, density, bf16)
        start = fields["start"] if fields["first"] else self._positions[fields["log"]]
        self._positions[fields["log"]] = start + beats
        self._streams[fields["address"]] = start, beats, kept
        return start, beats, kept

    def _stream_of(self, address, elements, density, bf16):
        if address in self._streams:
            return self._streams[address]
        beats, kept = self._size(address, elements, density, bf16)
        return 0, beats, kept

    def _size(self, address: int, elements: int, density: float, bf16: bool) -> tuple[int, int]:
        kept = round(self._occupied(address, elements) * density)
        words = -(-elements // STREAM_BLOCK) + (-(-kept // 2) if bf16 else kept)
        return -(-words // self._config.beat_words), kept

