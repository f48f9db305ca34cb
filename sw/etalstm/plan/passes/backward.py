"""Programs of the backward pass: from dy to δ, and from δ to the gradients of what entered the layer."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm.plan.memory.operands import Scratch
from etalstm.plan.memory.tiling import spans
from etalstm.plan.passes.backward_stage import BackwardStage, Job
from etalstm.plan.passes.propagation import Emit, OperandGradients, Part, emit_all
from etalstm.plan.passes.vectors import NO_STEPS, Steps
from etalstm.plan.program.emit import Emitter
from etalstm.plan.program.fold import loop_through
from etalstm_hw.config import Config


class StepKind(NamedTuple):
    """In what a step, with the `following` one, may differ from others.

    Members
    -------
    apart : int    steps to the following one; 0 if there is none
    uneven : int   0, or the step's number if it is of a kind of its own
    begins : int   with integers and delta inputs: 2 for the first step, 1 for the second one, 0 for others
    """

    after_skipped: bool
    below_skipped: bool
    apart: int
    following_below_skipped: bool
    uneven: int
    refreshes: bool
    next_refreshes: bool
    begins: int = 0


class BackwardLayer:
    """Emits one layer's backward pass, last step first, and of each step the last stage first.

    Everything of a cell that does not depend on the gradients (its local gradients) is computed ahead, while the sums
    of the cell after it run. Sums that no later step waits for are left to run beside the element-wise work of the
    steps that follow, see :class:`Propagation`.

    Cells of steps in `skipped` emit nothing. The gradients that they would pass on are zero. Their readers take the
    constant 0 instead: the step before, and this layer where the cell of the layer `above` is skipped.

    With `skips`, a layer with a row map loads a row of weights only if its δ is nonzero in at least one sequence that
    shares the load. Two loads take all rows: those before the map is known, and those that several steps share.
    """

    def __init__(
        self, config: Config, emitter: Emitter, network: NetworkMap, layer: LayerArrays, skipped: Steps = NO_STEPS,
        above: Steps = NO_STEPS, skips: bool = False,
    ):  # fmt: skip
        self._emitter, self._steps, self._tiles = emitter, network.steps, network.batch.count
        self._skipped, self._above, scratch = skipped, above, Scratch(config)
        self._refreshes = layer.delta_inputs.refreshes
        context = config, emitter, scratch, network
        self._stages = [
            self._make_stage(*context, products, skipped, above, skips) for products in reversed(layer.stages)
        ]

    @staticmethod
    def _make_stage(*arguments: Any) -> "BackwardStage":
        return BackwardStage(*arguments)

    def emit(self, steps: range) -> None:
        """Append the instructions of some steps; those after them have run. The bias gradients are left in memory."""
        for stage in self._stages:
            for bias in stage.biases:
                bias.begin(steps)
        kept = [step for step in reversed(steps) if step not in self._skipped]
        if kept:
            self._prepare_first(self._jobs(kept[0]))
        loop_through(
            self._emitter.loop, range(len(kept)), partial(self._kind, kept), partial(self._step, kept), self._period
        )
        last = [job for step in kept[-1:] for job in self._jobs(step)]
        for stage in self._stages:
            for propagation in stage.propagations:
                emit_all(propagation.ended(_parts(last, stage)))
        for stage in self._stages:
            for propagation in stage.propagations:
                propagation.rest(kept)
            for bias in stage.biases:
                bias.end(steps)

    @property
    def _period(self) -> int:
        return math.lcm(*(propagation.steps for propagation in self._propagations))

    @property
    def _propagations(self) -> list[OperandGradients]:
        return [propagation for stage in self._stages for propagation in stage.propagations]

    def _kind(self, kept: Sequence[int], number: int) -> StepKind:
        """Give the kind of a step.

        The products that are left for a step belong to steps up to two periods before it. So a step with a gap among
        those is of a kind of its own: addresses do not advance evenly there, and no loop may go over it.
        """
        step, following = kept[number], kept[number + 1] if number + 1 < len(kept) else None
        before = kept[max(0, number - 2 * self._period) : number + 1]
        return StepKind(
            after_skipped=step + 1 in self._skipped,
            below_skipped=step in self._above,
            apart=0 if following is None else step - following,
            following_below_skipped=following in self._above,
            uneven=number if len({a - b for a, b in pairwise(before)}) > 1 else 0,
            refreshes=self._refreshes(step),
            next_refreshes=self._refreshes(step + 1),
        )

    def _step(self, kept: list[int], number: int) -> None:
        """Emit one of the kept steps, whose first cells are prepared, and prepare those of the one that follows."""
        jobs, late = self._jobs(kept[number]), self._late(kept, number)
        before = [job for step in kept[max(0, number - 1) : number] for job in self._jobs(step)]
        after = [job for step in kept[number + 1 : number + 2] for job in self._jobs(step)]
        for position, (stage, step, tiles) in enumerate(jobs):
            products, stores = late
            more, last = self._delayed([*before, *jobs[:position]])
            products, stores = products + more, stores + last
            for propagation in stage.propagations:
                stores += propagation.left(step if position else kept[max(0, number - 1)])
            following = jobs[position + 1 :] or after
            stage.all_deltas(step, tiles, products, stores, following[:1] if stage.prepares_early else [])
            late = [], []
            for propagation in stage.propagations:
                propagation.units(step, tiles)
            if not (stage.prepares_early or stage.collects_in_delta):
                self._prepare_first(following)
            for propagation in stage.propagations:
                propagation.inputs(step, tiles)
            if stage.collects_in_delta:  # what is prepared overwrites the inputs' gradients
                self._prepare_first(following)

    @staticmethod
    def _delayed(done: Sequence[Job]) -> tuple[list[Emit], list[Emit]]:
        """Give the products, and then the stores, of earlier jobs that run while the δ of the next one is computed."""
        products, stores = list[Emit](), list[Emit]()
        for stage, _, _ in done[-1:]:
            for propagation in stage.propagations:
                more, last = propagation.delayed(_parts(done, stage))
                products, stores = products + more, stores + last
        return products, stores

    def _late(self, kept: Sequence[int], number: int) -> tuple[list[Emit], list[Emit]]:
        """Give the products, and then the stores, that were left for the time in which a step's first δ is computed."""
        products, stores = list[Emit](), list[Emit]()
        for propagation in self._propagations:
            more, last = propagation.shared_inputs(kept, number - 1)
            products, stores = products + stores + more, last
        return products, stores

    @staticmethod
    def _prepare_first(jobs: Sequence[Job]) -> None:
        for stage, step, tiles in jobs[:1]:
            stage.prepare(next(stage.spans(step, tiles)))

    def emit_products(self) -> None:
        """Append Wᵀδ of all steps and nothing else, of a δ that lies in memory; its rows have no map there."""
        steps = range(self._steps)[::-1]

        def of_step(turn: int) -> None:
            emit_all(*self._late(steps, turn))
            for stage, step, tiles in self._jobs(steps[turn]):
                for propagation in stage.propagations:
                    propagation.units(step, tiles)
                    propagation.inputs(step, tiles)
                    emit_all(propagation.left(step))

        self._emitter.loop(self._steps, of_step, self._period)
        for propagation in self._propagations:
            propagation.rest(steps)

    def _jobs(self, step: int) -> list[Job]:
        """Give stages and batch tiles of a step in order; batch tiles that share loads of weights are one job."""
        most = min(propagation.most_tiles for propagation in self._propagations)
        shared = [range(span.first, span.first + span.count) for span in spans(self._tiles, most)]
        return [(stage, step, tiles) for tiles in shared for stage in self._stages]


def _parts(jobs: Sequence[Job], stage: BackwardStage) -> list[Part]:
    """Give steps and batch tiles of a stage's jobs."""
    return [(step, tiles) for other, step, tiles in jobs if other is stage]
