"""The output layer's passes over a batch whose slices come one after the other."""

import math

import numpy as np

from etalstm.data import Batch
from etalstm.errors import DivergedError
from etalstm.network.slices import slice_ranges, tree_total
from etalstm.train.loss import Loss
from etalstm.train.model import BIAS, OUTPUT, HostModel


class OutputPass:
    """The output layer's forward and backward pass over a batch, slice by slice.

    A pipeline has the slices one after the other. So each has products of its own on every device: BLAS's bits may
    depend on the number of rows.

    Parameters
    ----------
    model : HostModel
    batch : Batch
    slices : int
        S, see :mod:`etalstm.network.slices`.
    iteration : int
        For the message of an error.
    """

    def __init__(self, model: HostModel, batch: Batch, slices: int, iteration: int):
        self._model, self._whole, self._iteration = model, float(batch.weights.sum(dtype=np.float64)), iteration
        ranges = slice_ranges(batch.lengths.size, slices)
        self._parts = [batch.part(slice(sequences.start, sequences.stop)) for sequences in ranges]
        self._losses: dict[int, Loss] = {}
        self._gradients: dict[int, dict[str, np.ndarray]] = {}

    def run(self, number: int, y: np.ndarray) -> np.ndarray:
        """Give the gradient of y, float32, (T, b, H), for a slice of b sequences.

        Raises
        ------
        DivergedError
            If the loss of the slice is not finite.
        """
        part = self._parts[number]
        loss, gradient, rows = self._model.compare(part, y, self._whole, number)
        if not math.isfinite(loss.total):
            raise DivergedError(f"the loss of iteration {self._iteration} is {loss.total}: training has diverged")
        self._losses[number] = loss
        self._gradients[number] = {OUTPUT: gradient.T @ rows, BIAS: gradient.sum(axis=0)}
        into = gradient @ self._model.output_weights
        if self._model.identity.per_step:
            return into.reshape(y.shape)
        dy = np.zeros_like(y)
        dy[part.lengths - 1, np.arange(part.lengths.size)] = into
        return dy

    def end(self) -> Loss:
        """Give the loss of the batch, once all slices have run; the model has the output layer's gradients then."""
        numbers = range(len(self._parts))
        self._model.take(
            {
                name: tree_total([self._gradients[number][name] for number in numbers], len(numbers), np.add)
                for name in (OUTPUT, BIAS)
            }
        )
        return sum((self._losses[number] for number in numbers[1:]), self._losses[0])
