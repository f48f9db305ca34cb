"""Places the session of a trial, which has a machine for itself, in memory."""

from collections.abc import Callable

from etalstm.device.machine.session import HardwareSession
from etalstm.errors import PlanError
from etalstm.plan.memory.memory_map import Placement
from etalstm.plan.plan import Plan


def alone(memory_bytes: int) -> Callable[[Plan, HardwareSession], Placement]:
    """Make the function that places a session's plans in a memory of this size.

    It raises :class:`~etalstm.errors.PlanError` if a plan needs more.
    """

    def place(plan: Plan, _: HardwareSession) -> Placement:
        placement = plan.place(memory_bytes)
        if placement is None:
            needed = plan.memory_bytes
            raise PlanError(f"the network needs {needed:,} bytes of memory, the machine has {memory_bytes:,}")
        return placement

    return place
