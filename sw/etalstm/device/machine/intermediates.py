"""The intermediates of segments, as sealed streams: out of the machine's memory, and into it."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from etalstm.device.machine.windows import Windows
from etalstm.errors import StreamError
from etalstm.formats.codec import check_index, encode, index_words, kept_by_block
from etalstm.formats.sealed_stream import DENSE_KIND, Encoding, StreamHeader, seal, unseal
from etalstm.network.shape import GATES
from etalstm.network.storage import KINDS
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.layout import owned_elements
from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.stored import REGIONS, Segment, StoredSegment, up_to
from etalstm_hw.contract import STREAM_INDEX

START, BEATS, KEPT = range(3)  # columns of `extents`
_OF_INDEX = [STREAM_INDEX.index(name) for name in ("start", "beats", "kept")]


class OutgrownError(StreamError):
    """Streams that the host has encoded do not fit the log they go to; `needed` is a share of the log's worst case."""

    def __init__(self, message: str, needed: float):
        super().__init__(message)
        self.needed = needed


@dataclass(frozen=True)
class Stream:
    """A stream that every channel has; kind, batch tile and span of units as a header has them.

    `vector` is the number of its index among the layer's; of gates, their first vector in the region. `vectors` is its
    length before compression.
    """

    layer: LayerArrays
    step: int
    kind: int
    tile: int
    span: int
    vector: int
    vectors: int


