"""PyTorch's LSTM on the devices of this package; needs the extra ``torch``."""

from etalstm.nn.accelerate import accelerate
from etalstm.nn.lstm import LSTM

__all__ = ["LSTM", "accelerate"]
