"""Operands counted from the memory that a program has worked on: exactly which scalars are zero."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from etalstm.formats.codec import decode
from etalstm.model.changes import ChangesOfStep, ChangesOfSteps
from etalstm.model.machine.state import sizes_of
from etalstm.model.machine.table import Tables, as_cast, blocks_of_cast
from etalstm.network.delta_inputs import changed
from etalstm.plan.memory.integer_arrays import IntegerArrays
from etalstm.plan.memory.sent import SentOperand
from etalstm.plan.program.volume import blocks_of
from etalstm.plan.program.walk import Step, walk
from etalstm_hw.config import Config
from etalstm_hw.contract import MOST_GATES, Opcode
from etalstm_hw.contract.integers import PLANES

Read = Callable[[int, int, int], np.ndarray]
"""Gives words (uint32) of a channel's window: from its number, the first beat, and how many beats."""

_MAGNITUDE = np.uint32(0x7F80_0000)  # a scalar with an exponent of 0 counts as zero


class _Counts:
    """How many elements each beat of a codec keeps, of one stream after the other."""

    def __init__(self) -> None:
        self._of_streams = [np.zeros(0, np.int64)]
        self._length = 0

    def add(self, words: np.ndarray, codec_words: int) -> int:
        """Count those of a stream, whose elements are the words, uint32; give where its counts begin."""
        first = self._length
        self._of_streams.append(np.count_nonzero(words.reshape(-1, codec_words), axis=1))
        self._length += len(self._of_streams[-1])
        return first

    def together(self) -> np.ndarray:
        """Give all counts, int64."""
        return np.concatenate(self._of_streams)