class Intermediates:
    """Reads and writes what segments store.

    `identity` is the network's, as :func:`etalstm.formats.sealed_stream.network_id` gives it. `skipped`, bool (L, T),
    are the cells that store nothing, of the T steps of the pass.
    """

    def __init__(self, network: NetworkMap, windows: Windows, identity: int, skipped: np.ndarray):
        self._config, self._network, self._windows = network.config, network, windows
        self._channels, self._identity, self._skipped = network.memory.channels, identity, skipped

    def streams(self, segment: StoredSegment) -> Iterator[Stream]:
        """Give a segment's streams in the order in which a channel's log has them, gates where their cells come."""
        network = self._network
        for piece in self._pieces(segment):
            layer = network.layers[piece.layer]
            for step in piece.steps:
                if self._skipped[piece.layer, step]:
                    continue
                for tile in range(network.batch.count):
                    for number, span in enumerate(layer.tiling.unit_spans):
                        vectors = span.count * network.batch.size_of(tile)
                        if not layer.storage.compressed:
                            first = network.gates(layer, step, tile, span).vector
                            yield Stream(layer, step, DENSE_KIND, tile, number, first, GATES * vectors)
                            continue
                        for kind in range(len(KINDS)):
                            index = layer.index_of(step, tile, span, kind).vector
                            yield Stream(layer, step, kind, tile, number, index, vectors)

    def _pieces(self, segment: StoredSegment) -> Segment:
        return up_to(segment.pieces, self._skipped.shape[1])

    def read(self, segment: StoredSegment) -> list[bytes]:
        """Read a segment's streams of all channels, and seal them; ``StreamError`` if an index is damaged."""
        streams = list(self.streams(segment))
        extents = self._extents(segment, streams)
        words = self._read_region(segment, int((extents[:, :, START] + extents[:, :, BEATS]).max(initial=0)))
        sealed = []
        for number, stream in enumerate(streams):
            for channel, (start, beats, kept) in enumerate(extents[:, number].tolist()):
                body = words[channel, start : start + beats].reshape(-1)
                sealed.append(seal(self.header(stream, channel, kept, body.size), body))
        return sealed

    def encode(self, segment: StoredSegment, layers: Sequence[np.ndarray]) -> Iterator[bytes]:
        """Compress what a segment's cells store, as :meth:`read` would give it if the machine had done it.

        `layers` has the local gradients of each layer, float32, (6, T, B, H), pruned and rounded; +0 where there is
        padding.
        """
        for stream in self.streams(segment):
            values = layers[stream.layer.number][stream.kind, stream.step]
            for channel, ours in enumerate(self._laid_out(stream, values)):
                words = encode(ours, bf16=stream.layer.storage.bf16, beat_words=self._config.beat_words)
                kept = int(kept_by_block(ours).sum())
                yield seal(self.header(stream, channel, kept, words.size), words)

    def _laid_out(self, stream: Stream, values: np.ndarray) -> np.ndarray:
        """Give the elements (B, H) of a stream's sequences and units as each channel has them, (channels, elements)."""
        division, span = self._network.division, stream.layer.tiling.unit_spans[stream.span]
        units = owned_elements(stream.layer.tiling.units)[:, span.first : span.first + span.count]
        padded = np.append(values, np.zeros((len(values), 1), np.float32), axis=1)  # number -1 is a lane without a unit
        laid_out = []
        for part in range(division.count):
            ours = division.take(padded, part, axis=0)[self._network.batch.ranges[stream.tile]]
            laid_out.append(np.moveaxis(ours[:, units], 0, 2).reshape(len(units), -1))
        return np.concatenate(laid_out)

    def count(self, segment: StoredSegment) -> int:
        """Count a segment's streams, all channels together."""
        return self._channels * sum(1 for _ in self.streams(segment))

    def header(self, stream: Stream, channel: int, kept: int, words: int) -> StreamHeader:
        """Make the header of a channel's stream."""
        dense = stream.kind == DENSE_KIND
        encoding = Encoding.DENSE if dense else Encoding(stream.layer.storage.bf16)
        return StreamHeader(
            network=self._identity, layer=stream.layer.number, step=stream.step, kind=stream.kind, channel=channel,
            tile=stream.tile, span=stream.span, encoding=encoding, beat_words=self._config.beat_words,
            elements=stream.vectors * self._config.lanes, kept=kept, words=words,
        )  # fmt: skip

    def write(self, segment: StoredSegment, sealed: Iterable[bytes]) -> None:
        """Write what :meth:`read` gave, or a host has encoded, to where the segment's programs look for it.

        ``StreamError`` if a stream is damaged, of another network, not the one that comes next, or missing;
        :class:`OutgrownError` if the region has no room for them. Nothing was written then.
        """
        streams, extents, bodies = self.arrange(segment, sealed)
        self._write_region(segment, bodies, self._vectors(extents))
        self._write_indices(segment, streams, extents)

    def arrange(self, segment: StoredSegment, sealed: Iterable[bytes]):
        """Check a segment's streams and give each its address; raises as :meth:`write` does.

        Returns
        -------
        streams : list of Stream
        extents : array, int64, (channels, streams, 3)
            Where each begins, in beats of the region, its beats, and how many elements are stored.
        bodies : dict from (channel, beat) to array, uint32, (beats, words of a beat)
        """
        streams, sealed = list(self.streams(segment)), iter(sealed)
        extents = np.zeros((self._channels, len(streams), 3), np.int64)
        bodies = {}
        ends = [self._log_start(segment)] * self._channels
        for number, stream in enumerate(streams):
            for channel in range(self._channels):
                header, words = self._next(sealed, stream, channel)
                beats = words.size // self._config.beat_words
                start = ends[channel]
                if stream.kind == DENSE_KIND:
                    start = stream.vector * self._config.vector_beats
                else:
                    ends[channel] += beats
                extents[channel, number] = start, beats, header.kept
                bodies[channel, start] = words.reshape(beats, -1)
        missing = self._vectors(extents) - (room := segment.region.vectors)
        if missing > 0:
            needed = (missing + segment.log.array.vectors) / segment.log.worst if segment.log else math.inf
            raise OutgrownError(f"streams need {missing} vectors more than a region of {room}", needed)
        return streams, extents, bodies

    def _vectors(self, extents: np.ndarray) -> int:
        beats = int((extents[:, :, START] + extents[:, :, BEATS]).max(initial=0))
        return -(-beats // self._config.vector_beats)

    def _next(self, sealed: Iterator[bytes], stream: Stream, channel: int):
        """Take the next stream and check that it is the one that is expected."""
        data = next(sealed, None)
        if data is None:
            raise StreamError(f"{self.header(stream, channel, 0, 0)} is missing: no more streams came")
        header, words = unseal(data, self._identity)
        expected = self.header(stream, channel, header.kept, header.words)
        if header.position != expected.position:
            raise StreamError(f"{header} came where {expected} was expected")
        if header != expected:
            raise StreamError(f"{header}: its header is {header!r}, expected was {expected!r}")
        return header, words

    def _log_start(self, segment: StoredSegment) -> int:
        return (segment.log.array.first - segment.region.first) * self._config.vector_beats if segment.log else 0

    def _extents(self, segment: StoredSegment, streams: list[Stream]) -> np.ndarray:
        """Read where streams lie: int64, (channels, streams, 3), see :meth:`arrange`."""
        beats = self._config.vector_beats
        tables = {}
        for layer, first, index in self._indices(segment):
            words = self._windows.read_words(index).view(np.uint32)[:, :, : len(STREAM_INDEX)]
            tables[layer.number] = first, index.first, words
        extents = np.zeros((self._channels, len(streams), 3), np.int64)
        for number, stream in enumerate(streams):
            if stream.kind == DENSE_KIND:
                size = stream.vector * beats, stream.vectors * beats
                extents[:, number] = *size, stream.vectors * self._config.lanes
            else:
                first, begins, table = tables[stream.layer.number]
                found = table[:, stream.vector - first]
                check_index(found, stream.vectors * self._config.lanes, (begins + stream.vector - first) * beats)
                extents[:, number] = found[:, _OF_INDEX]
                extents[:, number, START] -= segment.region.first * beats
        return extents

    def _indices(self, segment: StoredSegment) -> Iterator[tuple[LayerArrays, int, Array]]:
        """Give the layers of a segment that have indices, each with the segment's part of them and its first vector."""
        for piece in self._pieces(segment):
            layer = self._network.layers[piece.layer]
            if layer.index:
                of_step = layer.index.vectors // self._network.steps
                first = piece.steps.start * of_step
                yield layer, first, layer.index.section(first, len(piece.steps) * of_step)

    def _write_indices(self, segment: StoredSegment, streams: list[Stream], extents: np.ndarray) -> None:
        of_vector, lanes = self._config.vector_beats, self._config.lanes
        for layer, first, array in self._indices(segment):
            table = np.zeros(array.words, np.uint32)
            for number, stream in enumerate(streams):
                if stream.layer is layer:
                    start, beats, kept = extents[:, number].T
                    address = (array.first + stream.vector - first) * of_vector
                    table[:, stream.vector - first, : len(STREAM_INDEX)] = index_words(
                        start + segment.region.first * of_vector, beats, stream.vectors * lanes, kept, address
                    )
            self._windows.write_words(array, table)

    def _read_region(self, segment: StoredSegment, beats: int) -> np.ndarray:
        """Read the first beats of a region: uint32, (channels, beats, words of a beat), or more."""
        vectors = -(-beats // self._config.vector_beats)
        words = self._windows.read_words(segment.region.section(0, vectors)).view(np.uint32)
        return words.reshape(self._channels, -1, self._config.beat_words)

    def _write_region(self, segment: StoredSegment, bodies: dict[tuple[int, int], np.ndarray], vectors: int) -> None:
        shape = (self._channels, vectors * self._config.vector_beats, self._config.beat_words)
        words = np.zeros(shape, np.uint32)
        for (channel, start), body in bodies.items():
            words[channel, start : start + len(body)] = body
        self._windows.write_words(segment.region.section(0, vectors), words)


class Spill:
    """The intermediates of one iteration's segments: in the machine's memory, or sealed on the `host`, by segment.

    In the forward pass a segment's region is needed again by the second one after it, so its intermediates leave while
    the next one runs. The last two stay where they are: the backward pass begins with them.
    """

    def __init__(self, segments: list[StoredSegment], intermediates: Intermediates):
        self._segments, self.intermediates = segments, intermediates
        self.host: dict[int, list[bytes]] = {}

    def during_forward(self, number: int) -> None:
        """Bring out the segment before the one that runs, if its region is needed again."""
        if 0 < number < len(self._segments) - 1:
            self.host[number - 1] = self.intermediates.read(self._segments[number - 1])

    def take(self, sealed: list[bytes]) -> None:
        """Take all segments' streams from the host, as if a forward pass had left them; those of the last two move in.

        ``StreamError`` if a stream is not what is expected, or if there are too many.
        """
        first = 0
        for number, segment in enumerate(self._segments):
            ours = sealed[first : first + self.intermediates.count(segment)]
            first += len(ours)
            if number < len(self._segments) - REGIONS:
                self.intermediates.arrange(segment, ours)
                self.host[number] = ours
            else:
                self.intermediates.write(segment, ours)
        if first < len(sealed):
            raise StreamError(f"{len(sealed)} streams came, expected were {first}")

    def during_backward(self, number: int) -> None:
        """Bring back the intermediates of the segment before the one that runs; the next one's region is free."""
        if number - 1 in self.host:
            self.intermediates.write(self._segments[number - 1], self.host[number - 1])
