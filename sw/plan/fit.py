"""A plan that keeps within a memory, or a memory budget."""

from collections.abc import Callable

from etalstm.errors import PlanError
from etalstm.hw.contract import PAGE_BYTES
from etalstm.plan.plan import Plan
from etalstm.plan.segments import REGIONS, divide


def plan_whole(memory_bytes: int | None, make: Callable[..., Plan]) -> Plan:
    """Plan for a memory. If it has no room for δ of all layers at once, there is room for one layer's at a time.

    Only :meth:`etalstm.device.api.Session.contributions` needs δ of all layers.

    Parameters
    ----------
    memory_bytes : int or None
        None: any.
    make : function
        Makes the plan, with `every_delta` and for `memory_bytes`.

    Raises
    ------
    PlanError
        If the network does not fit; the message says what is needed.
    """
    plan = make()
    if memory_bytes is None or _fits(plan, memory_bytes):
        return plan
    return make(memory_bytes=memory_bytes, every_delta=False)


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
    if _fits(plan, budget):
        return plan
    estimates, needed = _estimates(plan), plan.memory_bytes
    likely = [count for count, size in estimates.items() if size <= budget]
    # Estimates leave out that every segment has programs of its own: a number of segments that seems to fit may not.
    for count in [*likely, *(count for count in estimates if count not in likely)]:
        plan = make(segments=_divided(plan, count))
        if _fits(plan, budget):
            return plan
        needed = min(needed, plan.memory_bytes)
    raise PlanError(f"a memory budget of {budget:,} bytes is too small: this network needs at least {needed:,}")


def _fits(plan: Plan, budget: int) -> bool:
    """Tell whether a plan keeps within a budget; its programs are not made if the windows do not."""
    return plan.windows_bytes <= budget and plan.memory_bytes <= budget


def _divided(plan: Plan, count: int):
    return divide(plan.map.kept.needs(), plan.map.steps, count)


def _estimates(plan: Plan) -> dict[int, int]:
    """Give the memory that plans of more segments will take at least, by some numbers of segments."""
    needs, steps = plan.map.kept.needs(), plan.map.steps
    of_vector = plan.map.memory.vector_bytes * plan.config.channels
    fixed = plan.windows_bytes - sum(array.vectors for array in plan.map.kept.regions) * of_vector
    sizes = {}
    for count in _counts(len(needs) * steps):
        segments = divide(needs, steps, count)
        largest = max(sum(needs[piece.layer] * len(piece.steps) for piece in segment) for segment in segments)
        sizes[count] = fixed + REGIONS * largest * of_vector + (count - 1) * PAGE_BYTES
    return sizes


def _counts(most: int) -> list[int]:
    """Give numbers of segments to look at: all small ones, then each half as large again as the one before."""
    counts = [2]
    while counts[-1] < most:
        counts.append(min(most, counts[-1] + max(1, counts[-1] // 2)))
    return [count for count in counts if count <= most]
