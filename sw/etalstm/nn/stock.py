"""PyTorch's own LSTM function, and how another one takes its place."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

STOCK = torch._VF.lstm


class InPlaceOfStock(TorchFunctionMode):
    """While active, other functions run where ``torch._VF.lstm`` is called. The checks of ``torch.nn.LSTM`` still run.

    Parameters
    ----------
    padded, packed : callable
        For sequences of one length, and for the data of a ``PackedSequence``. They take the arguments of
        ``torch._VF.lstm`` and give what it gives.
    """

    def __init__(self, padded: Callable, packed: Callable):
        super().__init__()
        self._padded, self._packed = padded, packed

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Run the function that is meant for these arguments, everything else as it is."""
        if function is not STOCK:
            return function(*args, **(kwargs or {}))
        return (self._packed if isinstance(args[1], Tensor) else self._padded)(*args)
