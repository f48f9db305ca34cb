"""One layer whose backward pass needs only what the storage policy keeps.

Dimensions: R rows (see :mod:`etalstm.nn.reduced.plan`), B sequences, T steps, I inputs, H units.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from etalstm.network import GATES
from etalstm.nn.reduced.cell import activate, cell_backward, local_gradients
from etalstm.nn.reduced.compression import Compressed, compress, expand
from etalstm.nn.reduced.plan import Block, Plan
from etalstm.storage import LayerStorage

RESULTS = 3  # y, h, c; what is stored follows them
PER_BLOCK = 2  # stored tensors: bits and words, or gates and the states that enter the cells


class ReducedLayer(torch.autograd.Function):
    """A layer's passes; see :func:`run_layer`.

    The forward pass gives what is stored as further results. So PyTorch sees every tensor that is kept from the forward
    to the backward pass, and frees them with the graph.
    """

    @staticmethod
    def forward(x, h0, c0, w_ih, w_hh, bias, plan, storage, stores, norms):
        """Run the layer; `stores` says whether a backward pass may follow."""
        return _Forward(plan, storage, stores).run(x, h0, c0, w_ih, w_hh, bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save the layer's input, output and weights, and what is stored."""
        x, h0, _, w_ih, w_hh, _, ctx.plan, ctx.storage, _, ctx.norms = inputs
        y, stored = output[0], output[RESULTS:]
        ctx.mark_non_differentiable(*stored)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, h0, w_ih, w_hh, y, *stored)

    @staticmethod
    @once_differentiable
    def backward(ctx, dy, dh, dc, *_):
        """Give the gradients of x, h0, c0, w_ih, w_hh and the bias."""
        with torch.autocast(ctx.saved_tensors[0].device.type, enabled=False):
            gradients = _Backward(ctx).run(dy, dh, dc)
        return (*gradients, None, None, None, None)


