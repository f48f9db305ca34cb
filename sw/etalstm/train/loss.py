"""Losses of a network's outputs, and the gradients of the losses by the outputs."""

import math
import sys
from dataclasses import dataclass

import numpy as np

from etalstm.data import DataSet
from etalstm.data.dataset import LANGUAGE, MEASURES, REGRESS

SCORES = ("accuracy", "perplexity", "rmse", *MEASURES)  # how good a network is, besides its loss


@dataclass(frozen=True)
class Loss:
    """The loss of one batch."""

    total: float  # cross entropy in nats, or squared error, summed over the batch with its weights
    correct: float  # weight of the targets that were ranked first
    weight: float  # sum of the weights

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(self.total + other.total, self.correct + other.correct, self.weight + other.weight)

    @property
    def mean(self) -> float:
        """Cross entropy, or squared error, per target."""
        return self.total / self.weight

    @property
    def accuracy(self) -> float:
        """Share of targets that were ranked first."""
        return self.correct / self.weight

    @property
    def perplexity(self) -> float:
        """Exponential of the mean, at most the largest float64: JSON has no infinity."""
        with np.errstate(over="ignore"):
            return min(float(np.exp(self.mean)), sys.float_info.max)

    def score(self, task: str) -> dict[str, float]:
        """Give the score of a task: perplexity, accuracy, or ``rmse``, the root of the mean squared error."""
        if task == REGRESS:
            return {"rmse": math.sqrt(self.mean)}
        return {"perplexity": self.perplexity} if task == LANGUAGE else {"accuracy": self.accuracy}


def untrained_loss(data: DataSet, batch: int, steps: int) -> float:
    """Give the loss of a network that has learnt nothing, over batches of such sizes.

    Of classes it is the logarithm of their number, in nats: all are equally probable. Of numbers it is their variance
    over the training split, the mean over the numbers of a sequence: every answer is the mean.
    """
    if data.task != REGRESS:
        return math.log(data.classes)
    sums = np.zeros((3, data.classes))
    for drawn in data.epoch("train", batch, steps):
        weights, targets = drawn.weights[:, None].astype(np.float64), drawn.targets.astype(np.float64)
        sums += [(weights * np.broadcast_to(term, targets.shape)).sum(axis=0) for term in (1, targets, targets**2)]
    count, first, second = sums
    return float((second / count - (first / count) ** 2).mean())


def softmax_cross_entropy(
    logits: np.ndarray, targets: np.ndarray, weights: np.ndarray, total_weight: float | None = None
) -> tuple[Loss, np.ndarray]:
    """Compare logits, float32 (N, C), with targets, integers (N,), of weights, float32 (N,).

    Gives the loss of the N targets, and the gradient of the whole batch's mean loss by the logits, float32 (N, C). The
    gradient overwrites `logits`: with 10,000 classes a second such array costs more time than the arithmetic.
    `total_weight` is the sum of the whole batch's weights, if the N targets are a slice of it.
    """
    rows = np.arange(targets.size)
    ranked_first = logits.argmax(axis=1)
    logits -= logits[rows, ranked_first][:, None]
    of_targets = logits[rows, targets]
    gradient = np.exp(logits, out=logits)
    sums = gradient.sum(axis=1, keepdims=True)
    losses = np.log(sums[:, 0]) - of_targets
    correct = ranked_first == targets
    loss = Loss(
        float((losses * weights).sum(dtype=np.float64)),
        float(weights[correct].sum(dtype=np.float64)),
        float(weights.sum(dtype=np.float64)),
    )
    gradient /= sums
    gradient[rows, targets] -= np.float32(1)
    gradient *= (weights / np.float32(loss.weight if total_weight is None else total_weight))[:, None]
    return loss, gradient


def squared_error(
    outputs: np.ndarray, targets: np.ndarray, weights: np.ndarray, total_weight: float | None = None
) -> tuple[Loss, np.ndarray]:
    """Compare numbers with targets, both float32 (N, C), of weights, float32 (N,).

    Gives the loss, for each of the N sequences the mean over its C numbers, and the gradient of the whole batch's mean
    loss by the outputs, float32 (N, C). `total_weight` is as in :func:`softmax_cross_entropy`.
    """
    error = outputs - targets
    squares = np.square(error).mean(axis=1)
    loss = Loss(float((squares * weights).sum(dtype=np.float64)), 0.0, float(weights.sum(dtype=np.float64)))
    total = loss.weight if total_weight is None else total_weight
    return loss, error * (weights * np.float32(2) / np.float32(total * targets.shape[1]))[:, None]
