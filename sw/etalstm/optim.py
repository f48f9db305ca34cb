"""The name that :mod:`etalstm.nn.optim` had before version 0.2."""

from etalstm.nn.optim import SGD

__all__ = ["SGD"]
