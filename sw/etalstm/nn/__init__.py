"""PyTorch's LSTM on the devices of this package; needs the extra ``torch``."""

from etalstm.nn.explain import Explanation, explain
from etalstm.nn.functional import accelerate
from etalstm.nn.hlstm import HLSTM
from etalstm.nn.lstm import LSTM
from etalstm.nn.onnx import read_onnx, write_onnx

__all__ = ["HLSTM", "LSTM", "Explanation", "accelerate", "explain", "read_onnx", "write_onnx"]
