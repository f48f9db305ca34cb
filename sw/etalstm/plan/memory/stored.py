"""Addresses of the stored intermediates: memory regions that segments share, the logs in them, and a log of δ.

A segment: consecutive cells, in the order of the forward pass, whose intermediates share one memory region. Without a
memory budget all cells are one segment. With a budget that is too small for that there are several segments. Each has a
program of its own for either pass. Two regions take turns: while the cells of a segment run, the other region's
intermediates move. In the forward pass those of the segment before go to the host. In the backward pass those of the
next segment come back.
"""

import math
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

from etalstm.errors import PlanError
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.memory_map import Array, MemoryMap
from etalstm.plan.memory.operands import DELTAS, LOCAL_GRADIENTS, Log
from etalstm.plan.memory.tiling import ceil_div
from etalstm_hw.config import Config
from etalstm_hw.contract import STREAM_BLOCK

REGIONS = 2


@dataclass(frozen=True)
class Piece:
    """Steps of one layer."""

    layer: int
    steps: range


Segment = tuple[Piece, ...]


def everything(layers: int, steps: int) -> list[Segment]:
    """Put all cells into one segment."""
    return [tuple(Piece(layer, range(steps)) for layer in range(layers))]


def up_to(segment: Segment, steps: int) -> Segment:
    """Leave out the cells of all but the first steps."""
    pieces = (Piece(piece.layer, range(piece.steps.start, min(piece.steps.stop, steps))) for piece in segment)
    return tuple(piece for piece in pieces if piece.steps)


