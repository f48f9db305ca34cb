"""Programs of the forward pass: a layer's stages and the order in which they work."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from etalstm.network.cells.cell import count_vectors
from etalstm.network.cells.operation import Operation, split_after
from etalstm.plan.memory.arrays import CellArrays, LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Location, Operand, Scratch, Sequence
from etalstm.plan.memory.sent import SENDING_ARRAYS, SentOperand
from etalstm.plan.passes.send import InputSender, Sender, Tiles
from etalstm.plan.passes.sums import ProductSums, Sums
from etalstm.plan.passes.vectors import NO_STEPS, ZERO, Elsewhere, Steps, Streams, Vectors
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.fold import loop_through
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory, Traffic, VectorOp


@dataclass(frozen=True, kw_only=True)
class Job(Sums):
    """The cells of one step, batch tile and span of units, in one of their stages, and the sums of all its gates.

    The sums of a product lie behind those of the products before it.
    """

    stage: "ForwardStage"
    step: int
    batch_tile: int

    def of_products(self) -> Iterator[Sums]:
        """Give the sums of each product."""
        first = 0
        for product in self.stage.products:
            gates = len(product.gates)
            sums = Sums(
                number=self.number, span=self.span, size=self.size, gates=gates, operand=self.operand.at(first),
                in_second_half=self.in_second_half,
            )  # fmt: skip
            yield sums
            first += sums.vectors


class ForwardStage:
    """Emits one stage's forward pass, piece by piece.

    `products` are the arrays of the stage's products; the last has the stage's own.

    Where a sequence has ended, its state keeps its value: the next step reads it again. Its output is 0,
    so that it costs no product in the next step, stage or layer.
    """

    def __init__(
        self, config: Config, emitter: Emitter, scratch: Scratch, network: NetworkMap,
        products: tuple[LayerArrays, ...], skipped: Steps, shares: bool, skips: bool,
    ):  # fmt: skip
        self._layer = layer = products[-1]
        self._last = layer if isinstance(layer, CellArrays) else None  # of the cell's stages
        self._emitter, self._network, self._skipped = emitter, network, skipped
        self._refreshes = layer.delta_inputs.refreshes
        self.tiling = tiling = layer.tiling
        self._sums_of_products = self._make_sums(config, products, shares, skips)
        self._cell, self._stage, self.products = layer.cell, layer.stage, layer.stage.products
        most = max(span.count for span in tiling.unit_spans) * network.batch.size
        self._vectors = Vectors(emitter, scratch, most, self._free)
        self._vectors.take(self._stage.forward_arrays)
        self._mask = scratch.take("the mask", network.batch.size)
        if layer.storage.compressed:
            self._vectors.take(self._stage.local_arrays)
            self._streams = Streams(emitter, network, layer)
        self._sender: Sender | None = None
        self.inputs: InputSender | None = None
        self._has_maps = any(sums.has_maps for sums in self._sums_of_products)
        if layer.operands_sent:
            self._send(layer.operands_sent, scratch, most)

    @property
    def _free(self) -> dict[str, int]:
        """Vectors of scratch memory that are left free in front of an array, by name."""
        return {}

    def _make_sums(
        self, config: Config, products: tuple[LayerArrays, ...], shares: bool, skips: bool
    ) -> list[ProductSums]:
        """Make what adds up the gates' sums, for each product."""
        context = config, self._emitter, self._network
        return [ProductSums(*context, product, shares, skips) for product in products]

    @property
    def gates(self) -> int:
        """Rows of each unit in the matrices of all products."""
        return len(self._stage.gates)

    def begin(self) -> None:
        """Append what comes before the first step."""
        for sums in self._sums_of_products:
            if sums.tokens:
                sums.tokens.emit()
        if self.inputs:
            self.inputs.during(-1)

    def _send(self, sent: tuple[SentOperand, SentOperand], scratch: Scratch, most: int) -> None:
        """Send changes. Those of x have the scratch memory when those of the other operand have been sent."""
        vectors = [scratch.take("what is sent", most) for _ in range(SENDING_ARRAYS)]
        context = self._emitter, self._network, self._layer
        self._sender = Sender(*context, sent[1], vectors, self._has_maps)
        value, tiles = self._vectors.array(self._cell.output), most // self._network.batch.size
        self.inputs = InputSender(*context, sent[0], vectors, value, self._mask, tiles, self._has_maps)
        self._sums = self._take_sums(scratch, most)

    def _take_sums(self, scratch: Scratch, most: int) -> Operand:
        """Reserve scratch memory for the gates' sums, [tile][gate][b]: that of the local gradients, if it is enough."""
        gates, local = self.tiling.gates, self._stage.local_arrays
        if self._layer.storage.compressed and count_vectors(local) >= gates:
            return self._vectors.array(local[0][0][0])
        return scratch.take("sums", gates * most)

    def load_numbers(self, job: Job) -> None:
        """Load numbers that lie as h where the local gradients are."""
        for n, name in enumerate(self._intermediates[0]):
            state = self._layer.outputs[0].at(n % (self._network.steps + 1), job.batch_tile, job.span.first)
            values = self._vectors.operand(name, job.size)
            self._emitter.load(values, state, Traffic.ACTIVATIONS, job.span.count, job.size)

    def pass_through_streams(self, job: Job) -> None:
        """Store the local gradients as streams, and bring them back elsewhere."""
        where = job.step, job.batch_tile, job.span, job.size
        stored, brought = ([self._vectors.operand(name, job.size) for name in names] for names in self._intermediates)
        self._streams.store(*where, stored)
        self._streams.bring(*where, brought)

    @property
    def _intermediates(self) -> tuple[list[str], list[str]]:
        """Vectors for each kind of local gradients, and as many others."""
        stage = self._stage
        others = [column[0] for array in stage.forward_arrays for column in array][: len(stage.kept)]
        return [self._cell.output if name in others else name for name in stage.kept.values()], others

    def sum_inputs(self, job: Job) -> None:
        """Begin a job's sums with the terms of x, in the product with it."""
        for product, sums in zip(self._sums_of_products, job.of_products(), strict=True):
            product.sum_inputs(job.step, job.batch_tile, sums)

    def sum_state(self, job: Job) -> None:
        """Add the terms of the other operands to a job's sums, which ends them."""
        for product, sums in zip(self._sums_of_products, job.of_products(), strict=True):
            product.sum_state(job.step, job.batch_tile, sums)

    def prepare(self, job: Job) -> None:
        """Bring what a job's cells read besides their sums, before the weights of the next sums.

        Loads work in order. Behind these weights the cells would be late, and so would the map that their changes make.
        """
        if self._brings_ahead:
            self._bring(job)
            self._bring_mask(job)

    @property
    def _brings_ahead(self) -> bool:
        """Whether what a job's cells read is brought before the weights of the next sums."""
        return self._has_maps

    def _bring(self, job: Job) -> None:
        """Have what has been sent, the sums that a job's sums are added to, and the state before."""
        emitter, last, cell = self._emitter, self._last, self._cell
        tiles, vectors = Tiles(job.batch_tile, job.span, job.size), job.span.count * job.size
        if self._sender:
            self._sender.update_sent(job.step, tiles, self._vectors.array(cell.output))
        if last:
            before = last.c.at(last.c_at(job.step), job.batch_tile, job.span.first)
            emitter.load(self._vectors.array(cell.state_before), before, Traffic.INTERMEDIATES, 1, vectors)
        self._bring_sums(job)

    def _bring_sums(self, job: Job) -> None:
        """Have the sums that the step before has left, if this one goes on from them."""
        if not self._refreshes(job.step):
            self._emitter.load(self._sums, self._sums_location(job), Traffic.INTERMEDIATES, 1, job.vectors)

    def _bring_mask(self, job: Job) -> None:
        if self._network.mask:
            location = self._network.mask.at(job.step, job.batch_tile)
            self._emitter.load(self._mask, location, Traffic.ACTIVATIONS, 1, job.size)

    def cells(self, job: Job) -> None:
        """Activate the gates, update the state and keep what the backward pass needs."""
        emitter, last, cell, array = self._emitter, self._last, self._cell, self._vectors.array
        vectors, tiles = job.span.count * job.size, Tiles(job.batch_tile, job.span, job.size)

        def at(sequence: Sequence, step: int) -> Location:
            return sequence.at(step, job.batch_tile, job.span.first)

        if not self._brings_ahead:
            self._bring(job)
        self._compute(job, self._sums_of(job))
        if self._sender and self._goes_on(job):
            self._sender.send(job.step + 1, tiles, array(cell.output), self._mask if self._network.mask else None)
        for name, sequence in zip(self._stage.outputs, self._layer.outputs, strict=True):
            emitter.store(array(name), at(sequence, job.step + 1), Traffic.ACTIVATIONS, 1, vectors)
        if last:
            after = at(last.c, last.c_at(job.step + 1))
            emitter.store(array(cell.state), after, Traffic.INTERMEDIATES, 1, vectors)
        if job.step not in self._skipped:
            self._store_intermediates(job)

    def _goes_on(self, job: Job) -> bool:
        """Tell whether the next step goes on from a job's sums, with changes of its output."""
        return self._sender is not None and self._sender.sends_changes(job.step + 1)

    def _sums_of(self, job: Job) -> Elsewhere:
        """Give the sums of a job's gates. Those of changes are added to the sums that the step before has left.

        The results are stored if the next step goes on from them.
        """
        gates, rows, size = job.gates, job.row_tiles, job.size
        sums = job.operand.at(0, outer=1, inner=rows)
        operands = [
            product.operand.at(gate, outer=product.gates, inner=product.row_tiles)
            for product in job.of_products()
            for gate in range(product.gates)
        ]
        if not self._refreshes(job.step):
            before = self._sums.at(0, outer=size)
            self._emitter.vector(VectorOp.ADD, before, sums, before, outer=rows, inner=size)
            sums, operands = before, [self._sums.at(gate * size, outer=gates * size) for gate in range(gates)]
        if self._goes_on(job):
            self._emitter.store(sums, self._sums_location(job), Traffic.INTERMEDIATES, rows, size)
        return dict(zip(self._stage.sums, operands, strict=True))

    def _sums_location(self, job: Job) -> Location:
        """Where the sums of a job's gates lie from step to step."""
        assert self._layer.sums, "a layer that sends changes has room for its sums"
        return self._layer.sums.at(0, job.batch_tile, job.gates * job.span.first)

    def _compute(self, job: Job, sums: Elsewhere) -> None:
        cell, stage = self._cell, self._stage
        update, output = split_after(stage.forward, {cell.state})
        self._run(job, update, sums)
        if not self._brings_ahead:
            self._bring_mask(job)
        where_ended, tiles = self._vectors.where_ended, (job.span.count, job.size)
        if self._last and self._network.mask:
            before = self._vectors.operand(cell.state_before, job.size)
            where_ended(self._mask, cell.state, before, *tiles)
        self._run(job, output, sums)
        for name in stage.outputs if self._network.mask else ():
            where_ended(self._mask, name, ZERO, *tiles)

    def _store_intermediates(self, job: Job) -> None:
        """Store the gates, or append the local gradients to the log. Those of sequences that have ended are zero."""
        stage, count, size = self._stage, job.span.count, job.size
        if not stage.kept:
            return
        if not self._layer.storage.compressed:
            location = self._network.gates(self._layer, job.step, job.batch_tile, job.span)
            gates = self._vectors.array(stage.gates[0])
            self._emitter.store(gates, location, Traffic.INTERMEDIATES, 1, len(stage.gates) * count * size)
            return
        self._run(job, stage.local)
        kept = tuple(stage.kept.values())
        if self._network.mask:
            self._vectors.select_zero(self._mask, kept, count, size)
        streams = [self._vectors.operand(name, size) for name in kept]
        self._streams.store(job.step, job.batch_tile, job.span, size, streams)

    def _run(self, job: Job, operations: tuple[Operation, ...], sums: Elsewhere | None = None) -> None:
        self._vectors.run(operations, job.span.count, job.size, sums or {})


