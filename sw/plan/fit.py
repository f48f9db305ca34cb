"""A plan that keeps within a memory budget."""

from collections.abc import Callable

from etalstm.errors import PlanError
from etalstm.hw.contract import PAGE_BYTES
from etalstm.plan.plan import Plan
from etalstm.plan.segments import REGIONS, divide

_TRIES = 6  # plans made before the budget counts as too small: estimates leave out little


def plan_within(budget: int, make: Callable[..., Plan]) -> Plan:
    """Plan with as few segments as a budget allows.

    Parameters
    ----------
    budget : int
        Bytes of the device's memory.
    make : function
        Makes the plan of some `segments` (default: one of all cells).

    Raises
    ------
    PlanError
        If the budget is too small however often the cells are divided; the message says what is needed.
    """
    plan = make()
    if plan.memory_bytes <= budget:
        return plan
    estimates = _estimates(plan)
    likely = [count for count, size in estimates.items() if size <= budget]
    least = min(estimates, key=estimates.get)
    counts = [*likely[:: max(1, len(likely) // _TRIES)], least]
    needed = plan.memory_bytes
    for count in counts:
        plan = make(segments=_divided(plan, count))
        if plan.memory_bytes <= budget:
            return plan
        needed = min(needed, plan.memory_bytes)
    raise PlanError(f"a memory budget of {budget:,} bytes is too small: this network needs at least {needed:,}")


def _divided(plan: Plan, count: int):
    return divide(plan.map.kept.needs(), plan.map.steps, count)


def _estimates(plan: Plan) -> dict[int, int]:
    """Give the memory that plans of more segments will take at least, by the number of segments."""
    needs, steps = plan.map.kept.needs(), plan.map.steps
    of_vector = plan.map.memory.vector_bytes * plan.config.channels
    fixed = plan.memory_bytes - sum(array.vectors for array in plan.map.kept.regions) * of_vector
    sizes = {}
    for count in range(2, len(needs) * steps + 1):
        segments = divide(needs, steps, count)
        largest = max(sum(needs[piece.layer] * len(piece.steps) for piece in segment) for segment in segments)
        sizes[count] = fixed + REGIONS * largest * of_vector + (count - 1) * PAGE_BYTES
    return sizes
