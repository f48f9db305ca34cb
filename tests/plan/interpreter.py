"""Executes a program one instruction after the other, on arrays: what the machine must do, without its clock."""

from collections import deque

import numpy as np
from numba import njit

from etalstm.formats import codec
from etalstm.golden.arithmetic import finish, plus, times
from etalstm.network.arithmetic import exponent_of
from etalstm.plan.memory.tiling import ceil_div
from etalstm.plan.program.volume import blocks_of, rows_of_a_lane
from etalstm.plan.program.walk import walk
from etalstm_hw import contract
from etalstm_hw.contract import (
    NOTHING_NOTED,
    OF_BYTES,
    OPS_OF_INTEGERS,
    OWN_WINDOW,
    Engine,
    Memory,
    Opcode,
    Source,
    Start,
    Traffic,
    VectorOp,
)
from etalstm_hw.contract.integers import largest_mantissa
from tests.plan.float_operations import float_operation
from tests.plan.integer_operations import integer_operation

MINUS_ZERO = np.float32(-0.0)


@njit
def accumulate(sums, begun, begin, weights, scalars, rows, columns):
    """Add each scalar times its vectors of weights to its sums, one scalar after the other.

    Parameters
    ----------
    sums : array, float32, (channels, vectors, lanes)
        Changed in place.
    begun : array, bool, (vectors of partial sums,)
        Whether the sums that begin at a vector have a term already. Changed in place.
    begin : array, float32, (channels, tiles, lanes)
        What sums without a term are.
    weights : array, float32, (channels, vectors, lanes)
    scalars : array, float32, (N,)
    rows, columns : arrays of integers, (N,)
        The first vector of weights, and of sums, of each scalar.
    """
    channels, tiles, lanes = begin.shape
    for n in range(scalars.size):
        row, column = rows[n], columns[n]
        for c in range(channels):
            for t in range(tiles):
                for lane in range(lanes):
                    before = sums[c, column + t, lane] if begun[column] else begin[c, t, lane]
                    product = times(finish(weights[c, row + t, lane]), finish(scalars[n]))
                    sums[c, column + t, lane] = plus(product, finish(before))
        begun[column] = True


