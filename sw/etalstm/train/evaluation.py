"""Evaluation: a network's loss over batches, nothing learnt and nothing kept."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import overload

import numpy as np

from etalstm.data import Batch, DataSet
from etalstm.data.dataset import REGRESS
from etalstm.device import Outputs
from etalstm.train.dropout import AnySession
from etalstm.train.loss import Loss
from etalstm.train.model import HostModel


@dataclass(frozen=True)
class Evaluation:
    """What a network does on some batches.

    Members
    -------
    loss : Loss
    measures : dict from name to float    means of :meth:`etalstm.data.DataSet.measures`
    cycles : int                          the device's
    """

    loss: Loss
    measures: dict[str, float]
    cycles: int

    def scores(self, task: str) -> dict[str, float]:
        """Give what a task is judged by, and the data set's own measures."""
        return self.loss.score(task) | self.measures


def forward(
    session: AnySession, model: HostModel, x: np.ndarray, lengths: np.ndarray, h: np.ndarray | None = None,
    c: np.ndarray | None = None,
) -> Outputs:  # fmt: skip
    """Run a network over vectors or tokens from the states h and c, zeros if not given.

    Every cell is skipped, where the device can: nothing is kept for a backward pass. The outputs are the same.
    """
    shape = session.shape
    skipped = np.ones((shape.network.layers, len(x)), bool) if session.reduces else None
    tokens = x if shape.execution.shared_tokens else None
    return session.forward(model.inputs(x), lengths if shape.masked else None, h, c, skipped, tokens)


@overload
def evaluate(session: AnySession, model: HostModel, batches: Iterable[Batch], data: DataSet) -> Evaluation: ...


@overload
def evaluate(
    session: AnySession, model: HostModel, batches: Iterable[Batch], data: DataSet, stop: Callable[[], bool]
) -> Evaluation | None: ...


def evaluate(
    session: AnySession, model: HostModel, batches: Iterable[Batch], data: DataSet,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation | None:  # fmt: skip
    """Add up the loss of batches.

    Parameters
    ----------
    batches : iterable of Batch
    data : DataSet
        That they are of. If it is stateful, each batch goes on from the states that the one before left.
    stop : callable
        Asked before each batch; if it says so there is no result.

    Returns
    -------
    Evaluation; None if stopped
    """
    loss, cycles, h, c = Loss(0.0, 0.0, 0.0), 0, None, None
    measured: dict[str, float] = {}
    for batch in batches:
        if stop():
            return None
        outputs = forward(session, model, batch.x, batch.lengths, h, c)
        loss += model.evaluate(batch, outputs.y)
        if data.task == REGRESS:
            found = data.measures(model.outputs(outputs.y, batch.lengths), batch.targets)
            for name, values in found.items():
                measured[name] = measured.get(name, 0.0) + float((values * batch.weights).sum())
        cycles += session.counters()["cycles"]
        if data.stateful:
            h, c = outputs.h, outputs.c
    return Evaluation(loss, {name: value / loss.weight for name, value in measured.items()}, cycles)
