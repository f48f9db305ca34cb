"""Programs of the forward pass."""

from dataclasses import dataclass
from itertools import product, zip_longest

from etalstm.hw.config import Config
from etalstm.hw.contract import Memory, Traffic, VectorOp
from etalstm.plan.arrays import LayerArrays
from etalstm.plan.cells import NO_STEPS, ZERO, F, G, I, O, Steps, Streams, by_gate, local_gradients
from etalstm.plan.emit import Emitter, Operand, Parameter, Place, Scratch
from etalstm.plan.network import NetworkMap
from etalstm.plan.steps import alike
from etalstm.plan.tiling import GATES, Share, Span
from etalstm.plan.weights import WeightStore


@dataclass(frozen=True)
class Job:
    """The cells of one step, batch tile and group of units.

    Members
    -------
    size : int
        Sequences of the batch tile.
    queue : Operand
        Where the sums start in the queue: jobs alternate its halves.
    """

    step: int
    batch_tile: int
    number: int
    group: Span
    size: int
    queue: Operand

    @property
    def row_tiles(self) -> int:
        """Vectors of rows that are summed for each scalar."""
        return GATES * self.group.count


class ForwardLayer:
    """Emits one layer's forward pass.

    The part of a job's sums that comes from x does not depend on the step before, so it is broadcast ahead, while the
    element-wise work of the job before runs. Cells of steps in `skipped` keep nothing for the backward pass.

    Where a sequence has ended, c stays what it was, as the next step finds it where it is; h is 0, so that no product
    is spent on it in the next step or the layer above.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps = NO_STEPS
    ):
        self._emitter, self._network, self._layer, self._skipped = emitter, network, layer, skipped
        tiling = layer.tiling
        groups = [GATES * group.count for group in tiling.unit_groups]
        self._weights = WeightStore(config, emitter, layer.rows, groups, tiling.depth)
        self._half = config.queue_depth // 2
        self._bias_depth, self._bias_loaded = config.bias_depth, False

        scratch = Scratch(config)
        vectors = max(group.count for group in tiling.unit_groups) * network.batch.size
        self._gates = scratch.take("the gates", GATES * vectors)
        names = ("c_before", "c", "tanh_c", "h", "product")
        self._cell = {name: scratch.take(name, vectors) for name in names}
        self._mask = scratch.take("the mask", network.batch.size)
        if layer.storage.compressed:
            self._local = scratch.take("local gradients", GATES * vectors)
            self._streams = Streams(emitter, network, layer)

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps."""
        self._sum_inputs(self._jobs(steps[0])[0])
        last = steps[-1]
        for run in alike(steps[:-1], lambda step: step in self._skipped):
            self._emitter.loop(len(run), lambda turn, run=run: self._step(run[turn], [self._jobs(run[turn] + 1)[0]]))
        self._step(last, [])

    def _step(self, step: int, following: list[Job]) -> None:
        """Emit a step; `following` is the job after it, if there is one."""
        jobs = self._jobs(step)
        for job, ahead in zip_longest(jobs, [*jobs[1:], *following]):
            self._sum_state(job)
            if ahead:
                self._sum_inputs(ahead)
            self._cells(job)

    def emit_parts(self, steps: range, *, products: bool, streams: bool) -> None:
        """Append the products with x of some steps, or streams of numbers that lie as h: each kept and brought back."""
        local, p_s, c_before, c, h = self._local, *(self._cell[name] for name in ("tanh_c", "c_before", "c", "h"))

        def load_numbers(job):
            vectors = job.group.count * job.size
            for n, to in enumerate([*(local.at(gate * vectors) for gate in range(GATES)), p_s, h]):
                state = self._layer.h.part(n % (self._network.steps + 1), job.batch_tile, job.group.first)
                self._emitter.load(to, state, Traffic.ACTIVATIONS, 1, vectors)

        def run(job):
            rows, group, size = {"outer": job.size}, job.group, job.size
            if products:
                self._sum_inputs(job)
            if streams:
                self._streams.keep(job.step, job.batch_tile, group, size, local, p_s, h.at(0, **rows))
                self._streams.bring(job.step, job.batch_tile, group, size, self._gates, c_before, c.at(0, **rows))

        def step(turn):
            for job in self._jobs(steps[turn]):
                if streams and not turn:
                    load_numbers(job)
                run(job)

        self._emitter.loop(len(steps), step)

    def _jobs(self, step: int) -> list[Job]:
        """Give the jobs of a step. They alternate the halves of the queue, across steps too."""
        batch, groups = self._network.batch, self._layer.tiling.unit_groups
        jobs = []
        for number, (tile, group) in enumerate(product(range(batch.count), range(len(groups)))):
            half = (step * batch.count * len(groups) + number) % 2
            queue = Operand(Memory.QUEUE, self._half * half)
            jobs.append(Job(step, tile, group, groups[group], batch.size_of(tile), queue))
        return jobs

    def _sum_inputs(self, job: Job) -> None:
        layer = self._layer
        self._sum(
            job, layer.x.part(job.step + layer.x_step, job.batch_tile), layer.tiling.inputs, row_offset=0, start=True
        )

    def _sum_state(self, job: Job) -> None:
        layer = self._layer
        self._sum(
            job,
            layer.h.part(job.step, job.batch_tile),
            layer.tiling.units,
            row_offset=layer.tiling.inputs.padded,
            start=False,
        )

    def _sum(self, job: Job, place: Place, share: Share, row_offset: int, start: bool) -> None:
        """Add the terms of one broadcast array to a job's sums; `start` begins them, otherwise this ends them."""
        bias = self._bias(job)
        for run in (runs := self._weights.runs(share, 1, job.number)):
            weights = self._weights.bring(job.number, run, row_offset)
            self._emitter.cast(
                place,
                share,
                Traffic.ACTIVATIONS,
                first_block=run.first_block,
                blocks=run.blocks,
                gates=1,
                batch=job.size,
                tiles=job.row_tiles,
                start=start and run is runs[0],
                finish=not start and run is runs[-1],
            )
            self._emitter.mac(
                weights, run.rows * job.row_tiles, job.queue, job.row_tiles * job.size, job.row_tiles, bias=bias
            )

    def _bias(self, job: Job) -> Operand:
        """Have the biases of a job's rows in the bias memory: all groups' at once, if they fit."""
        everything = GATES * self._layer.tiling.units.tiles
        fits = everything <= self._bias_depth
        bias = Operand(Memory.BIAS, GATES * job.group.first if fits else 0)
        if fits and self._bias_loaded:
            return bias
        self._bias_loaded = True
        vectors, first = (everything, 0) if fits else (job.row_tiles, GATES * job.group.first)
        place = Place(self._layer.bias, first)
        self._emitter.load(Operand(Memory.BIAS, 0), place, Traffic.WEIGHTS, outer=1, inner=vectors)
        return bias

    def _cells(self, job: Job) -> None:
        """Activate the gates, update the state and keep what the backward pass needs."""
        emitter, layer, count, size = self._emitter, self._layer, job.group.count, job.size
        vectors = count * size
        c_before, c, tanh_c, h, product = self._cell.values()
        rows = {"outer": size}
        gates = [self._gates.at(gate * size, outer=GATES * size) for gate in range(GATES)]

        def part(sequence, step):
            return sequence.part(step, job.batch_tile, job.group.first)

        emitter.load(c_before, part(layer.c, layer.c_at(job.step)), Traffic.INTERMEDIATES, 1, vectors)
        for gate, op in ((I, VectorOp.SIGMOID), (F, VectorOp.SIGMOID), (G, VectorOp.TANH), (O, VectorOp.SIGMOID)):
            sums = job.queue.at(gate, outer=GATES, inner=job.row_tiles)
            emitter.vector(op, gates[gate], sums, outer=count, inner=size)

        def gated(d, gate, other):
            emitter.vector(
                VectorOp.MULTIPLY, d.at(0, **rows), gates[gate], other.at(0, **rows), outer=count, inner=size
            )

        gated(c, F, c_before)
        emitter.vector(VectorOp.MULTIPLY, product.at(0, outer=size), gates[I], gates[G], outer=count, inner=size)
        emitter.vector(VectorOp.ADD, c, c, product, inner=vectors)
        if self._network.mask:
            place = self._network.mask.part(job.step, job.batch_tile)
            emitter.load(self._mask, place, Traffic.ACTIVATIONS, 1, size)
        self._where_ended(job, c, c_before.at(0, **rows))
        emitter.vector(VectorOp.TANH, tanh_c, c, inner=vectors)
        gated(h, O, tanh_c)
        self._where_ended(job, h, ZERO)
        emitter.store(h, part(layer.h, job.step + 1), Traffic.ACTIVATIONS, 1, vectors)
        emitter.store(c, part(layer.c, layer.c_at(job.step + 1)), Traffic.INTERMEDIATES, 1, vectors)
        if job.step in self._skipped:
            return
        if layer.storage.compressed:
            self._keep_local_gradients(job)
            return
        kept = self._network.gates(layer, job.step, job.batch_tile, job.group)
        emitter.store(self._gates, kept, Traffic.INTERMEDIATES, 1, GATES * vectors)

    def _keep_local_gradients(self, job: Job) -> None:
        """Compute the local gradients and append them to the log; those of sequences that have ended are zero."""
        count, size = job.group.count, job.size
        local_gradients(
            self._emitter, count, size, gates=self._gates, c_before=self._cell["c_before"],
            tanh_c=self._cell["tanh_c"], product=self._cell["product"], p=self._local,
        )  # fmt: skip
        p_s, p_r = self._cell["tanh_c"], by_gate(self._gates, size)[F]
        if self._network.mask:
            mask = self._mask.at(0, outer=0)
            for values, tiles in ((self._local.at(0, outer=size), GATES * count), (p_s.at(0, outer=size), count)):
                self._emitter.vector(VectorOp.SELECT_ZERO, values, mask, ZERO, outer=tiles, inner=size)
            self._emitter.vector(VectorOp.SELECT_ZERO, p_r, mask, ZERO, outer=count, inner=size)
        self._streams.keep(job.step, job.batch_tile, job.group, size, self._local, p_s, p_r)

    def _where_ended(self, job: Job, values: Operand, other: Operand | Parameter) -> None:
        """Take `other` instead of `values` for the sequences that have ended."""
        if self._network.mask:
            values, mask = values.at(0, outer=job.size), self._mask.at(0, outer=0)
            self._emitter.vector(VectorOp.SELECT_ZERO, values, mask, other, outer=job.group.count, inner=job.size)
