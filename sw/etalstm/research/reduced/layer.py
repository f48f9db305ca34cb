"""One layer whose backward pass needs only the intermediates that the storage policy keeps.

Dimensions: R rows, B sequences, T steps, I inputs, H units; of a block N rows, and M cells of U units: see
:mod:`etalstm.research.reduced.arrangement`.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from etalstm.network.shape import GATES
from etalstm.network.storage import KINDS, LayerStorage
from etalstm.nn.transforms import Once
from etalstm.research.reduced.arrangement import Arrangement, Block, Matrix, Plan, arrangement_of
from etalstm.research.reduced.compression import Compressed, compress, expand

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
    """Multiply out the local gradients, which a cell's backward pass needs of its forward pass.

    Given are the activated gates i, f, g, o, (N, 4, H); the state that enters the cell, and the hyperbolic tangent of
    that which leaves it, (N, H). The result, (N, 6, H), contiguous, is P_i, P_f, P_g, P_o, P_s, P_r as
    :mod:`etalstm.network.cells.lstm` declares them, to rounding.
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
    """Go back through a cell, in place; give δ, (B, 4H), a view of `p`.

    The first four local gradients of `p`, (B, 6, H), become the gradients δ of the gates' sums. `dh` and `dc`, (B, H),
    are gradients of what leaves the cell. `dc` becomes the gradient of the state that enters it.
    """
    dc.addcmul_(dh, p[:, S])
    p[:, : G + 1].mul_(dc[:, None])
    p[:, O].mul_(dh)
    dc.mul_(p[:, R])
    return p[:, :GATES].flatten(1)


RESULTS = 3  # y, h, c; the stored tensors follow them
PER_BLOCK = 2  # stored tensors: bits and words, or gates and the states that enter the cells


class ReducedLayer(torch.autograd.Function):
    """A layer's passes; see :func:`run_layer`.

    The forward pass gives the stored tensors as further results. So PyTorch knows every tensor that is kept for the
    backward pass, and frees them with the graph.
    """

    @staticmethod
    def forward(x, h0, c0, w_ih, w_hh, bias, plan, storage, stores, norms):
        """Run the layer; `stores` says whether a backward pass may follow."""
        limits = x.new_tensor(storage.thresholds).clamp_(min=torch.finfo(x.dtype).tiny)
        return _Forward(plan, storage, stores, limits).run(x, h0, c0, w_ih, Matrix(w_hh), bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save the layer's input, output and weights, and the stored tensors."""
        x, h0, _, w_ih, w_hh, _, ctx.plan, ctx.storage, _, ctx.norms = inputs
        y, stored = output[0], output[RESULTS:]
        ctx.mark_non_differentiable(*stored)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, h0, w_ih, w_hh, y, *stored)

    @staticmethod
    def backward(ctx, dy, dh, dc, *_):
        """Give the gradients of x, h0, c0, w_ih, w_hh and the bias."""

        def go_back(dy, dh, dc, x, h0, w_ih, w_hh, *results):
            saved = x, h0, w_ih, Matrix(w_hh), *results
            return _Backward(ctx.plan, ctx.storage, ctx.norms, saved, ctx.needs_input_grad).run(dy, dh, dc)

        gradients = Once.apply("a layer of reduced memory", go_back, dy, dh, dc, *ctx.saved_tensors)
        return (*gradients, None, None, None, None)