def run_layer(
    x: Tensor,
    states: tuple[Tensor, Tensor],
    weights: tuple[Tensor, Tensor, Tensor | None],
    plan: Plan,
    storage: LayerStorage,
    norms: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer.

    Parameters
    ----------
    x : (R, I)
    states : h0, c0, (B, H)
    weights : w_ih (4H, I), w_hh (4H, H), bias (4H,) or None
    plan : Plan
    storage : LayerStorage
    norms : (R,), optional
        The backward pass fills it with ‖δ‖·‖xh‖; rows of skipped cells stay as they are.

    Returns
    -------
    y (R, H); h, c (B, H) after each sequence's last step
    """
    tensors = (x, *states, *weights)
    stores = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    return ReducedLayer.apply(*tensors, plan, storage, stores, norms)[:RESULTS]


class _Forward:
    """A forward pass, and what it stores of each block that is not skipped."""

    def __init__(self, plan: Plan, storage: LayerStorage, stores: bool):
        self._plan, self._storage, self._stores = plan, storage, stores

    def run(self, x, h0, c0, w_ih, w_hh, bias) -> tuple[Tensor, ...]:
        """Give y, h, c, and the stored tensors of all blocks."""
        self._limits = x.new_tensor(self._storage.thresholds).clamp_(min=torch.finfo(x.dtype).tiny)
        y, h, c, stored = x.new_empty(len(x), h0.shape[1]), h0, c0.clone(), []
        recurrent = w_hh.T.contiguous()  # for many short products: a fifth faster on a CPU
        for block in self._plan.blocks:
            rows = x[block.rows]
            sums = rows @ w_ih.T if bias is None else torch.addmm(bias, rows, w_ih.T)
            h, kept = self._block(block, sums.unflatten(1, (GATES, -1)), recurrent, h, c, y)
            stored += kept
        return y, torch.cat([y[rows] for rows in self._plan.ends()]), c, *stored

    def _block(self, block: Block, gates: Tensor, recurrent, h, c, y) -> tuple[Tensor, Sequence[Tensor]]:
        """Run a block's steps; fills `y`, changes `c`. Gives h after the last step, and what is stored."""
        stores = self._stores and not block.skipped
        c_before, tanh_c = (y.new_empty(len(gates), y.shape[1]) if stores else None for _ in range(2))
        for step in block.steps:
            count = self._plan.sizes[step]
            first = self._plan.starts[step] - block.rows.start
            own = slice(first, first + count)
            gates[own].flatten(1).addmm_(h[:count], recurrent)
            i, f, g, o = activate(gates[own]).unbind(1)
            state = c[:count]
            if stores:
                c_before[own] = state
            state.mul_(f).addcmul_(i, g)
            tanh = torch.tanh(state, out=tanh_c[own]) if stores else state.tanh()
            h = torch.mul(o, tanh, out=y[self._plan.rows(step)])
        return h, self._keep(gates, c_before, tanh_c) if stores else ()

    def _keep(self, gates: Tensor, c_before: Tensor, tanh_c: Tensor) -> tuple[Tensor, Tensor]:
        """Give the tensors that are stored of a block."""
        if not self._storage.compressed:
            return gates, c_before
        word = torch.bfloat16 if self._storage.bf16 else gates.dtype
        stored = compress(local_gradients(gates, c_before, tanh_c), self._limits, word)
        return stored.bits, stored.words


class _Backward:
    """A backward pass; gradients of what needs none are None.

    Parameters
    ----------
    ctx
        Of :class:`ReducedLayer`.
    """

    def __init__(self, ctx):
        self._plan, self._storage, self._norms = ctx.plan, ctx.storage, ctx.norms
        self._x, self._h0, self._w_ih, self._w_hh, self._y, *self._stored = ctx.saved_tensors
        like = (self._x, None, None, self._w_ih, self._w_hh, self._w_hh[:, 0])
        needed = zip(like, ctx.needs_input_grad, strict=False)
        self._gradients = [None if tensor is None or not need else torch.zeros_like(tensor) for tensor, need in needed]

    def run(self, dy, dh, dc) -> tuple[Tensor | None, ...]:
        """Give the gradients of x, h0, c0, w_ih, w_hh and the bias."""
        dh, dc = (torch.zeros_like(self._h0) if tensor is None else tensor.clone() for tensor in (dh, dc))
        stored = list(self._stored)
        for block in reversed(self._plan.blocks):
            if block.skipped:
                dh.zero_()
                dc.zero_()
                continue
            second, first = stored.pop(), stored.pop()
            delta = self._steps(block, self._local_gradients(block, first, second), dy, dh, dc)
            self._add(block, delta)
        dx, _, _, *others = self._gradients
        return dx, dh, dc, *others

    def _local_gradients(self, block: Block, first: Tensor, second: Tensor) -> Tensor:
        """Give P of a block, (N, 6, H), from the two tensors that are stored of it."""
        if self._storage.compressed:
            return expand(Compressed(first, second), self._y.shape[1], self._y.dtype)
        i, f, g, _ = first.unbind(1)
        return local_gradients(first, second, (second * f).addcmul_(i, g).tanh_())

    def _steps(self, block: Block, p: Tensor, dy, dh, dc) -> Tensor:
        """Go back through a block's steps; changes `dh` and `dc`. Gives δ, (N, 4H), in the place of `p`."""
        for step in reversed(block.steps):
            count = self._plan.sizes[step]
            first = self._plan.starts[step] - block.rows.start
            dh_out = dh[:count] if dy is None else dh[:count].add_(dy[self._plan.rows(step)])
            delta = cell_backward(p[first : first + count], dh_out, dc[:count])
            torch.mm(delta, self._w_hh, out=dh_out)
        return p[:, :GATES].flatten(1)

    def _add(self, block: Block, delta: Tensor) -> None:
        """Put a block's δ, (N, 4H), into the gradients."""
        x, h = self._x[block.rows], self._h_before(block)
        dx, _, _, dw_ih, dw_hh, db = self._gradients
        if dx is not None:
            torch.mm(delta, self._w_ih, out=dx[block.rows])
        for gradient, terms in ((dw_ih, x), (dw_hh, h)):
            if gradient is not None:
                gradient.addmm_(delta.T, terms)
        if db is not None:
            db += delta.sum(0)
        if self._norms is not None:
            squares = x.square().sum(1) + h.square().sum(1)
            self._norms[block.rows] = delta.square().sum(1).mul_(squares).sqrt_()

    def _h_before(self, block: Block) -> Tensor:
        """Give the h of the step before of each row of a block, (N, H)."""
        parts = [
            self._y[self._plan.rows(step - 1, self._plan.sizes[step])] if step else self._h0[: self._plan.sizes[0]]
            for step in block.steps
        ]
        return torch.cat(parts)
