"""The operators ``etalstm::lstm_layer`` and ``etalstm::lstm_layer_backward``: one layer and direction.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from etalstm.nn.call import LayerCall, in_reading_order
from etalstm.nn.differentiable import INPUTS, double_backward
from etalstm.nn.engine import find_engine
from etalstm.storage import Storage

Layer = tuple[Tensor, Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@torch.library.custom_op("etalstm::lstm_layer", mutates_args=())
def lstm_layer(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    bias: Tensor,
    lengths: Tensor | None,
    reverse: bool,
    engine: str,
    storage: str,
    thresholds: Sequence[float],
    slices: int,
) -> Layer:
    """Run one layer and direction forward.

    Parameters
    ----------
    x : (T, B, I)
    h0, c0 : (B, H)
    w_ih, w_hh, bias : (4H, I), (4H, H), (4H,)
    lengths : int64, (B,), optional
        Steps of each sequence; default T for all.
    reverse : bool
        The layer reads each sequence from its last step to its first.
    engine : str
        Key of an engine, see :mod:`etalstm.nn.engine`.
    storage, thresholds, slices
        See :class:`etalstm.storage.Storage` and :mod:`etalstm.slices`.

    Returns
    -------
    y (T, B, H), zero at padded steps; h, c (B, H) after the last step that was read
    """
    call = _call(x, h0, c0, w_ih, w_hh, bias, lengths, reverse, storage, thresholds, slices)
    y, h, c = find_engine(engine).forward(call)
    return _tensor(in_reading_order(y, call.lengths, reverse)), _tensor(h), _tensor(c)


@lstm_layer.register_fake
def _(x, h0, c0, w_ih, w_hh, bias, lengths, reverse, engine, storage, thresholds, slices):
    return x.new_empty((*x.shape[:2], h0.shape[1])), torch.empty_like(h0), torch.empty_like(c0)


@torch.library.custom_op("etalstm::lstm_layer_backward", mutates_args=())
def lstm_layer_backward(
    dy: Tensor,
    dh: Tensor,
    dc: Tensor,
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    bias: Tensor,
    lengths: Tensor | None,
    reverse: bool,
    engine: str,
    storage: str,
    thresholds: Sequence[float],
    slices: int,
) -> Gradients:
    """Go back through one layer and direction.

    Parameters
    ----------
    dy, dh, dc : (T, B, H), (B, H), (B, H)
        Gradients of what :func:`lstm_layer` gave for the other arguments.

    Returns
    -------
    gradients of x, h0, c0, w_ih, w_hh, bias
    """
    call = _call(x, h0, c0, w_ih, w_hh, bias, lengths, reverse, storage, thresholds, slices)
    dy = in_reading_order(dy.numpy(), call.lengths, reverse)
    dx, *others = find_engine(engine).backward(call, dy, dh.numpy(), dc.numpy())
    return tuple(_tensor(array) for array in (in_reading_order(dx, call.lengths, reverse), *others))


@lstm_layer_backward.register_fake
def _(dy, dh, dc, x, h0, c0, w_ih, w_hh, bias, lengths, reverse, engine, storage, thresholds, slices):
    return tuple(tensor.new_empty(tensor.shape) for tensor in (x, h0, c0, w_ih, w_hh, bias))


def _save(ctx, inputs, output) -> None:
    *tensors, lengths, reverse, engine, storage, thresholds, slices = inputs
    ctx.save_for_backward(*tensors, lengths)
    ctx.rest = reverse, engine, storage, thresholds, slices
    ctx.engine = find_engine(engine)  # stays open as long as somebody may go back through this pass


def _save_forward(ctx, inputs, output) -> None:
    _save(ctx, inputs, output)
    ctx.claim = ctx.engine.claim()


def _backward(ctx, dy, dh, dc):
    gradients = lstm_layer_backward(dy, dh, dc, *ctx.saved_tensors, *ctx.rest)
    ctx.claim = None
    return (*gradients, *_nothing(ctx))


def _double_backward(ctx, *gradients):
    *tensors, lengths = ctx.saved_tensors
    outputs, inputs = tensors[:-INPUTS], tensors[-INPUTS:]
    return (*double_backward(outputs, inputs, lengths, ctx.rest[0], gradients), *_nothing(ctx))


def _nothing(ctx) -> tuple:
    """Give the gradients of the arguments that have none: the lengths and the rest."""
    return (None,) * (1 + len(ctx.rest))


lstm_layer.register_autograd(_backward, setup_context=_save_forward)
lstm_layer_backward.register_autograd(_double_backward, setup_context=_save)


def _call(x, h0, c0, w_ih, w_hh, bias, lengths, reverse, storage, thresholds, slices) -> LayerCall:
    lengths = None if lengths is None else lengths.numpy()
    arrays = (tensor.numpy() for tensor in (h0, c0, w_ih, w_hh, bias))
    x = in_reading_order(x.numpy(), lengths, reverse)
    h0, c0, w_ih, w_hh, bias = arrays
    return LayerCall(x, lengths, h0, c0, w_ih, w_hh, bias, Storage(storage, tuple(thresholds)), slices)


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