def run_layer(
    x: Tensor,
    states: tuple[Tensor, Tensor],
    weights: tuple[Tensor, Tensor, Tensor | None],
    plan: Plan,
    storage: LayerStorage,
    norms: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run one layer over x (R, I); give y (R, H), and h and c (B, H) after each sequence's last step.

    The states are h0 and c0 (B, H), the weights w_ih (4H, I), w_hh (4H, H), and bias (4H,) or None. The backward pass
    fills `norms`, (R,), with ‖δ‖·‖xh‖, if they are given; rows of skipped cells stay as they are.
    """
    tensors = (x, *states, *weights)
    stores = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    return ReducedLayer.apply(*tensors, plan, storage, stores, norms)[:RESULTS]


def run_steps(x: Tensor, states: tuple[Tensor, Tensor], w_ih: Tensor, w_hh: Matrix, plan: Plan) -> Tensor:
    """Run one layer forward and backward without autograd; give the gradient of h0 (B, H), if that of y is y itself.

    There are no gradients of x and of the weights. Autograd, and what hooks into it like checkpointing, does not see
    the run. The transpose of `w_hh` is made in the first run only: a layer of many steps makes one for all of them.
    Parameters are those of :func:`run_layer`.
    """
    storage, nothing_dropped = LayerStorage(), x.new_zeros(0)
    with torch.no_grad():
        y, _, _, *stored = _Forward(plan, storage, True, nothing_dropped).run(x, *states, w_ih, w_hh, None)
        needed = (False, True, True, False, False, False)
        back = _Backward(plan, storage, None, (x, states[0], w_ih, w_hh, y, *stored), needed)
        return cast(Tensor, back.run(y, None, None)[1])  # it is needed, so it is there


class _Inner(NamedTuple):
    """Inputs of a block's local gradients, besides its gates: c before each cell, and tanh of c after it."""

    c_before: Tensor
    tanh_c: Tensor


class _Forward:
    """A forward pass, which stores tensors of each block that is not skipped.

    The limits (6,) are the thresholds of the local gradients, none below the smallest normal number.
    """

    def __init__(self, plan: Plan, storage: LayerStorage, stores: bool, limits: Tensor):
        self._plan, self._storage, self._stores, self._limits = plan, storage, stores, limits

    def run(self, x, h0, c0, w_ih, w_hh, bias) -> tuple[Tensor, ...]:
        """Give y, h, c, and the stored tensors of all blocks."""
        y, h, c = x.new_empty(len(x), h0.shape[1]), h0, c0.clone()
        stored: list[Tensor] = []
        weights = w_ih, w_hh, bias
        for block in self._plan.blocks:
            stored += self._run_block(block, x[block.rows], weights, h, c, y)
            h = y[self._plan.rows(block.steps[-1])]
        return y, torch.cat([y[rows] for rows in self._plan.ends()]), c, *stored

    def _run_block(self, block: Block, x, weights, h, c, y) -> Sequence[Tensor]:
        """Run a block's steps: fill its rows of `y`, and change `c`. Gives the stored tensors."""
        w_ih, w_hh, bias = weights
        arrangement, active = arrangement_of(self._plan, block), slice(self._plan.sizes[block.steps.start])
        gates = arrangement.gate_sums(x, w_ih, bias)
        h, state = arrangement.enter(h[active]), arrangement.enter(c[active])
        outputs = arrangement.results(y[block.rows])
        stores = self._stores and not block.skipped
        inner = _Inner(torch.empty_like(outputs), torch.empty_like(outputs)) if stores else None
        for step in block.steps:
            own = arrangement.cells(step)
            count = own.stop - own.start
            arrangement.add_recurrent(gates[own], h[:count], w_hh)
            h = self._cell(own, activate(gates[own]), state[:count], outputs, inner)
        arrangement.leave(state, c[active])
        arrangement.leave(outputs, y[block.rows])
        return () if inner is None else self._stored_tensors(gates, inner)

    @staticmethod
    def _cell(own: slice, gates: Tensor, state: Tensor, outputs: Tensor, inner: _Inner | None) -> Tensor:
        """Run the cells `own` of a step, given their gates: change `state`, fill `outputs` and `inner`. Gives h."""
        i, f, g, o = gates.unbind(1)
        if inner is not None:
            inner.c_before[own] = state
        state.mul_(f).addcmul_(i, g)
        tanh = state.tanh() if inner is None else torch.tanh(state, out=inner.tanh_c[own])
        return torch.mul(o, tanh, out=outputs[own])

    def _stored_tensors(self, gates: Tensor, inner: _Inner) -> tuple[Tensor, Tensor]:
        """Make the tensors that are stored of a block."""
        if not self._storage.compressed:
            return gates, inner.c_before
        word = torch.bfloat16 if self._storage.bf16 else gates.dtype
        stored = compress(local_gradients(gates, *inner), self._limits, word)
        return stored.bits, stored.words


class _Backward:
    """A backward pass; gradients that are not needed are None.

    `saved` are x, h0, w_ih, w_hh as a Matrix, y, and the stored tensors. `needed` tells of x, h0, c0, w_ih, w_hh and
    bias whether a gradient is needed.
    """

    def __init__(self, plan: Plan, storage: LayerStorage, norms, saved: Sequence, needed: Sequence[bool]):
        self._plan, self._storage, self._norms = plan, storage, norms
        self._x, self._h0, self._w_ih, self._w_hh, self._y, *self._stored = saved
        w_hh = self._w_hh.given
        like = (self._x, None, None, self._w_ih, w_hh, w_hh[:, 0])
        pairs = zip(like, needed, strict=False)
        self._gradients = [None if tensor is None or not need else torch.zeros_like(tensor) for tensor, need in pairs]

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
            self._add_gradients(block, self._run_block(block, first, second, dy, dh, dc))
        dx, _, _, *others = self._gradients
        return dx, dh, dc, *others

    def _run_block(self, block: Block, first: Tensor, second: Tensor, dy, dh, dc) -> Tensor:
        """Go back through a block, given its stored tensors; change `dh` and `dc`. Gives δ, (N, 4H)."""
        arrangement, active = arrangement_of(self._plan, block), slice(self._plan.sizes[block.steps.start])
        p = self._local_gradients(first, second, arrangement.units(self._y.shape[1]))
        inner_dy = None if dy is None else arrangement.enter(dy[block.rows])
        inner_dh, inner_dc = arrangement.enter(dh[active]), arrangement.enter(dc[active])
        self._run_steps(block, arrangement, p, inner_dy, inner_dh, inner_dc)
        arrangement.leave(inner_dh, dh[active])
        arrangement.leave(inner_dc, dc[active])
        return arrangement.rows_of_delta(p)

    def _local_gradients(self, first: Tensor, second: Tensor, units: int) -> Tensor:
        """Give P of a block's cells, each of U `units`, from the two tensors that are stored: (M, 6, U)."""
        if self._storage.compressed:
            return expand(Compressed(first, second), units, self._y.dtype)
        i, f, g, _ = first.unbind(1)
        return local_gradients(first, second, (second * f).addcmul_(i, g).tanh_())

    def _run_steps(self, block: Block, arrangement: Arrangement, p: Tensor, dy, dh, dc) -> None:
        """Go back through a block's steps: change `dh` and `dc`, and write δ over the first four kinds of `p`."""
        for step in reversed(block.steps):
            own = arrangement.cells(step)
            count = own.stop - own.start
            dh_out = dh[:count] if dy is None else dh[:count].add_(dy[own])
            delta = cell_backward(p[own], dh_out, dc[:count])
            arrangement.multiply_back(delta, self._w_hh, dh_out)

    def _add_gradients(self, block: Block, delta: Tensor) -> None:
        """Add what a block's δ, (N, 4H), contributes to the gradients."""
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
        """Give the h that enters each row of a block: that of the step before, (N, H)."""
        before = [
            self._y[self._plan.rows(step - 1, self._plan.sizes[step])] if step else self._h0[: self._plan.sizes[0]]
            for step in block.steps
        ]
        return torch.cat(before)
