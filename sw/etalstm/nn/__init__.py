"""PyTorch's LSTM on the devices of this package; needs the extra ``torch``.

``lstm`` and ``hlstm`` are the modules; begin there. ``functional`` runs a network of layers, ``operators`` registers
one layer with PyTorch, ``engine`` and ``pool`` give it sessions of a device. ``optim`` updates weights on the device,
``recompute`` saves memory, ``explain`` shows how a model runs, ``onnx`` reads and writes files.
"""

from etalstm.nn.explain import Explanation, explain
from etalstm.nn.functional import accelerate
from etalstm.nn.hlstm import HLSTM
from etalstm.nn.lstm import LSTM
from etalstm.nn.onnx import read_onnx, write_onnx

__all__ = ["HLSTM", "LSTM", "Explanation", "accelerate", "explain", "read_onnx", "write_onnx"]
