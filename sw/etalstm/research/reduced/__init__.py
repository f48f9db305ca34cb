"""The two memory savings as software: an LSTM of PyTorch's operations that keeps compressed local gradients (MS1), and
skips cells in its backward pass (MS2). It runs on any device that PyTorch has.
"""

from etalstm.research.reduced.lstm import LSTM

__all__ = ["LSTM"]