class ForwardLayer:
    """Emits one layer's forward pass.

    The part of a job's sums that comes from x does not depend on the step before, so it is broadcast ahead, while the
    element-wise work of the job before runs. Cells of steps in `skipped` keep nothing for the backward pass. With
    `shares` the sums of the distinct tokens stand for x, where the layer has such arrays.

    With `skips`, weights that are loaded again at each step are loaded row by row, where only changes are broadcast: a
    row if the change that it meets is sent for some sequence of the batch tile. That is done where the products of
    sparse changes take less time than all rows take to load.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps = NO_STEPS,
        shares: bool = False, skips: bool = False,
    ):  # fmt: skip
        self._emitter, self._batch, self._skipped = emitter, network.batch, skipped
        self._half, scratch, self._refreshes = config.queue_depth // 2, Scratch(config), layer.delta_inputs.refreshes
        context = config, emitter, scratch, network
        self._stages = [self._make_stage(*context, products, skipped, shares, skips) for products in layer.stages]

    @staticmethod
    def _make_stage(*arguments: Any) -> ForwardStage:
        return ForwardStage(*arguments)

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps."""
        if not steps.start:
            for stage in self._stages:
                stage.begin()
        self._begin(steps[0])
        loop_through(
            self._emitter.loop, steps[:-1], self._kind, lambda step: self._step(step, range(step + 1, step + 2)),
            self._period,
        )  # fmt: skip
        self._step(steps[-1], range(0))

    @property
    def _period(self) -> int:
        """After how many steps what they do repeats, or after a multiple."""
        return 1

    def _begin(self, step: int) -> None:
        """Emit what comes before the first step."""
        first = self._jobs(step)[0]
        first.stage.sum_inputs(first)

    def _kind(self, step: int) -> tuple:
        """Tell in what a step, with the one that follows it, may differ from others."""
        inputs = self._inputs.kind(step) if self._inputs else ()
        return step in self._skipped, self._refreshes(step), *inputs

    def _step(self, step: int, following: range) -> None:
        """Emit a step; `following` is the one after it, if there is one."""
        jobs = self._jobs(step)
        for job, ahead in itertools.zip_longest(jobs, [*jobs[1:], *[self._jobs(after)[0] for after in following]]):
            job.stage.sum_state(job)
            job.stage.prepare(job)
            if ahead:
                ahead.stage.sum_inputs(ahead)
            job.stage.cells(job)
        if self._inputs:
            self._inputs.during(step)

    @property
    def _inputs(self) -> InputSender | None:
        return self._stages[0].inputs

    def emit_parts(self, steps: range, *, products: bool, streams: bool) -> None:
        """Append the products with x of some steps, or streams of numbers that lie as h: each kept and brought back."""

        def step(turn: int) -> None:
            for job in self._jobs(steps[turn]):
                if streams and not turn:
                    job.stage.load_numbers(job)
                if products:
                    job.stage.sum_inputs(job)
                if streams:
                    job.stage.pass_through_streams(job)

        self._emitter.loop(len(steps), step)

    def _jobs(self, step: int) -> list[Job]:
        """Give the jobs of a step. They alternate the halves of the memory of sums, across steps too."""
        cells = [
            (tile, stage, number, span)
            for tile, stage in itertools.product(range(self._batch.count), self._stages)
            for number, span in enumerate(stage.tiling.unit_spans)
        ]
        jobs = []
        for position, (tile, stage, number, span) in enumerate(cells):
            half = (step * len(cells) + position) % 2
            operand = Operand(Memory.SUMS, self._half * half)
            size = self._batch.size_of(tile)
            jobs.append(
                Job(
                    stage=stage, step=step, batch_tile=tile, number=number, span=span, size=size,
                    gates=stage.gates, operand=operand, in_second_half=half == 1,
                )
            )  # fmt: skip
        return jobs