class Counted:
    """What a program moves, read from memory after it: every array that it broadcast, and every index, must be there.

    The channels work in so many `groups`. `sent` are the operands whose changes are broadcast. Their streams are
    overwritten, but the changes follow from what was sent. Those of `layers` with integers do, too.
    """

    def __init__(
        self, config: Config, read: Read, groups: int = 1, sent: Sequence[SentOperand] = (),
        layers: Sequence[IntegerArrays] = (),
    ):  # fmt: skip
        self._config, self._read, self._channels = config, read, config.channels // groups
        self._windows = range(0, config.channels, self._channels)  # of the first channel of each group
        self._sent, self._changes_of = sent, ChangesOfSteps(layers, config.vector_beats)
        sizes = sizes_of(config)
        self._chunk, self._codec_words = sizes.chunk, sizes.codec_words

    def fill(self, words: Iterable[int], tables: Tables) -> Tables:
        """Put into a program's tables what is found, in the order in which the program is executed."""
        masks, found, streams, rows, counts = [], [], [], [], _Counts()
        last_cast, steps = 0, list(walk(words))
        for number, step in enumerate(steps):
            fields = step.fields
            if step.opcode == Opcode.CAST:
                last_cast = number
                for channel, tile, lanes in blocks_of_cast(fields):
                    for first in self._windows:
                        block = self._block(step, first + channel, tile)
                        masks.append(self._masks(fields, block & _MAGNITUDE != 0, lanes))
                        found.append(self._stream_of_block(step, first + channel, tile, block, counts))
            elif step.opcode == Opcode.SEND:
                changes = self._changes_of.find(step.address)
                for channel, tile, _ in blocks_of_cast(as_cast(self._config, fields)):
                    masks += [self._digits(step, first + channel, tile, changes) for first in self._windows]
                    found += [(0, 0, 0)] * len(self._windows)
            elif step.opcode == Opcode.LOAD_ROWS:
                # Rows of a single one for each lane are those of a CAST of x or h, which shares no load.
                casts = [steps[last_cast]] if fields["single"] else _sharing(steps, last_cast)
                rows += self._rows(fields, casts)
            elif step.opcode in (Opcode.LOAD, Opcode.STORE) and fields["compressed"]:
                streams += [self._stream(step, channel, counts) for channel in range(self._config.channels)]
        groups, firsts = len(self._windows), np.cumsum([0, *map(len, masks)])[:-1]
        return tables._replace(
            masks=np.concatenate(masks) if masks else np.zeros(0, np.uint32),
            firsts=firsts.reshape(-1, groups).T,
            block_streams=np.array(found, np.int64).reshape(-1, groups, 3).swapaxes(0, 1),
            streams=np.array(streams, np.int64).reshape(-1, self._config.channels, 3).swapaxes(0, 1),
            counts=counts.together(),
            rows=np.array(rows, np.int64),
        )

    def _index(self, channel: int, beat: int) -> tuple[int, int]:
        """Give first beat and beats of a stream."""
        start, beats = self._read(channel, beat, 1)[:2]
        return int(start), int(beats)

    def _elements(self, channel: int, beat: int, count: int, bf16: bool = False) -> np.ndarray:
        """Give the elements of the stream whose index lies at a beat, uint32; all that have changed have one value."""
        config, vector = self._config, beat // self._config.vector_beats
        for operand in self._sent:
            if vector in range(operand.index.first, operand.index.first + operand.index.vectors):
                return self._changes(operand, channel, vector, count // config.lanes) * _MAGNITUDE
        words = self._read(channel, *self._index(channel, beat))
        return decode(words, count, bf16, config.beat_words).view(np.uint32)

    def _stream(self, transfer: Step, channel: int, counts: _Counts) -> tuple[int, int, int]:
        """Give what is known of the stream of a LOAD or STORE: see :class:`Tables`."""
        fields, beat = transfer.fields, transfer.address
        elements = fields["outer"] * fields["inner"] * self._config.lanes
        found = self._elements(channel, beat, elements, bool(fields["bf16"]))
        return *self._index(channel, beat), counts.add(found, self._codec_words)

    def _stream_of_block(self, cast: Step, channel: int, tile: int, block: np.ndarray, counts: _Counts) -> tuple:
        """Give what is known of the stream of a block, if it is one: see :class:`Tables`."""
        if not cast.fields["compressed"]:
            return 0, 0, 0
        index = self._index(channel, cast.address + tile * self._config.vector_beats)
        return *index, counts.add(block, self._config.beat_words)

    def _block(self, cast: Step, channel: int, tile: int) -> np.ndarray:
        """Give the words of a block, uint32, (gate, b, lane), as :meth:`_elements` gives those of a stream."""
        config, fields = self._config, cast.fields
        shape = fields["gates"], fields["batch"], config.lanes
        if fields["compressed"]:
            beat = cast.address + tile * config.vector_beats
            return self._elements(channel, beat, int(np.prod(shape))).reshape(shape)
        beats = shape[0] * shape[1] * config.vector_beats
        return self._read(channel, cast.address + tile * beats, beats).reshape(shape)

    def _changes(self, operand: SentOperand, channel: int, vector: int, size: int) -> np.ndarray:
        """Tell which elements of a tile have changed, (b, lane), from the location of its stream's index."""
        tiles, beats = operand.partition.tiles, self._config.vector_beats
        number, tile = divmod(vector - operand.index.first, tiles)
        step, batch_tile = divmod(number, operand.sent.batch.count)
        now, before = (operand.sent.at(number, batch_tile, tile) for number in (step, step - 1))
        words = [self._read(channel, (p.array.first + p.vector) * beats, size * beats) for p in (now, before)]
        return changed(*(array.view(np.float32) for array in words))

    def _digits(self, send: Step, channel: int, tile: int, changes: ChangesOfStep | None) -> np.ndarray:
        """Count the digits that are not zero in each beat of a block, in the order of these."""
        beats = (1 + send.fields["wide"]) * send.fields["batch"] * self._config.vector_beats
        if changes:
            words = changes.words(partial(self._read, channel), tile, beats // PLANES)
            return np.count_nonzero(words.reshape(beats, -1), axis=1).astype(np.uint32)
        words = self._read(channel, send.address + tile * beats, beats)
        digits = np.ascontiguousarray(words).view(np.uint8).reshape(beats, -1)
        return np.count_nonzero(digits, axis=1).astype(np.uint32)

    def _masks(self, cast: dict, nonzero: np.ndarray, lanes: int) -> np.ndarray:
        """Give a block's masks in the order in which its patches are broadcast."""
        if cast["batch_outer"]:
            return self._masks_by_batch(cast, nonzero, lanes)
        gates, batch, _ = nonzero.shape
        chunks = -(-batch // self._chunk)
        bits = np.zeros((lanes, gates, chunks * self._chunk), np.uint64)
        bits[:, :, :batch] = nonzero[:, :, cast["lane"] : cast["lane"] + lanes].transpose(2, 0, 1)
        weights = np.uint64(1) << np.arange(self._chunk, dtype=np.uint64)
        return (bits.reshape(-1, self._chunk) * weights).sum(axis=1).astype(np.uint32)

    def _masks_by_batch(self, cast: dict, nonzero: np.ndarray, lanes: int) -> np.ndarray:
        words, first = self._config.beat_words, cast["lane"] // self._config.beat_words
        last = (cast["lane"] + lanes - 1) // words
        broadcast = np.zeros_like(nonzero)
        lane = slice(cast["lane"], cast["lane"] + lanes)
        broadcast[:, :, lane] = nonzero[:, :, lane]
        gates, batch, _ = nonzero.shape
        bits = np.zeros((batch, last - first + 1, words, MOST_GATES), np.uint64)
        patches = broadcast[:, :, first * words : (last + 1) * words].reshape(gates, batch, last - first + 1, words)
        bits[..., :gates] = patches.transpose(1, 2, 3, 0)
        weights = np.uint64(1) << np.arange(words * MOST_GATES, dtype=np.uint64)
        return (bits.reshape(-1, words * MOST_GATES) * weights).sum(axis=1).astype(np.uint32)

    def _rows(self, rows: dict, casts: list[Step]) -> list[int]:
        """Give a bit for each row that some group needs, of every lane of the blocks of a LOAD_ROWS with fields `rows`.

        `casts` are those whose products take the rows.
        """
        needed, values = [], 1 << np.arange(MOST_GATES)
        for channel, tile, lanes in blocks_of(rows):
            of_groups = [first + channel for first in self._windows]
            blocks = [self._block(cast, window, tile) & _MAGNITUDE for cast in casts for window in of_groups]
            bits = np.any([block.any(axis=1) for block in blocks], axis=0)  # (gate, lane)
            needed += (values[: len(bits)] @ bits[:, :lanes]).tolist()
        return needed


def _sharing(steps: list[Step], first: int) -> list[Step]:
    """Give the CASTs that share a load of rows with the one that comes before it.

    They broadcast the same blocks of other arrays, and their sums begin and end together.
    """
    begun, blocks = steps[first], ("channel", "tile", "blocks")
    casts = [begun]
    for step in steps[first + 1 :]:
        if step.opcode != Opcode.CAST:
            continue
        if step.fields["start"] or any(step.fields[name] != begun.fields[name] for name in blocks):
            break
        casts.append(step)
    return casts
