"""What the last passes have broadcast and stored, read from a machine's memory."""

from functools import partial

import numpy as np

from etalstm.device.hooks import Factors
from etalstm.device.machine.windows import Windows
from etalstm.device.results import Outputs
from etalstm.errors import DeviceError
from etalstm.formats.codec import check_index, decode
from etalstm.network.storage import DENSE_TENSORS, KINDS, ProductCounts, Usage
from etalstm.plan.memory import layout
from etalstm.plan.memory.arrays import CellArrays, LayerArrays
from etalstm.plan.memory.memory_map import Array, unpack
from etalstm.plan.memory.network_map import NetworkMap
from etalstm_hw.contract import STREAM_INDEX

_START, _BEATS, _KEPT = (STREAM_INDEX.index(name) for name in ("start", "beats", "kept"))


class DeltaReader:
    """Reads one layer's δ, wherever it lies: an array, or a stream for each step, batch tile, channel and unit tile.

    `skipped`, bool (T,), are those of the T steps of the iteration that wrote nothing: their δ is zero.
    """

    def __init__(self, network: NetworkMap, arrays: LayerArrays, skipped: np.ndarray, windows: Windows):
        self._config, self._log, self._every = network.config, network.stored.deltas, network.stored.every_delta
        self._arrays, self._skipped, self._memory, self._windows = arrays, skipped, network.memory, windows
        self._most_steps = network.steps

    def kept(self) -> int:
        """Count the nonzero elements; of streams only the index beats are read."""
        if self._arrays.storage.compressed:
            return int(self._index()[:, ~self._skipped, ..., _KEPT].sum())
        return int(np.count_nonzero(self.values()))

    def values(self) -> np.ndarray:
        """Read δ: float32, (T, B, 4H), rows in canonical order: sums over them have the golden trainer's bits.

        :class:`DeviceError` if it was not stored: the memory has room for one layer's at a time.
        """
        if self._arrays.storage.compressed:
            if not self._every:
                raise DeviceError(
                    f"the gradients of layer {self._arrays.number}'s gates were not kept: the memory has room for one "
                    "layer's at a time; fewer sequences or steps, or a memory budget, leave room for all"
                )
            delta = self._decoded()
        else:
            assert self._arrays.delta, "a layer stores its δ dense or as streams"
            delta = self._windows.read(self._arrays.delta.first(self._skipped.size))
        delta[self._skipped] = 0
        return np.ascontiguousarray(delta.swapaxes(2, 3)).reshape(*delta.shape[:2], -1)

    def _index(self) -> np.ndarray:
        """Read the index beats: int64, (channels, T, batch tiles, unit tiles, words of an index)."""
        every, batch, size = self._arrays.delta_index, self._arrays.batch, self._config.vector_beats
        assert every, "a layer whose δ is compressed has indices"
        of_steps = every.section(0, every.vectors // self._most_steps * self._skipped.size)
        words = self._windows.read_words(of_steps).view(np.uint32)[..., : len(STREAM_INDEX)]
        shape = (self._memory.channels, self._skipped.size, -1, self._arrays.tiling.units.tiles, len(STREAM_INDEX))
        index = words.reshape(shape).astype(np.int64)
        elements = [[self._vectors(tile) * self._arrays.tiling.units.lanes] for tile in range(batch.count)]
        addresses = (every.first + np.arange(index[0, ..., 0].size)).reshape(index.shape[1:-1]) * size
        check_index(index[:, ~self._skipped], elements, addresses[~self._skipped])
        return index

    def _vectors(self, tile: int) -> int:
        return self._arrays.tiling.gates * self._arrays.batch.size_of(tile)

    def _decoded(self) -> np.ndarray:
        """Decode every stream: float32, (T, B, 4, H)."""
        gates, units = self._arrays.tiling.gates, self._arrays.tiling.units
        batch, steps = self._arrays.batch, self._skipped.size
        index = self._index()
        index[:, self._skipped] = 0
        beats, first = self._beats(int((index[..., _START] + index[..., _BEATS]).max()))
        dense = np.zeros(
            (self._memory.channels, steps, batch.count, gates * units.tiles * batch.size, units.lanes), np.float32
        )
        for channel, step, tile, unit in np.argwhere(index[..., _BEATS]):
            start, length = index[channel, step, tile, unit, [_START, _BEATS]]
            vectors = self._vectors(tile)
            words = beats[channel, start - first : start - first + length].reshape(-1)
            block = decode(words, vectors * units.lanes, beat_words=self._config.beat_words)
            dense[channel, step, tile, unit * vectors : (unit + 1) * vectors] = block.reshape(vectors, units.lanes)
        by_tile = partial(layout.sequence_elements, units, steps, batch, gates=gates)
        size = self._memory.channels, dense[0].size // units.lanes, units.lanes
        make_elements, shape = self._memory.of_batch(by_tile, (steps, batch.batch, gates, units.size), axis=1)
        return unpack(Array("delta", "deltas", 0, size, shape, make_elements), dense)

    def _beats(self, end: int) -> tuple[np.ndarray, int]:
        """Read the log up to a beat: uint32, (channels, beats, words of a beat); and the number of its first beat."""
        log, size = self._log, self._config.vector_beats
        assert log, "a layer whose δ is compressed has a log"
        words = self._windows.read_words(log.section(0, max(1, -(-end // size) - log.first))).view(np.uint32)
        return words.reshape(self._memory.channels, -1, self._config.beat_words), log.first * size


class Measures:
    """Reads what the passes of one iteration have left: their results, and what they have broadcast and stored.

    `skipped`, bool (L, T), are the cells that stored nothing, of the T steps of the iteration.
    """

    def __init__(self, network: NetworkMap, windows: Windows, skipped: np.ndarray):
        self._network, self._windows, self._skipped = network, windows, skipped

    def outputs(self, lengths: np.ndarray) -> Outputs:
        """Read what the forward pass gives for sequences of these lengths."""
        layers, steps = self._network.layers, self._skipped.shape[1]
        y = self._windows.read(layers[-1].h.first(steps + 1))[1:]
        c = [self._windows.read(a.c.step(a.c_at(steps))) for a in layers]
        h = [self._last_h(a, lengths) for a in layers[:-1]] + [y[lengths - 1, np.arange(lengths.size)]]
        return Outputs(y, np.stack(h), np.stack(c))

    def _last_h(self, arrays: CellArrays, lengths: np.ndarray) -> np.ndarray:
        """Read the h of each sequence's last step; after it there are zeros."""
        last = np.empty((lengths.size, self._network.network.hidden_size), np.float32)
        for step in np.unique(lengths).tolist():
            last[lengths == step] = self._windows.read(arrays.h.step(step))[lengths == step]
        return last

    def dx(self) -> np.ndarray:
        """Read dx, (T, B, I); skipped cells wrote nothing."""
        dx = self._windows.read(self._network.dx.first(self._skipped.shape[1]))
        dx[self._skipped[0]] = 0
        return dx

    def initial_state_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Read dh0 and dc0, each (L, B, H)."""
        dh, dc = (
            np.stack([self._windows.read(sequence.array)[0] for sequence in sequences])
            for sequences in zip(*((arrays.dh, arrays.dc) for arrays in self._network.layers), strict=True)
        )
        dh[self._skipped[:, 0]] = dc[self._skipped[:, 0]] = 0
        return dh, dc

    def usage(self, active: np.ndarray) -> list[Usage]:
        """Count by layer what was stored and computed; `active`, bool (T, B), are the steps that are no padding."""
        return [
            Usage.counted(
                units=self._network.network.hidden_size,
                products=[self._counts(product, active, skipped) for product in arrays.products],
                active=active,
                skipped=skipped,
                **self._kept(arrays, skipped, active.shape[1]),
            )
            for arrays, skipped in zip(self._network.layers, self._skipped, strict=True)
        ]

    def _counts(self, arrays: LayerArrays, active: np.ndarray, skipped: np.ndarray) -> ProductCounts:
        sent, deltas = self._sent(arrays, skipped)
        broadcast = [arrays.delta_inputs.broadcast(operand) for operand in sent]
        return ProductCounts.of(arrays.tiling.gates, broadcast, active, deltas.kept())

    def factors(self) -> Factors:
        """Read the two factors of each layer's dW."""
        factors = []
        for arrays, skipped in zip(self._network.layers, self._skipped, strict=True):
            sent, deltas = self._sent(arrays, skipped)
            factors.append((deltas.values(), np.concatenate(sent, axis=2)))
        return factors

    def _sent(self, arrays: LayerArrays, skipped: np.ndarray) -> tuple[list[np.ndarray], DeltaReader]:
        """Read what was sent of a product's operands, x first; δ is read by who needs it."""
        steps, operands = len(skipped), [(each, first) for each, first in arrays.factors if each]
        sent = [self._windows.read(each.first(steps + first))[first:] for each, first in operands]
        return sent, DeltaReader(self._network, arrays, skipped, self._windows)

    def _kept(self, arrays: LayerArrays, skipped: np.ndarray, batch: int) -> dict:
        """Count the kept elements of each kind, and the words of beats, that a layer's index tells."""
        if arrays.index is None:
            elements = int((~skipped).sum()) * batch * self._network.network.hidden_size
            return {"kept": (0,) * len(KINDS), "words": DENSE_TENSORS * elements}
        of_steps = arrays.index.section(0, arrays.index.vectors // self._network.steps * skipped.size)
        words = self._windows.read_words(of_steps).view(np.uint32)[:, :, : len(STREAM_INDEX)]
        index = words.reshape(len(words), skipped.size, -1, len(KINDS), len(STREAM_INDEX))[:, ~skipped]
        kept = index[..., STREAM_INDEX.index("kept")].sum((0, 1, 2))
        beats = index[..., STREAM_INDEX.index("beats")].sum()
        words_of_beat = self._network.config.beat_words
        return {"kept": tuple(int(count) for count in kept), "words": int(beats) * words_of_beat}
