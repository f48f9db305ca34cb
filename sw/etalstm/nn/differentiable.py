"""One layer and direction in PyTorch's own operations, for gradients of gradients: on the host, differentiable any
number of times.

Dimensions: B sequences, T steps, H units.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

INPUTS = 7  # x, h0, c0, w_ih, w_hh, b_ih, b_hh


def layer_forward(inputs: Sequence[Tensor], batch_sizes: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Do what :func:`etalstm.nn.operators.lstm_layer` does, to rounding; θ is 0. `inputs` are its first ``INPUTS``."""
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
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    batch_sizes: Tensor | None,
    reverse: bool,
    gradients: Sequence[Tensor | None],
) -> tuple[Tensor, ...]:
    """Differentiate a layer's backward pass.

    Parameters
    ----------
    outputs : dy (T, B, H) or packed, dh, dc (1, B, H)
        What the backward pass was given.
    inputs : x, h0, c0, w_ih, w_hh, b_ih, b_hh
    batch_sizes, reverse : see :func:`layer_forward`
    gradients : seven tensors
        Gradients of what the backward pass gave: of dx, dh0, dc0, dW_ih, dW_hh, and of db twice.

    Returns
    -------
    gradients of `outputs` and `inputs`
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
