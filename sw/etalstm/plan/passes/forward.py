"""Programs of the forward pass: the order in which a layer's stages work."""

from itertools import product, zip_longest

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Operand, Scratch
from etalstm.plan.passes.forward_stage import ForwardStage, Job
from etalstm.plan.passes.send import InputSender
from etalstm.plan.passes.vectors import NO_STEPS, Steps
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.steps import loop_through
from etalstm_hw.config import Config
from etalstm_hw.contract import Memory


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
        self,
        config: Config,
        emitter: Emitter,
        network: NetworkMap,
        layer: LayerArrays,
        skipped: Steps = NO_STEPS,
        shares: bool = False,
        skips: bool = False,
    ):
        self._emitter, self._batch, self._skipped = emitter, network.batch, skipped
        self._half, scratch, self._refreshes = config.queue_depth // 2, Scratch(config), layer.delta_inputs.refreshes
        context = config, emitter, scratch, network
        self._stages = [ForwardStage(*context, products, skipped, shares, skips) for products in layer.stages]

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps."""
        if not steps.start:
            for stage in self._stages:
                stage.begin()
        first, last = self._jobs(steps[0])[0], steps[-1]
        first.stage.sum_inputs(first)
        loop_through(self._emitter, steps[:-1], self._kind, lambda step: self._step(step, [self._jobs(step + 1)[0]]))
        self._step(last, [])

    def _kind(self, step: int) -> tuple:
        """Tell in what a step, with the one that follows it, may differ from others."""
        inputs = self._inputs.kind(step) if self._inputs else ()
        return step in self._skipped, self._refreshes(step), *inputs

    def _step(self, step: int, following: list[Job]) -> None:
        """Emit a step; `following` is the job after it, if there is one."""
        jobs = self._jobs(step)
        for job, ahead in zip_longest(jobs, [*jobs[1:], *following]):
            job.stage.sum_state(job)
            job.stage.prepare(job)
            if ahead:
                ahead.stage.sum_inputs(ahead)
            job.stage.cells(job)
        if self._inputs:
            self._inputs.during(step)

    @property
    def _inputs(self) -> InputSender | None:
        """What sends the changes of x."""
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
        """Give the jobs of a step. They alternate the halves of the queue, across steps too."""
        parts = [
            (tile, stage, number, group)
            for tile, stage in product(range(self._batch.count), self._stages)
            for number, group in enumerate(stage.tiling.unit_groups)
        ]
        jobs = []
        for position, (tile, stage, number, group) in enumerate(parts):
            half = (step * len(parts) + position) % 2
            queue = Operand(Memory.QUEUE, self._half * half)
            size = self._batch.size_of(tile)
            jobs.append(
                Job(
                    stage=stage, step=step, batch_tile=tile, number=number, group=group, size=size,
                    gates=stage.gates, queue=queue, in_second_half=half == 1,
                )
            )  # fmt: skip
        return jobs
