"""The operators ``etalstm::lstm_layer`` and ``etalstm::lstm_layer_backward``: one layer and direction.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor
from torch.func import vjp
from torch.library import Library, infer_schema, register_fake

from etalstm.network.execution import Execution
from etalstm.nn.call import LayerCall, Packing, in_reading_order
from etalstm.nn.engine import find_engine
from etalstm.nn.transforms import (
    Transformable,
    functionalized,
    is_dispatched,
    is_functionalized,
    is_transformed,
    untraced,
)

INPUTS = 7  # x, h0, c0, w_ih, w_hh, b_ih, b_hh


def layer_forward(inputs: Sequence[Tensor], batch_sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Do what :func:`lstm_layer` does, to rounding, in operations that PyTorch can differentiate any number of times.

    θ is 0. `inputs` are the first ``INPUTS`` of the operator.
    """
    x, h0, c0, w_ih, w_hh, b_ih, b_hh = inputs
    sizes = [x.shape[1]] * x.shape[0] if batch_sizes is None else batch_sizes.tolist()
    steps = list(x.unbind()) if batch_sizes is None else list(x.split(sizes))
    h, c = h0[0], c0[0]
    outputs: list[Tensor] = []
    for t in reversed(range(len(sizes))) if reverse else range(len(sizes)):
        count = sizes[t]  # the sequences that have this step are the first ones
        i, f, g, o = (steps[t] @ w_ih.T + h[:count] @ w_hh.T + b_ih + b_hh).chunk(4, dim=1)
        c_new = f.sigmoid() * c[:count] + i.sigmoid() * g.tanh()
        outputs.append(o.sigmoid() * c_new.tanh())
        h, c = torch.cat([outputs[-1], h[count:]]), torch.cat([c_new, c[count:]])
    if reverse:
        outputs.reverse()
    return (torch.stack if batch_sizes is None else torch.cat)(outputs), h[None], c[None]