class Interpreter:
    """A machine whose engines all work strictly in program order.

    Parameters
    ----------
    config : Config
    window_bytes : int
        Size of a channel's window.
    groups : int
        Of channels.

    Members
    -------
    windows : array, float32, (channels, vectors of a window, lanes)
    parameters : array, float32, (PARAMETERS,)
    stores : int
        Instructions of the STORE engine that the program that ran last has completed.
    rows_seen, rows_left_out : int
        Rows of that program's LOAD_ROWS, and how many of them were not needed.
    weight_bytes : int
        What its loads have read of weights.
    """

    def __init__(self, config, window_bytes, groups=1):
        self.config, size = config, config.channels // groups
        self.groups = [slice(first, first + size) for first in range(0, config.channels, size)]
        vectors = window_bytes // (config.lanes * 4)
        self.windows = np.full((config.channels, vectors, config.lanes), np.nan, np.float32)
        self.parameters = np.array([1, 0, -0.0] + [0] * (contract.PARAMETERS - 3), np.float32)
        depths = {
            Memory.WEIGHTS: config.weight_depth,
            Memory.SCRATCH: config.scratch_depth,
            Memory.BIAS: config.bias_depth,
            Memory.SUMS: config.sums,
        }
        self.lanes = {m: np.full((config.channels, d, config.lanes), np.nan, np.float32) for m, d in depths.items()}
        self._noted = {}
        if config.integers:
            self.lanes[Memory.SUMS] = np.zeros((config.channels, config.sums, config.lanes), np.int64)
            lanes = config.channels, config.lanes
            self._noted = {
                VectorOp.NOTED_EXPONENT: np.full(lanes, NOTHING_NOTED, np.int64),
                VectorOp.NOTED_CLAMPED: np.zeros(lanes, np.int64),
                VectorOp.NOTED_SUM: np.zeros(lanes, np.int64),
            }
        self._begin()
        self._pending, self._sent = None, deque()

    def run(self, words):
        """Execute up to HALT; raise ``OverflowError`` where a stream outgrows its log."""
        self._positions = [[0] * (1 << contract.LOG_BITS) for _ in range(self.config.channels)]
        self.stores = self.rows_seen = self.rows_left_out = self.weight_bytes = 0
        for step in walk(words):
            if step.opcode == Opcode.HALT:
                return
            getattr(self, f"_{step.opcode.name.lower()}")(step.fields | {"address": step.address})
            self.stores += contract.ENGINE_OF[step.opcode] == Engine.STORE
        raise AssertionError("the program ended without HALT")

    def _vectors(self, f):
        assert f["address"] % self.config.vector_beats == 0
        start = f["address"] // self.config.vector_beats
        return slice(start, start + f["outer"] * f["inner"])

    @staticmethod
    def _loop(address, outer, inner, outer_stride, inner_stride):
        return (address + np.arange(outer)[:, None] * outer_stride + np.arange(inner)[None, :] * inner_stride).ravel()

    def _lane_addresses(self, f):
        return self._loop(f["lane_address"], f["outer"], f["inner"], f["outer_stride"], f["inner_stride"])

    def _load(self, f):
        memory, addresses = self.lanes[Memory(f["memory"])], self._lane_addresses(f)
        for number, group in enumerate(self.groups):
            source = self.groups[f["group"] - 1] if f["group"] else group
            address = f["address"] + number * f["group_stride"]
            if not f["compressed"]:
                memory[group, addresses] = self.windows[source, self._vectors(f | {"address": address})]
                continue
            for channel, lanes in zip(range(source.start, source.stop), memory[group], strict=True):
                values = self._decoded(channel, address, addresses.size * self.config.lanes, bool(f["bf16"]))
                lanes.view(np.uint32)[addresses] = values.view(np.uint32).reshape(-1, self.config.lanes)
        if not f["compressed"]:
            self._count(f, f["outer"])

    def _load_rows(self, f):
        """Rows that are left out become NaN: nothing may read them."""
        config, lane = self.config, self._lane_addresses(f).reshape(f["outer"], f["inner"])
        values = self.windows[:, self._vectors(f)].reshape(config.channels, *lane.shape, config.lanes)
        needed, row, of_lane = np.zeros(f["outer"], bool), 0, rows_of_a_lane(f)
        for channel, tile, lanes in blocks_of(f):
            vector, rows = f["map"] // config.vector_beats + of_lane * tile, of_lane * lanes
            for group in self.groups:
                block = self.windows[group][channel, vector : vector + of_lane, :lanes]
                needed[row : row + rows] |= block.T.reshape(-1) != 0
            row += rows
        assert row == f["outer"], f"blocks of {row} rows, {f['outer']} are to be loaded"
        self.rows_seen, self.rows_left_out = self.rows_seen + row, self.rows_left_out + row - needed.sum()
        self._count(f, needed.sum())
        self.lanes[Memory(f["memory"])][:, lane] = np.where(needed[:, None, None], values, np.float32(np.nan))

    def _count(self, f, rows):
        if f["kind"] == Traffic.WEIGHTS:
            self.weight_bytes += int(rows) * f["inner"] * self.windows[:, 0].nbytes

    def _decoded(self, channel, index, elements, bf16):
        """The elements of the stream whose index is at beat `index`."""
        beats = self._beats()[channel]
        found = beats[index, : len(contract.STREAM_INDEX)]
        start, length, _, kept = map(int, found)
        expected = codec.index_words(start, length, elements, kept, index)
        assert np.array_equal(found, expected), f"an index of {found}, expected {expected}"
        values = codec.decode(beats[start : start + length].reshape(-1), elements, bf16, self.config.beat_words)
        assert np.count_nonzero(values) == kept, f"{np.count_nonzero(values)} elements kept, the index says {kept}"
        return values

    def _store(self, f):
        memory, addresses = self.lanes[Memory(f["memory"])], self._lane_addresses(f)
        if not f["compressed"]:
            self.windows[:, self._vectors(f)] = memory[:, addresses]
            return
        threshold = float(self.parameters[f["threshold"]])
        for lanes, beats, positions in zip(memory, self._beats(), self._positions, strict=True):
            values = lanes[addresses].reshape(-1)
            words = codec.encode(values, threshold, bool(f["bf16"]), self.config.beat_words)
            words = words.reshape(-1, self.config.beat_words)
            start = f["start"] if f["first"] else positions[f["log"]]
            end = positions[f["log"]] = start + len(words)
            if end > f["end"]:
                raise OverflowError(f"log {f['log']} ends at beat {f['end']}, a stream at {end}")
            beats[start:end] = words
            kept = codec.kept_by_block(values, threshold).sum()
            beats[f["address"]] = 0
            index = codec.index_words(start, end - start, values.size, kept, f["address"])
            beats[f["address"], : len(contract.STREAM_INDEX)] = index

    def _beats(self):
        """The windows, word by word: uint32, (channels, beats, words of a beat)."""
        return self.windows.view(np.uint32).reshape(self.config.channels, -1, self.config.beat_words)

    def _transpose(self, f):
        config, scratch = self.config, self.lanes[Memory.SCRATCH]
        for group in self.groups:
            every = self.windows[group]
            for q, lane, n in np.ndindex(f["outer"], f["lanes"], group.stop - group.start):
                target = n if f["target"] == OWN_WINDOW else f["target"]
                beats = every[target].reshape(-1, config.beat_words)
                beat = f["address"] + q * f["outer_beats"] + lane * f["lane_beats"] + n * f["channel_beats"]
                beats[beat : beat + ceil_div(f["rows"], config.beat_words)] = 0
                for i in range(f["rows"]):
                    vector = f["lane_address"] + q * f["outer_stride"] + i * f["inner_stride"]
                    beats[beat + i // config.beat_words, i % config.beat_words] = scratch[group][n, vector, lane]

    def _vector(self, f):
        assert f["b_source"] != Source.SUMS, "operand b is never a partial sum"
        scratch = self.lanes[Memory.SCRATCH]
        addresses = {
            name: self._loop(f[name], f["outer"], f["inner"], f[f"{name}_outer"], f[f"{name}_inner"]) for name in "abd"
        }
        runs = range(f["outer"]) if f["serial"] else [slice(None)]
        for run in runs:
            part = slice(run * f["inner"], (run + 1) * f["inner"]) if f["serial"] else run
            values = []
            for name in "ab":
                source = Source(f[f"{name}_source"])
                if source == Source.PARAMETER:
                    values.append(self.parameters[f[name]])
                else:
                    memory = Memory.SCRATCH if source == Source.SCRATCH else Memory.SUMS
                    values.append(self.lanes[memory][:, addresses[name][part]])
            d, op = addresses["d"][part], VectorOp(f["op"])
            if op == VectorOp.NOTED_DIGITS:
                self._note(*values, f["bits"])
            if op in OF_BYTES:
                assert f["d_inner"] == 0 and f["inner"] <= 4, "bytes of one word have other places"
                d = d[:: f["inner"]]
                made = self._bytes(op, *values, f["bits"]).reshape(len(scratch), f["outer"], f["inner"], -1)
                shifts = 8 * np.arange(f["inner"], dtype=np.uint32)[:, None]
                scratch.view(np.uint32)[:, d] = np.bitwise_or.reduce(made << shifts, axis=2)
                continue
            assert len(set(d)) == len(d), "a destination is written twice"
            if op in self._noted:
                added = values[0].view(np.int32) if op == VectorOp.NOTED_SUM else np.int32(0)
                scratch.view(np.int32)[:, d] = added + self._take_noted(op).astype(np.int32)[:, None]
                continue
            if op in OPS_OF_INTEGERS:
                places = 8 * (np.resize(np.arange(f["inner"], dtype=np.uint32), len(d)) % 4)[:, None]
                scratch.view(np.uint32)[:, d] = integer_operation(op, *values, f["bits"], places)
            else:
                scratch[:, d] = float_operation(op, *values, scratch[:, d], self.parameters[f["bits"]])

    def _bytes(self, op, a, b, bits):
        """Give the bytes of a's integers, or of their digits."""
        numbers = integer_operation(VectorOp.QUANTISE, a, b, bits).view(np.int32)
        if op == VectorOp.BYTES:
            return numbers.view(np.uint32) & 0xFF
        numbers = np.where(np.abs(a) < self.parameters[contract.PARAMETER_DELTA_THRESHOLD], 0, numbers)
        lower = np.where(np.abs(numbers) >= 128, (numbers + 64) % 128 - 64, numbers)
        return ((numbers - lower) >> 7 if op == VectorOp.UPPER_DIGITS else lower).astype(np.uint32) & 0xFF

    def _note(self, a, b, bits):
        """Note the largest exponents of what is quantised, how much is clamped, and the sums."""
        places = (b.view(np.uint32).astype(np.int64) + 512) % 1024 - 512
        powers = np.where(a == 0, NOTHING_NOTED, exponent_of(np.abs(a)) + places)
        largest, clamped, total = self._noted.values()
        np.maximum(largest, powers.max(axis=1), out=largest)
        rounded = np.rint(np.ldexp(a.astype(np.float64), places))
        clamped += (np.abs(rounded) > largest_mantissa(bits)).sum(axis=1)
        total += integer_operation(VectorOp.QUANTISE, a, b, bits).view(np.int32).sum(axis=1, dtype=np.int64)

    def _take_noted(self, op):
        taken = self._noted[op].copy()
        self._noted[op][:] = NOTHING_NOTED if op == VectorOp.NOTED_EXPONENT else 0
        return taken

    def _scalars(self, f, group):
        """Give the nonzero scalars of a CAST in a group, and where they go.

        Returns
        -------
        values : array, float32, (N,)
            In the order in which they are sent.
        rows, columns : arrays of integers, (N,)
            Offset of each scalar's first vector of weights, and of sums.
        end : int
            The inner index behind the last one of the CAST.
        """
        values, rows, columns, outer, first, end = [], [], [], 0, f["first_sum"], 0
        row_vectors = ceil_div(f["tiles"], 2) if f["narrow"] else f["tiles"]
        for block in range(f["blocks"]):
            place = f["tile"] + block
            channel, tile = f["channel"] + place // f["tiles_per_channel"], place % f["tiles_per_channel"]
            lanes = f["last_lanes" if tile == f["tiles_per_channel"] - 1 else "lanes"]
            words = self._block(f, group.start + channel, tile).reshape(f["gates"], f["batch"], -1)
            table = words[:, :, f["lane"] : f["lane"] + lanes].transpose(2, 0, 1).reshape(-1, f["batch"])
            if f["batch_outer"]:
                table = table.T
            row, column = np.nonzero(table)
            values.append(table[row, column])
            rows.append((outer + row) * row_vectors)
            columns.append((first + column) * f["tiles"])
            outer, end = outer + len(table), max(end, first + table.shape[1])
        return *map(np.concatenate, (values, rows, columns)), end

    def _block(self, f, channel, tile):
        """The words of a block of a CAST or a SEND."""
        beats, size = self.config.vector_beats, f["gates"] * f["batch"]
        if f.get("compressed"):
            return self._decoded(channel, f["address"] + tile * beats, size * self.config.lanes, False)
        start = f["address"] // beats + tile * size
        return self.windows[channel, start : start + size]

    def _cast(self, f):
        self._pending = (f, [self._scalars(f, group) for group in self.groups])

    def _mac(self, f):
        cast, sent = self._pending
        assert cast["tiles"] == f["tiles"], "CAST and MAC disagree"
        if cast["start"]:
            self._begin()
        self._sums = max([self._sums, *(end for *_, end in sent)])
        for group, begun, (*scalars, _) in zip(self.groups, self._begun, sent, strict=True):
            self._accumulate(f, cast, group, begun, *scalars)

    def _begin(self):
        """Note that no sum has a term yet."""
        self._begun, self._sums = [np.zeros(self.config.queue_depth, bool) for _ in self.groups], 0

    def _accumulate(self, f, cast, group, begun, scalars, rows, columns):
        """A MAC in a group, in which the sums at the inner offsets ``begun`` have a term already."""
        sums, tiles = self.lanes[Memory.SUMS][group, f["sums"] :], f["tiles"]
        biased, size = f["start"] == Start.BIAS, (len(sums), tiles, self.config.lanes)
        bias = self.lanes[Memory.BIAS][group, f["bias"] : f["bias"] + tiles] if biased else np.zeros(size, np.float32)
        begin = bias if biased else np.full(size, MINUS_ZERO)
        end = rows.max(initial=0) + (ceil_div(tiles, 2) if cast["narrow"] else tiles)
        weights = self.lanes[Memory.WEIGHTS][group, f["weights"] :][:, :end]
        assert end == weights.shape[1] and columns.max(initial=0) + tiles <= sums.shape[1], "beyond a memory's end"
        assert begin.shape == size, "beyond the biases' end"
        if cast["narrow"]:
            halves = np.stack(codec.unpack_bf16(weights), axis=2)
            weights, rows = halves.reshape(len(sums), -1, self.config.lanes), 2 * rows
        accumulate(sums, begun, begin, weights, scalars, rows, columns)
        if cast["finish"]:
            for inner in range(0, self._sums * tiles, tiles):
                if not begun[inner]:
                    sums[:, inner : inner + tiles] = bias

    def _send(self, f):
        """Keep each group's array of integers for their product; others may be sent before that."""
        self._sent.append((f, [self._integers(f, group.start) for group in self.groups]))

    def _integers(self, f, first_channel):
        """The integers that a SEND sends in the group of a channel, (sequences, elements)."""
        config, blocks, planes, size = self.config, [], 1 + f["wide"], f["batch"]
        for block in range(f["blocks"]):
            place = f["tile"] + block
            channel, tile = f["channel"] + place // f["tiles_per_channel"], place % f["tiles_per_channel"]
            found = self._block(f | {"gates": planes}, first_channel + channel, tile)
            words = np.ascontiguousarray(found).view(np.int8)
            each = words.reshape(planes, size, config.lanes, 4).swapaxes(2, 3).astype(np.int64)
            assert each.min(initial=0) > -128, "a digit of -128"
            blocks.append(each[-1] + 128 * each[0] if f["wide"] else each[0])
        lines = len(blocks) * planes * config.vector_beats * f["own"]
        assert lines <= config.broadcast_words // config.beat_words, "an array that is too large to be sent"
        assert f["own"] * config.integer_streams >= size, "sequences that no stream sends"
        return np.stack(blocks, axis=1).reshape(size, -1)

    def _product(self, f):
        sent, arrays = self._sent.popleft()
        for group, array in zip(self.groups, arrays, strict=True):
            self._multiply(f, sent, group, array)

    def _multiply(self, f, sent, group, array):
        """A PRODUCT in a group."""
        config, tile, of_row = self.config, self.config.tile_sums, self.config.row_vectors
        assert f["weights"] % of_row == 0, "misplaced weights"
        assert f["sums"] % tile == 0, "misplaced sums"
        words = self.lanes[Memory.WEIGHTS].view(np.int8).reshape(config.channels, -1, of_row, config.lanes, 4)
        weights = words.transpose(0, 1, 2, 4, 3).reshape(config.channels, -1, tile, config.lanes)
        of_streams = config.channels, config.integer_streams, -1, tile, config.lanes
        sums, own = self.lanes[Memory.SUMS].reshape(of_streams), sent["own"]
        for n in range(sent["repeats"]):
            row, first = f["weights"] // of_row + n * f["rows"], f["sums"] // tile + n * own
            rows = weights[group, row : row + array.shape[1]].astype(np.int64)
            assert rows.shape[1] == array.shape[1], "beyond the weights' end"
            assert first + own <= sums.shape[2], "beyond the sums' end"
            for stream in range(config.integer_streams):
                mine = array[stream * own : (stream + 1) * own]
                into = sums[group, stream, first : first + len(mine)]
                into[:] = np.einsum("bk,ckvl->cbvl", mine, rows) + (into if f["adds"] else 0)
