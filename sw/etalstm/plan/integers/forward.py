"""Programs of the forward pass with integers."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product, zip_longest
from typing import Any

from etalstm.plan.integers.exponents import Exponents
from etalstm.plan.integers.products import (
    Broadcast,
    Columns,
    Multiplier,
    Share,
    WeightGroup,
    convert,
    sent_early,
    take_sums,
)
from etalstm.plan.integers.send import ChangeSender, make_bytes
from etalstm.plan.integers.tokens import IntegerTokenSums
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import OPERANDS, Constant
from etalstm.plan.memory.integer_tiling import AREAS, ended_groups, most_earlier, sums_and_terms
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Scratch
from etalstm.plan.memory.sent import TURNS
from etalstm.plan.memory.tiling import Span, ceil_div, cut, spans
from etalstm.plan.passes.forward import ForwardLayer, ForwardStage, Job
from etalstm.plan.passes.propagation import Emit, emit_all
from etalstm.plan.passes.sums import ProductSums
from etalstm.plan.passes.vectors import ZERO, Elsewhere, Steps
from etalstm.plan.program.emit import Emitter
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp
from etalstm_hw.contract.integers import WORD_BYTES


class IntegerForwardStage(ForwardStage):
    """Emits the forward pass of a cell of one stage, with products of integers.

    In the network's first layer sums with x and with the other operand lie apart: each is converted with its own
    exponents. In those above they are one.

    Members
    -------
    most_tiles : int       batch tiles that share loads of weights at most
    sends_changes : bool   with delta inputs
    """

    def __init__(
        self, config: Config, emitter: Emitter, scratch: Scratch, network: NetworkMap,
        products: tuple[LayerArrays, ...], skipped: Steps, shares: bool, skips: bool,
    ):  # fmt: skip
        super().__init__(config, emitter, scratch, network, products, skipped, shares, skips)
        arrays = products[-1].integers
        assert arrays, "a layer with integers has arrays for them"
        self._arrays, tiling = arrays, arrays.tiling
        self._config, self._area = config, config.queue_depth // (AREAS // len(OPERANDS) * len(arrays.of_sums))
        most = self.gates * max(span.count for span in self.tiling.unit_spans) * network.batch.size
        self.sends_changes = bool(arrays.changes)
        of_layer = self.gates, self.tiling.units, self.tiling.unit_spans
        of_both = sums_and_terms(*of_layer, sends=self.sends_changes) * network.batch.size
        self._z = scratch.take("sums and terms", of_both)
        self._terms = self._z.at(most)
        self._bias = scratch.take("bias", tiling.rows)
        self._exponents = Exponents(emitter, scratch, arrays)
        self._of = {name: self._exponents.take() for name in ("x", "h")}
        self._multiplier = Multiplier(config, emitter)
        self._tokens: IntegerTokenSums | None = None
        if shares and arrays.tokens:
            of_x = {span: self._columns("x", span) for span in self.tiling.unit_spans}
            memory = self._z, self._terms, self._vectors.array(self._stage.gates[0])
            self._tokens = IntegerTokenSums(config, emitter, scratch, arrays, of_x, *memory)
        self._matrices = [self._columns(name, span) for name in ("h", "x") for span in self.tiling.unit_spans]
        self._stays = self._multiplier.fits(*self._matrices)
        self._changes: ChangeSender | None = None
        if self.sends_changes:
            sends = network, self._layer.number, self._exponents, self._z, self._mask
            self._changes = ChangeSender(emitter, scratch, *sends)
        self.most_tiles = self._count_tiles(network)

    def _count_tiles(self, network: NetworkMap) -> int:
        """As many as an area of sums holds. Some others, or another span of units, are worked on meanwhile."""
        batch, unit_spans = network.batch, self.tiling.unit_spans
        if self._stays or batch.count == 1:
            return 1
        fits = self._area // self._sums_of_span(max(span.count for span in unit_spans), batch.size)
        return max(1, min(fits, batch.count if len(unit_spans) > 1 else ceil_div(batch.count, 2)))

    def _sums_of_span(self, count: int, sequences: int) -> int:
        """Vectors of the sums of so many tiles of units in a stream, with one operand."""
        return ceil_div(self.gates * count, self._config.tile_sums) * self._multiplier.of_tile(sequences)

    def place(self, span: Span, position: int) -> int:
        """Give where the sums of a batch tile begin, of those that share loads."""
        return position * self._sums_of_span(span.count, self._network.batch.size)

    def _make_sums(
        self, config: Config, products: tuple[LayerArrays, ...], shares: bool, skips: bool
    ) -> list[ProductSums]:
        return []  # an operand's sums are made one after the other

    def begin(self) -> None:
        """Bring bias and exponents; of the weights what there is room for."""
        self._exponents.begin()
        for name, constant in (("x", Constant.X), ("h", Constant.H)):
            self._exponents.with_rows(self._of[name], constant)
        rows = self._arrays.tiling.rows
        self._emitter.load(self._bias, Location(self._layer.bias, 0), Traffic.WEIGHTS, 1, rows)
        if self._tokens:
            self._tokens.emit()
        for columns in self._matrices if self._stays else []:
            self._multiplier.keep(columns)

    def _columns(self, operand: str, span: Span) -> Columns:
        """Give the weights of a span's rows: a group is those of a tile of units."""
        packed = self._tokens.matrix if self._tokens and operand == "x" else self._arrays.rows[operand]
        return Columns(tuple(WeightGroup(packed, tile) for tile in range(span.first, span.first + span.count)))

    def _areas(self, job: Job) -> dict[str, Operand]:
        """Give where the sums of a job with each operand lie."""
        return {"x": job.operand, "h": job.operand if self._arrays.together else job.operand.at(self._area)}

    def of_inputs(self, jobs: Sequence[Job]) -> list[Emit]:
        """Give what sums the products with x of jobs that share loads."""
        return self._sum("x", jobs)

    def of_state(self, jobs: Sequence[Job]) -> list[Emit]:
        """Give what sums the products with the other operand."""
        return self._sum("h", jobs, adds=self._arrays.together)

    def sum_inputs(self, job: Job) -> None:
        """Sum the products with x."""
        emit_all(self.of_inputs([job]))

    def _array(self, operand: str, job: Job) -> Broadcast:
        if self._tokens and operand == "x":
            return self._tokens.array(job.step, job.batch_tile, job.size)
        numbers, tiling, changes = self._arrays.operands[operand], self._arrays.tiling, self._arrays.changes
        location, groups = numbers.digits.at(job.step + numbers.first, job.batch_tile), tiling.groups_of(operand)
        if changes:
            location = changes[operand].at(job.step, job.batch_tile)
        blocks = tiling.columns_of(operand).channels * groups
        return Broadcast(location, 0, groups, blocks, job.size, bool(changes), Traffic.ACTIVATIONS)

    def _sum(self, operand: str, jobs: Sequence[Job], *, adds: bool = False) -> list[Emit]:
        shares = [Share(self._array(operand, job), self._areas(job)[operand]) for job in jobs]
        return self._multiplier.multiply(shares, self._columns(operand, jobs[0].span), adds=adds)

    @property
    def _brings_ahead(self) -> bool:
        return True  # behind the weights of the sums that follow the cells would be late

    def _sums_of(self, job: Job) -> Elsewhere:
        """Convert the sums, and add them to the bias."""
        size, rows, first = job.size, job.row_tiles, self.gates * job.span.first
        bias, z = self._bias.at(first, outer=1, inner=0), self._z.at(0, outer=size)
        for number, name in enumerate(self._arrays.of_sums):
            area = self._areas(job)[name]
            terms = self._add_changes(name, area, job) if self.sends_changes else self._convert(name, area, job)
            self._emitter.vector(
                VectorOp.ADD, z, terms.at(0, outer=size), z if number else bias, outer=rows, inner=size
            )
        names = self._stage.sums
        return {name: self._z.at(gate * size, outer=self.gates * size) for gate, name in enumerate(names)}

    def _convert(self, name: str, sums: Operand, job: Job) -> Operand:
        """Convert a job's sums, tile by tile; give where they are."""
        exponents = self._of[name].at(self.gates * job.span.first)
        for some, of_tile in self._tiles_of(sums, job.row_tiles, job.size):
            to, of_rows = self._terms.at(some.first * job.size), exponents.at(some.first)
            convert(self._emitter, self._config, to, of_tile, of_rows, some.count, job.size)
        return self._terms

    def _tiles_of(self, sums: Operand, rows: int, size: int) -> Iterator[tuple[Span, Operand]]:
        """Cut vectors of rows into those of the tiles of their sums."""
        for number, some in enumerate(cut(rows, self._config.tile_sums)):
            yield some, sums.at(number * self._multiplier.of_tile(size))

    def _add_changes(self, name: str, sums: Operand, job: Job) -> Operand:
        """Add the sums of changes to those that the step before has left; store and convert these.

        Gives where they are then: those that come first where the gates' sums will be.
        """
        emitter, size, rows, first = self._emitter, job.size, job.row_tiles, self.gates * job.span.first
        total, converted = self._totals[name]
        for some, of_tile in self._tiles_of(sums, rows, size):
            to = total.at(some.first * size, outer=size)
            before = ZERO if self._refreshes(job.step) else to
            context = emitter, self._config, VectorOp.ADD_INTEGERS
            take_sums(*context, to, of_tile, before, some.count, size)
        if job.step + 1 < self._network.steps:
            location = self._arrays.changes[name].sums.at(0, job.batch_tile, first)
            emitter.store(total, location, Traffic.INTERMEDIATES, 1, rows * size)
        terms, integers = (operand.at(0, outer=size) for operand in (converted, total))
        exponents = self._of[name].at(first, outer=1, inner=0)
        emitter.vector(VectorOp.CONVERT, terms, integers, exponents, outer=rows, inner=size)
        return converted

    @property
    def _totals(self) -> dict[str, tuple[Operand, Operand]]:
        """Give where the integers of all steps' sums are, and where they are converted to.

        The second ones are where the gates will be: these are computed after the sums.
        """
        places = (self._terms, self._z), (self._vectors.array(self._stage.gates[0]), self._terms)
        return dict(zip(self._arrays.of_sums, places, strict=False))

    def _bring_sums(self, job: Job) -> None:
        """Have also the outputs of earlier spans that share words with these, and what was last sent."""
        ended = self._ended(job)
        if ended.span.count:
            self._bring_earlier(job, ended.span.first)
            if self._changes:
                self._changes.bring(ended)
        for name, (total, _) in () if self._refreshes(job.step) else self._totals.items():
            location = self._arrays.changes[name].sums.at(0, job.batch_tile, self.gates * job.span.first)
            self._emitter.load(total, location, Traffic.INTERMEDIATES, 1, job.row_tiles * job.size)

    def _bring_earlier(self, job: Job, first: int) -> None:
        """Have the outputs of the tiles from `first` on that spans before this one have computed."""
        if vectors := (job.span.first - first) * job.size:
            (outputs,) = self._layer.outputs
            location = outputs.at(job.step + 1, job.batch_tile, first)
            self._emitter.load(self._output_of(job, first), location, Traffic.ACTIVATIONS, 1, vectors)

    def cells(self, job: Job) -> None:
        """Compute the cells; then store the words of bytes that they complete, each of four tiles."""
        super().cells(job)
        ended = self._ended(job)
        output, span, size = self._output_of(job, ended.span.first), ended.span, job.size
        if not span.count:
            return
        if self._changes:
            self._changes.send(ended, output)
            return
        places = self._exponents.constant(Constant.PLACES)
        make_bytes(self._emitter, VectorOp.BYTES, self._terms, output, places, ended)
        location = self._arrays.output.digits.at(job.step + 1, job.batch_tile, span.first // WORD_BYTES)
        groups = ceil_div(span.count, WORD_BYTES)
        self._emitter.store(self._terms, location, Traffic.ACTIVATIONS, 1, groups * size)

    def _ended(self, job: Job) -> Job:
        """Give a job of the groups that end in a job's span."""
        return replace(job, span=ended_groups(job.span, self.tiling.units.tiles))

    def _output_of(self, job: Job, tile: int) -> Operand:
        """Give where the output of a job lies from a tile on. Tiles of earlier spans lie in front of its own."""
        return self._vectors.array(self._cell.output).at((tile - job.span.first) * job.size)

    @property
    def _free(self) -> dict[str, int]:
        return {self._cell.output: most_earlier(self.tiling.unit_spans) * self._network.batch.size}


Shared = tuple[Job, ...]  # jobs of one span and of batch tiles that follow each other, which share loads of weights


class IntegerForwardLayer(ForwardLayer):
    """Emits one layer's forward pass with integers.

    While the cells of some jobs are computed, the sums of those that follow are made, all that wait for no cell of
    these: a piece of the products comes before each job's cells.
    """

    @staticmethod
    def _make_stage(*arguments: Any) -> ForwardStage:
        return IntegerForwardStage(*arguments)

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps."""
        if steps.start:
            for stage in self._stages:
                stage.begin()
        super().emit(steps)

    @property
    def _period(self) -> int:
        return TURNS if self._stage.sends_changes else 1

    def _begin(self, step: int) -> None:
        first = self._shared(step)[0]
        emit_all(self._early(first))

    def _early(self, shared: Shared) -> list[Emit]:
        """Give the sums that are made before or beside the cells of the jobs before."""
        stage = self._stage
        return sent_early(stage.of_inputs(shared) + ([] if self._waits(shared) else stage.of_state(shared)))

    def _waits(self, shared: Shared) -> bool:
        """Tell whether the cells just before are the ones whose output is multiplied."""
        return shared[0].number == 0 and len(self._tiles) == 1

    def _step(self, step: int, following: range) -> None:
        """Emit a step; `following` is the one after it, if there is one."""
        every = self._shared(step)
        for present, ahead in zip_longest(every, [*every[1:], *[self._shared(after)[0] for after in following]]):
            if self._waits(present):
                emit_all(self._stage.of_state(present))
            products = self._early(ahead) if ahead else []
            for number, job in enumerate(present):
                job.stage.prepare(job)
                first, end = (count * len(products) // len(present) for count in (number, number + 1))
                emit_all(products[first:end])
                job.stage.cells(job)

    @property
    def _stage(self) -> IntegerForwardStage:
        (stage,) = self._stages
        assert isinstance(stage, IntegerForwardStage)
        return stage

    @property
    def _tiles(self) -> list[Span]:
        return spans(self._batch.count, self._stage.most_tiles)

    def _jobs(self, step: int) -> list[Job]:
        return [job for shared in self._shared(step) for job in shared]

    def _shared(self, step: int) -> list[Shared]:
        """Give the jobs of a step. Those that share loads alternate the halves of the memory of sums, across steps."""
        stage = self._stage
        pairs = list(product(self._tiles, enumerate(stage.tiling.unit_spans)))
        found = []
        for position, (tiles, (number, span)) in enumerate(pairs):
            half = (step * len(pairs) + position) % 2
            jobs = tuple(
                Job(
                    stage=stage, step=step, batch_tile=tiles.first + n, number=number, span=span,
                    size=self._batch.size_of(tiles.first + n), gates=stage.gates,
                    operand=Operand(Memory.SUMS, self._half * half + stage.place(span, n)), in_second_half=half == 1,
                )
                for n in range(tiles.count)
            )  # fmt: skip
            found.append(jobs)
        return found