def double_backward(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], batch_sizes: Tensor | None, reverse: bool,
    gradients: Sequence[Tensor],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Differentiate a layer's backward pass: give gradients of `outputs` and `inputs`.

    `outputs` are what the backward pass was given: dy (T, B, H) or packed, dh, dc (1, B, H). `inputs` are x, h0, c0,
    w_ih, w_hh, b_ih, b_hh. `gradients` are those of what the backward pass gave: of dx, dh0, dc0, dW_ih, dW_hh, and of
    db twice.
    """

    def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
        outputs, inputs = tensors[:-INPUTS], tensors[-INPUTS:]
        return vjp(lambda *inputs: layer_forward(inputs, batch_sizes, reverse), *inputs)[1](outputs)

    return vjp(backward, *outputs, *inputs)[1](tuple(gradients))


REST = 4  # arguments that are no tensors: reverse, engine, execution, delta_threshold
Layer = tuple[Tensor, Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


@untraced
def _forward_kernel(
    x: Tensor, h0: Tensor, c0: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor,
    batch_sizes: Tensor | None, reverse: bool, engine: str, execution: str, delta_threshold: float,
) -> Layer:  # fmt: skip
    """Run one layer and direction forward.

    Parameters
    ----------
    x : (T, B, I), or (steps of all sequences, I) if they are packed
    h0, c0 : (1, B, H)
    w_ih, w_hh, b_ih, b_hh : (4H, I), (4H, H), (4H,), (4H,)
    batch_sizes : int64, (T,), optional    Sequences of each step, of a ``PackedSequence``. Default: all have T steps.
    reverse : bool                         the layer reads each sequence from its last step to its first
    engine : str                           key of an engine, see :mod:`etalstm.nn.engine`
    execution : str                        how the layer is computed: :attr:`etalstm.network.execution.Execution.text`
    delta_threshold : float                of δ, in the backward pass: see :meth:`etalstm.device.Session.backward`

    Returns
    -------
    y (T, B, H) or packed as x is; h, c (1, B, H) after the last step that was read
    """
    order = _StepOrder(batch_sizes, reverse)
    call = order.call(x, h0, c0, (w_ih, w_hh, b_ih, b_hh), execution)
    y, h, c = find_engine(engine).forward(call)
    return _tensor(order.leave(y)), _tensor(h[None]), _tensor(c[None])


def _forward_shapes(x, h0, c0, *_):
    return x.new_empty((*x.shape[:-1], h0.shape[2])), torch.empty_like(h0), torch.empty_like(c0)


@untraced
def _backward_kernel(
    dy: Tensor, dh: Tensor, dc: Tensor, x: Tensor, h0: Tensor, c0: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor,
    b_hh: Tensor, batch_sizes: Tensor | None, reverse: bool, engine: str, execution: str, delta_threshold: float,
) -> Gradients:  # fmt: skip
    """Go back through one layer and direction: give gradients of x, h0, c0, w_ih, w_hh, b_ih, b_hh.

    dy (T, B, H) or packed, dh, dc (1, B, H) are gradients of what :func:`lstm_layer` gave for the other arguments.
    """
    order = _StepOrder(batch_sizes, reverse)
    make_call = partial(order.call, x, h0, c0, (w_ih, w_hh, b_ih, b_hh), execution)
    gradients = order.enter(dy), dh.numpy()[0], dc.numpy()[0]
    dx, dh0, dc0, dw_ih, dw_hh, db = find_engine(engine).backward(make_call, *gradients, delta_threshold)
    states = _tensor(order.leave(dx)), _tensor(dh0[None]), _tensor(dc0[None])
    return *states, _tensor(dw_ih), _tensor(dw_hh), _tensor(db), _tensor(db.copy())


def _backward_shapes(dy, dh, dc, *inputs):
    return tuple(tensor.new_empty(tensor.shape) for tensor in inputs[:INPUTS])


class _Layer(Transformable):
    """The operator :func:`lstm_layer` with its gradients."""

    @staticmethod
    def forward(*arguments):
        return _below_autograd(lstm_layer, _forward_kernel, arguments)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _save(ctx, inputs)
        # Under a transform the pass below has claimed it, or there is one for each entry of a batch.
        ctx.claim = None if is_transformed() else ctx.engine.claim()

    @staticmethod
    def backward(ctx, dy, dh, dc):
        ctx.engine.use(ctx.claim)
        given = dy, dh, dc, *ctx.saved_tensors
        dispatched = torch.is_grad_enabled() or is_dispatched(given[:-1])  # the last one is batch_sizes
        go_back = lstm_layer_backward if dispatched else _backward_kernel
        gradients = go_back(*given, *ctx.rest)
        ctx.claim = None
        return (*gradients, *_nothing(ctx))


class _LayerBackward(Transformable):
    """The operator :func:`lstm_layer_backward` with its gradients."""

    @staticmethod
    def forward(*arguments):
        return _below_autograd(lstm_layer_backward, _backward_kernel, arguments)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        _save(ctx, inputs)

    @staticmethod
    def backward(ctx, *gradients):
        reverse, _, text, delta_threshold = ctx.rest
        execution = Execution.from_text(text)
        theta, refresh = max(execution.storage.of_kinds), execution.delta_inputs.refresh
        if execution.arithmetic.exact:
            raise NotImplementedError(
                f"there are no gradients of gradients with arithmetic {execution.arithmetic.name}"
            )
        if theta or delta_threshold or refresh != 1:
            raise NotImplementedError(
                "gradients of gradients need theta 0, delta_threshold 0 and refresh 1 (no delta inputs), as a pass "
                f"that prunes has none; got theta {theta}, delta_threshold {delta_threshold}, refresh {refresh}"
            )
        *tensors, batch_sizes = ctx.saved_tensors
        outputs, inputs = tensors[:-INPUTS], tensors[-INPUTS:]
        return (*double_backward(outputs, inputs, batch_sizes, reverse, gradients), *_nothing(ctx))


def _save(ctx, inputs) -> None:
    *tensors, batch_sizes = inputs[:-REST]
    ctx.save_for_backward(*tensors, batch_sizes)
    ctx.rest = inputs[-REST:]
    ctx.engine = find_engine(ctx.rest[1])  # stays open as long as somebody may go back through this pass


def _nothing(ctx) -> tuple:
    """Give the gradients of the arguments that have none: batch_sizes and the rest."""
    return (None,) * (1 + len(ctx.rest))


def _below_autograd(operator: Callable, kernel: Callable, arguments: tuple) -> tuple[Tensor, ...]:
    if not is_dispatched(one for one in arguments[:-REST] if one is not None):
        return kernel(*arguments)
    with torch._C._AutoDispatchBelowAutograd():
        return operator(*arguments)


_LIBRARY = Library("etalstm", "DEF")


def _operator(name: str, kernel: Callable, shapes: Callable, gradients: type[Transformable]) -> Callable:
    """Define an operator.

    PyTorch's own ``custom_op`` knows no transforms: in forward mode it gives zeros.
    """
    _LIBRARY.define(name + infer_schema(kernel, mutates_args=()), tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(torch.ops.etalstm, name).default

    def transformed(*arguments):
        return functionalized(operator, arguments) if is_functionalized() else gradients.apply(*arguments)

    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, gradients.apply, "Autograd")
    _LIBRARY.impl(name, transformed, "FuncTorchDynamicLayerFrontMode")  # where a transform of torch.func runs
    register_fake(f"etalstm::{name}", shapes, lib=_LIBRARY)
    return operator


lstm_layer = _operator("lstm_layer", _forward_kernel, _forward_shapes, _Layer)
lstm_layer_backward = _operator("lstm_layer_backward", _backward_kernel, _backward_shapes, _LayerBackward)


def run_layer(*arguments) -> Layer:
    """Do what :func:`lstm_layer` does, past the dispatcher where nobody else has to see the call."""
    run = lstm_layer if is_dispatched(arguments[:INPUTS]) else _Layer.apply
    return run(*arguments)


class _StepOrder:
    """Between the tensors of an operator and the arrays of an engine: packed or not, and which step is read first."""

    def __init__(self, batch_sizes: Tensor | None, reverse: bool):
        self._packing = None if batch_sizes is None else packing_of(batch_sizes.numpy().tobytes())
        self._lengths = None if self._packing is None else self._packing.lengths
        self._reverse = reverse

    def enter(self, steps: Tensor) -> np.ndarray:
        """Give (T, B, N) in the order in which the layer reads it."""
        array = self._packing.pad(steps.numpy()) if self._packing else steps.numpy()
        return in_reading_order(array, self._lengths, self._reverse)

    def leave(self, array: np.ndarray) -> np.ndarray:
        """Undo :meth:`enter`."""
        array = in_reading_order(array, self._lengths, self._reverse)
        return self._packing.pack(array) if self._packing else array

    def call(self, x, h0, c0, parameters, execution: str) -> LayerCall:
        """Give what an engine computes."""
        h0, c0, w_ih, w_hh, b_ih, b_hh = (tensor.numpy() for tensor in (h0, c0, *parameters))
        how = Execution.from_text(execution)
        return LayerCall(self.enter(x), self._lengths, h0[0], c0[0], how, w_ih, w_hh, b_ih + b_hh)


@lru_cache(maxsize=16)  # asked for by each layer and direction of a batch, there and back
def packing_of(batch_sizes: bytes) -> Packing:
    """Give where the steps of a packed batch lie, of its ``batch_sizes`` as int64."""
    return Packing(np.frombuffer(batch_sizes, np.int64))


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))
