"""Forward and backward pass as one call, with a loss that is computed slice by slice."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from etalstm.device.results import Outputs
from etalstm.device.shape import TrainingShape
from etalstm.network.slices import slice_ranges

SliceLoss = Callable[[int, np.ndarray], np.ndarray]
"""From a slice's number and its y, (T, b, H), to the gradient of y."""


Gradients = TypeVar("Gradients")


class BothPasses(ABC, Generic[Gradients]):
    """Something with a forward and a backward pass, which gives `Gradients`.

    Members
    -------
    shape : TrainingShape
    """

    shape: TrainingShape

    @abstractmethod
    def forward(self, x: np.ndarray, *arguments: Any, **options: Any) -> Outputs:
        """Run forward."""

    @abstractmethod
    def backward(self, dy: np.ndarray, *arguments: Any, **options: Any) -> Gradients:
        """Run backward."""

    def forward_backward(
        self, x: np.ndarray, loss: SliceLoss, *, delta_threshold: float = 0.0, measured: bool = False, **inputs: Any
    ) -> tuple[Outputs, Gradients]:
        """Run forward, the loss slice by slice, and backward: for a pipeline the slices overlap.

        Parameters
        ----------
        x : array, float32, (T, B, I)
        loss : function
            Called once for each slice, in any order and maybe by another thread, but one call at a time.
        delta_threshold : float
            See :meth:`etalstm.device.Session.backward`.
        measured : bool
            What the cells contribute will be asked for. Only a pipeline must know it before.
        **inputs
            More of the forward pass: see :meth:`etalstm.device.Session.forward`.

        Raises
        ------
        Exception
            Those of the two passes, and what `loss` raises; the weights stay as they were.
        """
        outputs = self.forward(x, **inputs)
        dy = np.empty_like(outputs.y)
        for number, sequences in enumerate(slice_ranges(self.shape.batch, self.shape.execution.slices)):
            of_slice = slice(sequences.start, sequences.stop)
            dy[:, of_slice] = loss(number, outputs.y[:, of_slice])
        return outputs, self.backward(dy, delta_threshold=delta_threshold)
