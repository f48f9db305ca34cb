"""One layer and direction in PyTorch's own operations, for gradients of gradients: on the host, differentiable any
number of times.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

INPUTS = 6  # x, h0, c0, w_ih, w_hh, bias


def layer_forward(x, h0, c0, w_ih, w_hh, bias, lengths: Tensor | None, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Do what :func:`etalstm.nn.operators.lstm_layer` does, to rounding; θ is 0."""
    steps = range(x.shape[0])
    h, c, outputs = h0, c0, [None] * x.shape[0]
    for t in reversed(steps) if reverse else steps:
        i, f, g, o = (x[t] @ w_ih.T + h @ w_hh.T + bias).chunk(4, dim=1)
        c_new = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h_new = o.sigmoid() * c_new.tanh()
        if lengths is not None:
            live = (t < lengths)[:, None]
            outputs[t] = torch.where(live, h_new, torch.zeros_like(h_new))
            h_new, c_new = torch.where(live, h_new, h), torch.where(live, c_new, c)
        else:
            outputs[t] = h_new
        h, c = h_new, c_new
    return torch.stack(outputs), h, c


def double_backward(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    lengths: Tensor | None,
    reverse: bool,
    gradients: Sequence[Tensor | None],
) -> tuple[Tensor, ...]:
    """Differentiate a layer's backward pass.

    Parameters
    ----------
    outputs : dy (T, B, H), dh, dc (B, H)
        What the backward pass was given.
    inputs : x, h0, c0, w_ih, w_hh, bias
    lengths, reverse : see :func:`layer_forward`
    gradients : six tensors
        Gradients of what the backward pass gave: of dx, dh0, dc0, dW_ih, dW_hh, db.

    Returns
    -------
    gradients of `outputs` and `inputs`
    """
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        # Views of their own: a tensor that is given twice, as h0 and as c0, has two gradients.
        outputs, inputs = ([_leaf(tensor, again) for tensor in tensors] for tensors in (outputs, inputs))
        results = layer_forward(*inputs, lengths, reverse)
        first = torch.autograd.grad(results, inputs, outputs, create_graph=True)
        return torch.autograd.grad(first, (*outputs, *inputs), gradients, create_graph=again, materialize_grads=True)


def _leaf(tensor: Tensor, differentiable: bool) -> Tensor:
    if differentiable and tensor.requires_grad:
        return tensor.view_as(tensor)
    return tensor.detach().requires_grad_()
