"""Plans of sessions on a machine."""

from collections.abc import Sequence
from functools import partial

from etalstm.device.machine.accelerator import Accelerator
from etalstm.device.machine.room import FIRST, Room
from etalstm.device.shape import TrainingShape
from etalstm.network.weight_format import BF16
from etalstm.plan.choose.fit import plan_whole, plan_within
from etalstm.plan.memory.groups import group_counts
from etalstm.plan.plan import Plan


def first_room(shape: TrainingShape) -> Room:
    """Give the room that logs get before a pass has shown what they need."""
    nothing_is_dropped = not any(shape.storage.thresholds)
    return Room(shape.log_share or (1.0 if nothing_is_dropped else FIRST))


def plan_session(
    accelerator: Accelerator, shape: TrainingShape, room: Room, groups: Sequence[int] | None = None, **options
) -> Plan:
    """Plan a session's programs and memory.

    Parameters
    ----------
    accelerator : Accelerator
    shape : TrainingShape
    room : Room
        Of the logs.
    groups : sequence of int, optional
        Numbers of groups of channels: the first that fits is taken. Default: all that are possible, the fastest first.
    options
        Of :class:`Plan`: what does not follow from the others.

    Raises
    ------
    PlanError
        If the network does not fit the memory or the memory budget.
    """
    config = accelerator.config
    make = partial(
        Plan, config, shape.network, shape.batch, shape.steps, masked=shape.masked, storage=shape.storage,
        share=room.share, skips=shape.architecture.skips, slices=shape.slices,
        inputs=shape.inputs, weight_format=shape.weight_format, shared_tokens=shape.shared_tokens,
        layers_apart=shape.layers_apart,
        **options,
    )  # fmt: skip
    narrow = shape.weight_format == BF16
    groups = groups or group_counts(config, shape.network, shape.batch, shape.slices, narrow)
    if shape.memory_budget is None:
        return plan_whole(accelerator.transport.memory_bytes, make, groups)
    return plan_within(shape.memory_budget, make, groups)
