"""Programs of the weights' gradients with integers."""

from functools import partial
from itertools import count, product

from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.integers.products import Broadcast, Columns, Multiplier, OperandGroup, Share, sent_early, take_sums
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import OPERANDS, Constant, IntegerArrays
from etalstm.plan.memory.memory_map import Array
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.tiling import Span, ceil_div, cut, spans
from etalstm.plan.passes.propagation import Emit, emit_all
from etalstm.plan.passes.vectors import NO_STEPS, ZERO, Steps, add_squares
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp
from etalstm_hw.contract.integers import WORD_BYTES

_COPIED = 2  # buffers for what is copied: one loads, one is stored
_FAR_LONGER = 8  # times
_FINISHED = 3  # buffers for gradients that get their exponent: one loads, one is worked on, one is stored


class IntegerGradientLayer:
    """Emits one layer's dW, after its δ of all steps are in memory.

    The owners of columns sum them: δ of a run of rows is sent with all steps and sequences, and multiplied by the
    integers of x or of the other operand. The sums, as float32, go to the owners of the rows. These then give each row
    its exponent, and sum the squares of each row, columns in ascending order: :meth:`finish`. Where the host wants the
    sums, their low words go to the owners of the rows, too. A program of its own finishes what the host has written.

    A group of channels sums the rows of its shard, over the sequences of all groups. It first copies what others have
    of δ of these rows, as only a group's own memory can be sent. x and the other operand are read where they are.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps = NO_STEPS
    ):
        arrays = layer.integers
        assert arrays, "a layer with integers has arrays for them"
        self._config, self._emitter, self._network, self._layer = config, emitter, network, layer
        self._arrays: IntegerArrays = arrays
        self._runs = _runs([step for step in range(network.steps) if step not in skipped])
        self._multiplier, self._turn = Multiplier(config, emitter), 0
        low_words = self._arrays.low_words
        self._given = [(VectorOp.CONVERT, layer.gradient)] + ([(VectorOp.ADD_INTEGERS, low_words)] if low_words else [])

    def emit(self) -> None:
        """Append the layer's instructions; gradients and norms are left in memory, or the sums for the host."""
        tiling, config = self._arrays.tiling, self._config
        if tiling.parts > 1:
            self._gather()
            self._total_biases()
        scratch, most = Scratch(config), max(run.count for run in tiling.row_runs) * config.lanes  # rows at a time
        slots = min(2 * config.tile_sums, scratch.left // most)
        self._results, self._next = [scratch.take("gradients", most) for _ in range(slots)], 0
        places = [(name, group) for name in OPERANDS for group in range(tiling.groups_of(name))]
        tiles = self._share_memory(config.tile_sums * config.of_stream(most), most, len(places))
        for some in cut(len(places), tiles * config.row_vectors):
            self._sum_columns(places[some.first : some.first + some.count])
        if self._arrays.low_words is None:
            self.finish()

    def _share_memory(self, of_tile: int, rows: int, groups: int) -> int:
        """Choose how much of the sums' memory a run of rows has; give the tiles of columns that it is summed for.

        In halves, the sums of a run are given away while those of the next one are made. But where more tiles have room
        at once, δ is sent less often. That is worth the wait where a run's columns take far longer to load.
        """
        depth, of_row = self._config.queue_depth, self._config.row_vectors
        in_half, in_all = (max(1, most // of_tile) for most in (depth // 2, depth))
        loaded, given = self._network.batch.batch * sum(map(len, self._runs)), 2 * WORD_BYTES * rows  # of a group
        is_far_longer = loaded > _FAR_LONGER * given
        whole = is_far_longer and ceil_div(groups, in_all * of_row) < ceil_div(groups, in_half * of_row)
        self._areas, tiles = (1, in_all) if whole else (2, in_half)
        self._area = depth // self._areas
        return tiles

    def _gather(self) -> None:
        """Copy the shard's δ of all parts of the batch to where it is sent from."""
        emitter, transposed, gathered = self._emitter, self._arrays.transposed, self._arrays.gathered
        scratch, room = Scratch(self._config), self._config.scratch_depth // _COPIED
        buffers = [scratch.take("δ of all parts", room) for _ in range(_COPIED)]
        for run, part in product(range(len(self._arrays.tiling.row_runs)), range(self._arrays.tiling.parts)):
            source, to = transposed.at(run, 0, 0), gathered.at(run, part, 0, 0)

            def some(turn: int, count: int, part: int = part, source: Location = source, to: Location = to) -> None:
                buffer, kind = buffers[turn % _COPIED], Traffic.DELTAS
                stride = transposed.shard_vectors
                emitter.load(buffer, source.at(turn * room), kind, 1, count, group=part, group_stride=stride)
                emitter.store(buffer, to.at(turn * room), kind, 1, count)

            emitter.in_turns(transposed.vectors(run), room, some)

    def _total_biases(self) -> None:
        """Add db of all parts of the batch, which are integers. Unless the host wants the sums, give db exponents."""
        emitter, scratch, rows = self._emitter, Scratch(self._config), self._arrays.tiling.rows
        total, term = (scratch.take(name, rows) for name in ("the bias gradients", "those of a part"))
        for part in range(self._arrays.tiling.parts):
            emitter.load(term if part else total, Location(self._layer.db, 0), Traffic.WEIGHTS, 1, rows, group=part)
            if part:
                emitter.vector(VectorOp.ADD_INTEGERS, total, total, term, inner=rows)
        if self._arrays.low_words is None:
            exponents = Exponents(emitter, scratch, self._arrays)
            of_bias = exponents.take()
            exponents.begin()
            exponents.with_rows(of_bias, Constant.BIAS, minus=True)
            emitter.vector(VectorOp.CONVERT, total, total, of_bias, inner=rows)
        emitter.store(total, Location(self._layer.bias_gradient, 0), Traffic.WEIGHTS, 1, rows)

    def _sum_columns(self, places: list[tuple[str, int]]) -> None:
        """Sum dW of some groups of columns: of as many runs of rows at a time as an area of the sums' memory holds.

        They share loads of columns. With two areas, sums are given away while those of the next runs are made.
        """
        tiling = self._arrays.tiling
        columns = Columns(tuple(OperandGroup(self._arrays, *place) for place in places))
        self._multiplier = Multiplier(self._config, self._emitter)
        if self._multiplier.fits(columns):
            self._multiplier.keep(columns, Traffic.ACTIVATIONS)
        emits, left = list[Emit](), list[Emit]()
        runs = list(product(range(tiling.units.channels), range(len(tiling.row_runs))))
        of_run = ceil_div(len(places), self._config.row_vectors) * self._multiplier.of_tile(self._rows(0))
        for some in cut(len(runs), max(1, self._area // of_run)):
            area = Operand(Memory.SUMS, self._area * (self._turn % self._areas))
            self._turn += 1
            sums = {run: area.at(n * of_run) for n, run in enumerate(runs[some.first : some.first + some.count])}
            if self._areas == 1:
                emits, left = emits + left, []
            emits += self._sum(sums, columns) + left
            left = [partial(self._give_all, *run, places, of_one) for run, of_one in sums.items()]
        emit_all(sent_early(emits + left))

    def _rows(self, number: int) -> int:
        """Give the rows of a run; no run has more than the first one."""
        return self._arrays.tiling.row_runs[number].count * self._config.lanes

    def _sum(self, sums: dict[tuple[int, int], Operand], columns: Columns) -> list[Emit]:
        """Give what sums dW of some groups of columns and some runs, each a channel and the number of a run of rows."""
        tiling, gathered, products = self._arrays.tiling, self._arrays.gathered, list[Emit]()
        for part, steps in product(range(tiling.parts), self._runs):
            blocks, kinds = len(steps) * tiling.pair_blocks, (Traffic.DELTAS, Traffic.ACTIVATIONS)
            shares = [
                Share(
                    Broadcast(
                        gathered.at(number, part, steps.start, 0), channel, blocks, blocks, self._rows(number), True,
                        *kinds,
                    ),
                    of_run,
                )
                for (channel, number), of_run in sums.items()
            ]  # fmt: skip
            of_steps = Columns(columns.groups, (part * tiling.steps + steps.start) * tiling.pair_blocks * tiling.block)
            adds = bool(products)
            products += self._multiplier.multiply(shares, of_steps, adds=adds, backward=True)
        return products

    def _give_all(self, channel: int, number: int, places: list[tuple[str, int]], sums: Operand) -> None:
        """Convert these sums, and give them to the rows' owner, with their low words if the host wants these."""
        tiling, rows = self._arrays.tiling, self._rows(number)
        tile, of_tile = self._config.tile_sums, self._multiplier.of_tile(rows)
        for position, (operand, group) in enumerate(places):
            first = WORD_BYTES * group
            for place in range(min(WORD_BYTES, tiling.columns_of(operand).tiles - first)):
                of_tiles, inside = divmod(WORD_BYTES * position + place, tile)
                source = sums.at(of_tiles * of_tile + inside)
                for op, array in self._given:
                    to = array, operand, channel, tiling.row_runs[number], first + place
                    self._give(*to, self._taken(op, source, rows))

    def _taken(self, op: VectorOp, sums: Operand, rows: int) -> Operand:
        """Do an operation with 0 on the sums of a vector of columns; without a step there are none."""
        result = self._results[self._next % len(self._results)]
        self._next += 1
        if self._runs:
            take_sums(self._emitter, self._config, op, result, sums, ZERO, 1, rows)
        else:
            self._emitter.vector(VectorOp.MULTIPLY, result, ZERO, ZERO, inner=rows)
        return result.at(0, outer=self._config.lanes)

    def _give(self, to: Array, operand: str, channel: int, run: Span, column: int, source: Operand) -> None:
        """Transpose a tile of columns into an array in the window of the rows' owner, [column][row]."""
        tiling, beats = self._arrays.tiling, self._config.vector_beats
        partition = tiling.columns_of(operand)
        before = 0 if operand == "x" else tiling.inputs.padded
        rows = tiling.shard_rows
        vector = (before + column * partition.lanes) * rows + run.first
        self._emitter.transpose(
            source, Location(to, vector), gates=run.count, target=channel, beat=0,
            rows=self._config.lanes, lanes=partition.lanes_of(column), outer_beats=beats,
            lane_beats=rows * beats, channel_beats=partition.per_channel * rows * beats, read_here=True,
        )  # fmt: skip

    def finish(self) -> None:
        """Append what gives the gradients their exponents, and adds up their squares; norms are left in memory."""
        tiling, scratch, emitter = self._arrays.tiling, Scratch(self._config), self._emitter
        exponents, rows = Exponents(emitter, scratch, self._arrays, shard=True), tiling.shard_rows
        norms, of_operand = (scratch.take(name, rows) for name in ("norms", "exponents"))
        exponents.begin()
        emitter.join_parts()  # what follows touches the gradients some columns at a time
        emitter.vector(VectorOp.MULTIPLY, norms, ZERO, ZERO, inner=rows)
        most = max(1, scratch.left // (_FINISHED * rows))
        sets = [scratch.take("gradients", most * rows) for _ in range(min(_FINISHED, scratch.left // (most * rows)))]
        first, turn = 0, 0
        for operand, constant in zip(OPERANDS, (Constant.GRADIENT_X, Constant.GRADIENT_H), strict=True):
            exponents.with_rows(of_operand, constant, minus=True)
            count = tiling.columns_of(operand).padded
            for span in spans(count, most):
                values = sets[turn % len(sets)]
                turn += 1
                self._finish_columns(first + span.first, span.count, values, of_operand, norms)
            first += count
        emitter.store(norms, Location(self._layer.norms, 0), Traffic.WEIGHTS, 1, rows)

    def _finish_columns(self, first: int, count: int, values: Operand, exponents: Operand, norms: Operand) -> None:
        emitter, rows = self._emitter, self._arrays.tiling.shard_rows
        location = Location(self._layer.gradient, first * rows, (first,))
        emitter.load(values, location, Traffic.WEIGHTS, 1, count * rows, everyone=True)
        each = values.at(0, outer=rows)
        emitter.vector(VectorOp.SCALE, each, each, exponents.at(0, outer=0), outer=count, inner=rows)
        emitter.store(values, location, Traffic.WEIGHTS, 1, count * rows)
        add_squares(emitter, norms, values, count, rows)


def _runs(steps: list[int]) -> list[range]:
    """Give ascending steps as runs of steps that follow each other."""
    starts = [step for step in steps if step - 1 not in steps]
    return [range(start, next(step for step in count(start) if step not in steps)) for start in starts]
