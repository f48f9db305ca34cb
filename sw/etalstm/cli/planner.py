"""Plans as ``eta-lstm plan`` is asked for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite

from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import NetworkShape
from etalstm.network.slices import AUTO, check_slices
from etalstm.network.storage import Storage
from etalstm.network.weight_format import BF16, FLOAT32
from etalstm.plan.choose.fit import plan_best_slices, plan_whole, plan_within
from etalstm.plan.memory.groups import group_costs, group_counts
from etalstm.plan.memory.operands import LOCAL_GRADIENTS
from etalstm.plan.plan import Plan
from etalstm_hw.config import Config
from etalstm_hw.contract import STREAM_BLOCK


@dataclass(frozen=True)
class Planner:
    """What all plans of a command have in common.

    Members
    -------
    config : Config
    masked : bool
        Sequences may be shorter than the steps.
    density : float
        Share of their elements that compressed streams keep.
    memory_bytes, memory_budget : int or None
        Memory of the device, and what of it may be used before the host takes the rest.
    slices : int or str
        Slices of a batch; ``auto``: as many as the machine uses best.
    inputs : DeltaInputs
        What of x and h is broadcast.
    weight_format : str
        How the passes read weights.
    shared_tokens : int or None
        Distinct tokens of a batch, whose sums are shared.
    """

    config: Config
    masked: bool
    density: float
    memory_bytes: int | None
    memory_budget: int | None
    slices: int | str
    inputs: DeltaInputs
    weight_format: str = FLOAT32
    shared_tokens: int | None = None

    def plan(self, network: NetworkShape, batch: int, steps: int, policy: str) -> Plan:
        """Plan a network with a storage policy.

        Raises
        ------
        ValueError
            If there are more slices than sequences.
        PlanError
            If it does not fit.
        """
        make = partial(self._plan, network, batch, steps, policy)
        if self.slices == AUTO:
            return plan_best_slices(self.config, network, batch, make, self._narrow)
        slices = check_slices(self.slices, batch)
        return make(slices, group_counts(self.config, network, batch, slices, self._narrow))

    def alternatives(self, network: NetworkShape, batch: int) -> dict[int, float]:
        """Give what each number of groups costs that the batch can be arranged for: cycles of a step's products."""
        costs = group_costs(self.config, network, batch, self.slices, self._narrow)
        return {count: cycles for count, cycles in costs.items() if isfinite(cycles)}

    @property
    def _narrow(self) -> bool:
        return self.weight_format == BF16

    def _plan(
        self, network: NetworkShape, batch: int, steps: int, policy: str, slices: int, groups: Sequence[int]
    ) -> Plan:
        make = partial(
            Plan, self.config, network, batch, steps, masked=self.masked, storage=Storage(policy), density=self.density,
            share=partial(share_of, self.density, policy == "ms1-bf16"), slices=slices,
            inputs=self.inputs, weight_format=self.weight_format, shared_tokens=self.shared_tokens,
        )  # fmt: skip
        if self.memory_budget is not None:
            return plan_within(self.memory_budget, make, groups)
        return plan_whole(self.memory_bytes, make, groups)


def share_of(density: float, bf16: bool, log: int) -> float:
    """Give the room that a log's streams need at a density, as a share of what they need if they keep everything."""
    full = 1 / 2 if bf16 and log == LOCAL_GRADIENTS else 1
    return (1 / STREAM_BLOCK + density * full) / (1 / STREAM_BLOCK + full)


def runner_up(groups: int, step_cycles: dict[int, float]) -> int | None:
    """Give the fastest number of groups besides the chosen one, if there is any."""
    return next((count for count in step_cycles if count != groups), None)
