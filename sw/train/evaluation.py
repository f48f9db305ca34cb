"""Evaluation: a network's loss over batches, nothing learnt and nothing kept."""

from collections.abc import Callable, Iterable

import numpy as np

from etalstm.data import Batch
from etalstm.device import Outputs, Session
from etalstm.train.loss import Loss
from etalstm.train.model import HostModel


def forward(session: Session, model: HostModel, x: np.ndarray, lengths: np.ndarray, h=None, c=None) -> Outputs:
    """Run a network over vectors or tokens from the states h and c, zeros if not given.

    Every cell is skipped, where the device can: nothing is kept for a backward pass. The outputs are the same.
    """
    shape = session.shape
    skipped = np.ones((shape.network.layers, shape.steps), bool) if session.reduces else None
    tokens = x if shape.shared_tokens else None
    return session.forward(model.inputs(x), lengths if shape.masked else None, h, c, skipped, tokens)


def evaluate(
    session: Session,
    model: HostModel,
    batches: Iterable[Batch],
    stateful: bool,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Loss, int] | None:
    """Add up the loss of batches.

    Parameters
    ----------
    session, model
    batches : iterable of Batch
    stateful : bool
        Each batch goes on from the states that the one before left.
    stop : callable
        Asked before each batch; if it says so there is no result.

    Returns
    -------
    Loss, and the device's cycles; None if stopped
    """
    loss, cycles, h, c = Loss(0.0, 0.0, 0.0), 0, None, None
    for batch in batches:
        if stop():
            return None
        outputs = forward(session, model, batch.x, batch.lengths, h, c)
        loss += model.evaluate(batch, outputs.y)
        cycles += session.counters()["cycles"]
        if stateful:
            h, c = outputs.h, outputs.c
    return loss, cycles
