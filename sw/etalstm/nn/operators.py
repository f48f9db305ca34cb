"""The operators ``etalstm::lstm_layer`` and ``etalstm::lstm_layer_backward``: one layer and direction.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import _get_current_dispatch_mode

from etalstm.network.execution import Execution
from etalstm.nn.call import LayerCall, Packing, in_reading_order
from etalstm.nn.engine import find_engine

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
    gradients: Sequence[Tensor | None],
) -> tuple[Tensor, ...]:  # fmt: skip
    """Differentiate a layer's backward pass: give gradients of `outputs` and `inputs`.

    `outputs` are what the backward pass was given: dy (T, B, H) or packed, dh, dc (1, B, H). `inputs` are x, h0, c0,
    w_ih, w_hh, b_ih, b_hh. `gradients` are those of what the backward pass gave: of dx, dh0, dc0, dW_ih, dW_hh, and of
    db twice.
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views of their own: a tensor that is given twice, as h0 and as c0, has two gradients.
        outputs, inputs = ([_leaf(tensor, again) for tensor in tensors] for tensors in (outputs, inputs))
        results = layer_forward(inputs, batch_sizes, reverse)
        first = torch.autograd.grad(results, inputs, outputs, create_graph=True)
        return torch.autograd.grad(first, (*outputs, *inputs), gradients, create_graph=again, materialize_grads=True)


def _leaf(tensor: Tensor, differentiable: bool) -> Tensor:
    if differentiable and tensor.requires_grad:
        return tensor.view_as(tensor)
    return tensor.detach().requires_grad_()


_PLAIN = (Tensor, Parameter)


def is_watched() -> bool:
    """Tell whether a compiler, a tracer, a mode, or a transform of ``torch.func`` sees what is called."""
    return (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._len_torch_function_stack() > 0
        or _get_current_dispatch_mode() is not None
        or torch._C._functorch.peek_interpreter_stack() is not None
    )


def is_dispatched(tensors: Iterable[Tensor]) -> bool:
    """Tell whether somebody between an operator and its kernel has to see the call.

    That is a compiler, a tracer, a ``TorchDispatchMode``, a transform of ``torch.func``, a subclass of tensors, or
    tensors that are not in the host's memory. If there is nobody, a kernel may be called directly. The dispatcher takes
    0.4 ms there and back, as the caches hold the data of a layer and none of its code.
    """
    return is_watched() or not all(type(tensor) in _PLAIN and tensor.is_cpu for tensor in tensors)


REST = 4  # arguments that are no tensors: reverse, engine, execution, delta_threshold
Layer = tuple[Tensor, Tensor, Tensor]
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]


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


lstm_layer = torch.library.custom_op("etalstm::lstm_layer", _forward_kernel, mutates_args=())


@lstm_layer.register_fake
def _(x, h0, c0, *_):
    return x.new_empty((*x.shape[:-1], h0.shape[2])), torch.empty_like(h0), torch.empty_like(c0)


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


lstm_layer_backward = torch.library.custom_op("etalstm::lstm_layer_backward", _backward_kernel, mutates_args=())


@lstm_layer_backward.register_fake
def _(dy, dh, dc, *inputs):
    return tuple(tensor.new_empty(tensor.shape) for tensor in inputs[:INPUTS])


def _save(ctx, inputs, output) -> None:
    *tensors, batch_sizes = inputs[:-REST]
    ctx.save_for_backward(*tensors, batch_sizes)
    ctx.rest = inputs[-REST:]
    ctx.engine = find_engine(ctx.rest[1])  # stays open as long as somebody may go back through this pass


def _save_forward(ctx, inputs, output) -> None:
    _save(ctx, inputs, output)
    ctx.claim = ctx.engine.claim()


def _backward(ctx, dy, dh, dc):
    ctx.engine.use(ctx.claim)
    given = dy, dh, dc, *ctx.saved_tensors
    dispatched = torch.is_grad_enabled() or is_dispatched(given[:-1])  # the last one is batch_sizes
    go_back = lstm_layer_backward if dispatched else _backward_kernel
    gradients = go_back(*given, *ctx.rest)
    ctx.claim = None
    return (*gradients, *_nothing(ctx))


def _double_backward(ctx, *gradients):
    reverse, _, text, delta_threshold = ctx.rest
    execution = Execution.from_text(text)
    theta, refresh = max(execution.storage.of_kinds), execution.delta_inputs.refresh
    if theta or delta_threshold or refresh != 1:
        raise NotImplementedError(
            "gradients of gradients need theta 0, delta_threshold 0 and refresh 1 (no delta inputs), as a pass that "
            f"prunes has none; got theta {theta}, delta_threshold {delta_threshold}, refresh {refresh}"
        )
    *tensors, batch_sizes = ctx.saved_tensors
    outputs, inputs = tensors[:-INPUTS], tensors[-INPUTS:]
    return (*double_backward(outputs, inputs, batch_sizes, reverse, gradients), *_nothing(ctx))


def _nothing(ctx) -> tuple:
    """Give the gradients of the arguments that have none: batch_sizes and the rest."""
    return (None,) * (1 + len(ctx.rest))


lstm_layer.register_autograd(_backward, setup_context=_save_forward)
lstm_layer_backward.register_autograd(_double_backward, setup_context=_save)


class _UndispatchedLayer(torch.autograd.Function):
    """The operator :func:`lstm_layer` and its gradients, without the dispatcher."""

    @staticmethod
    def forward(ctx, *arguments):
        output = _forward_kernel(*arguments)
        _save_forward(ctx, arguments, output)
        return output

    backward = staticmethod(_backward)


def run_layer(*arguments) -> Layer:
    """Do what :func:`lstm_layer` does, past the dispatcher where nobody else has to see the call."""
    run = lstm_layer if is_dispatched(arguments[:INPUTS]) else _UndispatchedLayer.apply
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
