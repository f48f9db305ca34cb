"""A cell's equations in PyTorch's operations, for many steps at once.

Dimensions: N cells of one sequence each, H units. The order of kinds is that of :data:`etalstm.network.storage.KINDS`.
"""

import torch
from torch import Tensor

from etalstm.network.shape import GATES
from etalstm.network.storage import KINDS

I, F, G, O, S, R = range(len(KINDS))
_sigmoid_gradient = torch.ops.aten.sigmoid_backward.grad_input
_tanh_gradient = torch.ops.aten.tanh_backward.grad_input


def activate(sums: Tensor) -> Tensor:
    """Make the gates i, f, g, o of their sums, in place: (N, 4, H)."""
    sums[:, : F + 1].sigmoid_()
    sums[:, G].tanh_()
    sums[:, O].sigmoid_()
    return sums


def local_gradients(gates: Tensor, c_before: Tensor, tanh_c: Tensor) -> Tensor:
    """Multiply out what a cell's backward pass needs of its forward pass.

    Parameters
    ----------
    gates : (N, 4, H)           activated i, f, g, o
    c_before, tanh_c : (N, H)   the state that enters the cell, and the hyperbolic tangent of that which leaves it

    Returns
    -------
    (N, 6, H), contiguous       P_i, P_f, P_g, P_o, P_s, P_r as :mod:`etalstm.network.cells.lstm` declares them, to
    rounding
    """
    i, f, g, o = gates.unbind(1)
    p = gates.new_empty(len(gates), len(KINDS), gates.shape[2])
    _sigmoid_gradient(g, i, grad_input=p[:, I])
    _sigmoid_gradient(c_before, f, grad_input=p[:, F])
    _tanh_gradient(i, g, grad_input=p[:, G])
    _sigmoid_gradient(tanh_c, o, grad_input=p[:, O])
    _tanh_gradient(o, tanh_c, grad_input=p[:, S])
    p[:, R] = f
    return p


def cell_backward(p: Tensor, dh: Tensor, dc: Tensor) -> Tensor:
    """Go back through a cell, in place.

    Parameters
    ----------
    p : (B, 6, H)
        Local gradients. Their first four become the gradients δ of the gates' sums.
    dh, dc : (B, H)
        Gradients of what leaves the cell. `dc` becomes the gradient of the state that enters it.

    Returns
    -------
    δ, (B, 4H), a view of `p`
    """
    dc.addcmul_(dh, p[:, S])
    p[:, : G + 1].mul_(dc[:, None])
    p[:, O].mul_(dh)
    dc.mul_(p[:, R])
    return p[:, :GATES].flatten(1)
