"""How many tokens of a batch share what they add to the first layer's gate sums.

See :mod:`etalstm.network.shared_tokens`.
"""

from dataclasses import dataclass

import numpy as np

from etalstm.data import DataSet
from etalstm.device import Device, TrainingShape
from etalstm.network.shared_tokens import OFF
from etalstm.train.settings import Settings


@dataclass(frozen=True)
class Sharing:
    """What was chosen.

    Members
    -------
    count : int or None
        Distinct tokens that share; None: nothing is shared.
    reason : str
        A line that says so.
    """

    count: int | None
    reason: str


def choose_sharing(settings: Settings, data: DataSet, device: Device, shape: TrainingShape) -> Sharing:
    """Choose how many tokens share.

    ``auto`` asks the device, with the batches of an epoch of training.

    Parameters
    ----------
    settings : Settings
    data : DataSet
    device : Device
    shape : TrainingShape
        Of the run, without `shared_tokens`.

    Raises
    ------
    ValueError
        If a number of tokens is wanted and inputs are vectors.
    """
    wanted = settings.shared_tokens
    if wanted == OFF:
        return Sharing(None, "shared tokens: off")
    problem = f"inputs of {data.name} are vectors" if data.input_size is not None else None
    if not isinstance(wanted, str):  # else it is auto
        if problem:
            raise ValueError(f"{problem}, not tokens: shared_tokens must be off, got {wanted}")
        return Sharing(wanted, f"shared tokens: {wanted} of a batch")
    if not shape.execution.delta_inputs.off or settings.input_target is not None:
        problem = "delta inputs send changes of x"
    elif not shape.network.is_lstm:
        problem = f"the cell is {shape.network.cell}"
    elif not shape.execution.architecture.skips:
        problem = f"architecture {shape.execution.architecture.name} skips no zeros"
    if problem:
        return Sharing(None, f"shared tokens: off, as {problem}")
    count = device.best_shared_tokens(shape, _tokens_of(data, shape))
    reason = "off, as it does not pay" if count is None else f"{count} of a batch"
    return Sharing(count, f"shared tokens: {reason}")


def _tokens_of(data: DataSet, shape: TrainingShape) -> list[np.ndarray]:
    """Give the tokens of the batches of an epoch, each (T, B), -1 at padding."""
    batches = data.epoch("train", shape.batch, shape.steps, np.random.default_rng(0))
    return [np.where(np.arange(len(batch.x))[:, None] < batch.lengths, batch.x, -1) for batch in batches]
