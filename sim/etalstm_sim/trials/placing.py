"""Places the session of a trial, which has a machine for itself, in memory."""

from collections.abc import Callable

from etalstm.device import TrainingShape
from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.integer_session import session_class
from etalstm.device.machine.session import HardwareSession
from etalstm.errors import PlanError
from etalstm.network.arithmetic import FLOAT32, INT8, Arithmetic
from etalstm.plan.memory.memory_map import Placement
from etalstm.plan.plan import Plan
from etalstm_hw.config import Config


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


def arithmetic_of(config: Config) -> Arithmetic:
    """Give the arithmetic of a machine."""
    return INT8 if config.integers else FLOAT32


def planned_session(
    plan: Plan | None, shape: TrainingShape, accelerator: Accelerator, memory_bytes: int
) -> HardwareSession:
    """Make a session that has the machine for itself; its first plan is a given one, if there is one."""
    base = session_class(accelerator.config)

    class Planned(base):  # type: ignore[valid-type, misc]
        first = plan

        def _planned(self, shape):
            first, self.first = self.first, None
            return first or super()._planned(shape)

    return Planned(shape, accelerator, alone(memory_bytes), lambda size: None)