def cut(needs: list[int], steps: int, room: int) -> list[Segment]:
    """Cut the cells of all layers, `steps` of each, into as few segments as possible.

    A cell of each layer stores as many vectors as `needs` says, above 0. A segment may store as many as `room`. Raises
    ``PlanError`` if a segment has no room for one cell.
    """
    if max(needs) > room:
        raise PlanError(f"a segment has room for {room} vectors, one cell keeps {max(needs)}")
    segments: list[Segment] = []
    pieces: list[Piece] = []
    stored = 0
    for layer, need in enumerate(needs):
        first = 0
        while first < steps:
            count = min(steps - first, (room - stored) // need)
            if not count:
                segments.append(tuple(pieces))
                pieces, stored = [], 0
                continue
            pieces.append(Piece(layer, range(first, first + count)))
            first, stored = first + count, stored + count * need
    return [*segments, tuple(pieces)]


def divide(needs: list[int], steps: int, count: int) -> list[Segment]:
    """Cut all cells into at most `count` segments, the largest as small as possible."""
    low, high = max(needs), sum(needs) * steps
    while low < high:
        room = (low + high) // 2
        if len(cut(needs, steps, room)) <= count:
            high = room
        else:
            low = room + 1
    return cut(needs, steps, low)


def whole(log: int) -> float:
    """Give any log room for all of its streams."""
    return 1.0


@dataclass(frozen=True)
class Gates:
    """Where the gates of consecutive dense cells of a layer lie, one cell's behind the other's.

    Members
    -------
    step, first : int    the first of the cells, and the first vector of its gates in the region
    vectors : int        of each cell
    """

    step: int
    first: int
    vectors: int


@dataclass(frozen=True)
class StoredSegment:
    """Addresses of one segment's intermediates: the gates of its dense cells, then its streams.

    The backward pass of a segment stores δ. That stays until the weights' gradient of the layers is done, so logs of δ
    take no turns.

    Members
    -------
    region : Array       the memory of its intermediates; segments take turns in it
    dense : dict from a dense layer's number to its cells' gates
    log : Log or None    of the streams of local gradients; None if all cells are dense
    deltas : dict from a compressed layer's number to the log of its streams of δ
    """

    pieces: Segment
    region: Array
    dense: dict[int, Gates]
    log: Log | None
    deltas: dict[int, Log]

    def gates(self, layer: int, step: int) -> int:
        """Give the first vector of a dense cell's gates in the region."""
        gates = self.dense[layer]
        return gates.first + (step - gates.step) * gates.vectors

    def with_deltas(self, logs: dict[Piece, Log]) -> "StoredSegment":
        """Give the segment its pieces' logs of δ."""
        return replace(self, deltas={piece.layer: logs[piece] for piece in self.pieces if piece in logs})


class StoredIntermediates:
    """Allocates the memory of all segments' intermediates.

    Parameters
    ----------
    share : function       from a log's number to its room, as a share of what its streams need if they drop nothing
    every_delta : bool
        δ of all layers stay until the next pass; else every layer's streams of δ begin where those of the others do.
    layers_apart : bool
        Every layer has a program of its own in the backward pass, and so a log of its own for δ: programs begin logs.

    Members
    -------
    segments : list of StoredSegment    neighbours have different regions
    deltas : Array or None              all segments' streams of δ
    """

    def __init__(
        self, config: Config, memory: MemoryMap, layers: Sequence[LayerArrays], share: Callable[[int], float],
        segments: list[Segment], every_delta: bool, layers_apart: bool,
    ):  # fmt: skip
        self._apart = layers_apart
        self._config, self._memory, self._layers, self._share = config, memory, layers, share
        self._batch, self.every_delta = layers[0].batch, every_delta
        self.deltas: Array | None
        self.segments = self._allocate(segments)
        pieces = [(piece.layer, piece.steps.start, segment) for segment in self.segments for piece in segment.pieces]
        self._starts, self._segments = [piece[:2] for piece in pieces], [piece[2] for piece in pieces]

    def segment_of(self, layer: int, step: int) -> StoredSegment:
        """Give the addresses of the segment that a cell belongs to."""
        return self._segments[bisect(self._starts, (layer, step)) - 1]

    def needs(self) -> list[int]:
        """Give the vectors of memory for a cell's intermediates, by layer."""
        share = self._share(LOCAL_GRADIENTS)
        return [
            math.ceil(share * self._stream_vectors(layer)) if layer.storage.compressed else _gates_vectors(layer)
            for layer in self._layers
        ]

    def _allocate(self, segments: list[Segment]) -> list[StoredSegment]:
        """Allocate the regions, each as large as the largest segment that uses it needs."""
        plans = [self._contents(segment) for segment in segments]
        self.regions: list[Array] = []
        for number in range(min(len(segments), REGIONS)):
            vectors = max(gates + math.ceil(worst * self._share(LOCAL_GRADIENTS)) for _, gates, worst in plans)
            self.regions.append(self._memory.add_raw(f"intermediates{number}", "intermediates", vectors))
        result = []
        for number, (segment, (dense, gates, worst)) in enumerate(zip(segments, plans, strict=True)):
            region = self.regions[number % REGIONS]
            log = Log(LOCAL_GRADIENTS, region.section(gates, region.vectors - gates), worst) if worst else None
            result.append(StoredSegment(segment, region, dense, log, {}))
        return self._with_deltas(result) if self.every_delta else self._with_one_delta(result)

    def _with_deltas(self, stored: list[StoredSegment]) -> list[StoredSegment]:
        """Allocate a log of δ for each segment or layer, one behind the other."""
        cells = [segment.pieces for segment in stored]
        programs = [(piece,) for piece in chain(*cells)] if self._apart else cells
        worst = [sum(map(self._delta_vectors, pieces)) for pieces in programs]
        vectors = [math.ceil(need * self._share(DELTAS)) for need in worst]
        self.deltas = self._memory.add_raw("delta_log", "deltas", sum(vectors)) if sum(vectors) else None
        first, logs = 0, dict[Piece, Log]()
        for pieces, count, need in zip(programs, vectors, worst, strict=True):
            if need and self.deltas:
                log = Log(DELTAS, self.deltas.section(first, count), need, pieces[0].layer if self._apart else None)
                logs |= {piece: log for piece in pieces if self._delta_vectors(piece)}
            first += count
        return [segment.with_deltas(logs) for segment in stored]

    def _with_one_delta(self, stored: list[StoredSegment]) -> list[StoredSegment]:
        """Allocate one log of δ for all layers: each begins at the same address, its pieces lie one behind the other.

        No instruction has to wait for this memory. The STORE engine works in order, and stores the last gradients of a
        layer, for which all of its δ has been read, before the first δ of the layer below.
        """
        share, ends = self._share(DELTAS), dict.fromkeys(range(len(self._layers)), 0)
        extents: dict[Piece, tuple[int, int, int]] = {}
        for piece in (piece for segment in stored for piece in segment.pieces):
            worst, first = self._delta_vectors(piece), ends[piece.layer]
            ends[piece.layer] = end = first + math.ceil(share * worst)
            if worst:
                extents[piece] = first, end - first, worst
        most = max(ends.values())
        self.deltas = self._memory.add_raw("delta_log", "deltas", most) if most else None
        logs = {
            piece: Log(DELTAS, self.deltas.section(first, count), worst, piece.layer)
            for piece, (first, count, worst) in extents.items()
            if self.deltas
        }
        return [segment.with_deltas(logs) for segment in stored]

    def _contents(self, segment: Segment) -> tuple[dict[int, Gates], int, int]:
        """Give a segment's gates of dense cells, the vectors of all of them, and those of its streams at worst."""
        dense: dict[int, Gates] = {}
        gates = worst = 0
        for piece in segment:
            layer = self._layers[piece.layer]
            if layer.storage.compressed:
                worst += len(piece.steps) * self._stream_vectors(layer)
            else:
                dense[piece.layer] = Gates(piece.steps.start, gates, _gates_vectors(layer))
                gates += len(piece.steps) * _gates_vectors(layer)
        return dense, gates, worst

    def _stream_vectors(self, layer: LayerArrays) -> int:
        """Vectors of a compressed cell's streams, should nothing be dropped."""
        vectors = 0
        stages = [arrays for arrays in layer.products if arrays.has_stage]
        for arrays, tile in product(stages, range(self._batch.count)):
            for span in arrays.tiling.unit_spans:
                elements = span.count * self._batch.size_of(tile) * self._config.lanes
                words = ceil_div(elements, STREAM_BLOCK) + (ceil_div(elements, 2) if layer.storage.bf16 else elements)
                vectors += len(arrays.stage.kept) * ceil_div(words, self._config.lanes)
        return vectors

    def _delta_vectors(self, piece: Piece) -> int:
        """Vectors of the streams of δ of compressed cells, should nothing be dropped; integers of δ are no streams."""
        layer, lanes = self._layers[piece.layer], self._config.lanes
        if not layer.storage.compressed or layer.integers:
            return 0
        tiles = product(layer.products, range(self._batch.count))
        elements = [arrays.tiling.gates * self._batch.size_of(tile) * lanes for arrays, tile in tiles]
        of_cell = layer.tiling.units.tiles * sum(ceil_div(n + ceil_div(n, STREAM_BLOCK), lanes) for n in elements)
        return len(piece.steps) * of_cell


def _gates_vectors(layer: LayerArrays) -> int:
    return sum(arrays.gates_vectors for arrays in layer.products)
