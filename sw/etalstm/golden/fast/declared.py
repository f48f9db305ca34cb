"""The training pass of any declared cell: the reference's bits, with compiled sums.

Each step's element-wise work is NumPy, equation by equation. The sums are those of :mod:`etalstm.golden.fast.sums`: x's
part of all steps at once, the rest step by step. With integers the reference is fast enough: its sums are BLAS's.
"""

from dataclasses import dataclass
from itertools import islice

import numpy as np

from etalstm.golden.arithmetic import add
from etalstm.golden.cell import evaluate, pruned, stored
from etalstm.golden.fast.packing import matrix_of
from etalstm.golden.fast.sums import accumulate, add_arrays, bias_gradient, gradient_sums, mac_sums, packed_sums
from etalstm.golden.passes import LayerPass, skipped_steps
from etalstm.golden.reference import DENSE, cell_backward, cell_forward
from etalstm.network.delta_inputs import OFF
from etalstm.network.slices import slice_ranges, tree_total

ZERO = np.float32(0)


@dataclass(frozen=True)
class DeclaredPass(LayerPass):
    """One layer's forward pass; `outputs` are what earlier stages have broadcast, by name, float32, (T, B, H)."""

    outputs: dict[str, np.ndarray]

    def operands(self, product) -> list[np.ndarray]:
        """Give what a product's matrix acted on, (T, B, columns) each."""
        given = {"x": self.x} | self.outputs
        return [given.get(name, self.h[:-1]) for name in product.operands]


@dataclass(frozen=True)
class ProductGradients:
    """What a backward pass gives for one product; rows in canonical order.

    Members
    -------
    weights, bias : arrays, float32, (G*H, K) and (G*H,)
    delta : array, float32, (T, B, G*H)    gradients of the sums as they are broadcast
    gates : int                            rows G of each unit
    operands : list of arrays, float32, (T, B, columns) each    what the matrix acted on
    """

    weights: np.ndarray
    bias: np.ndarray
    delta: np.ndarray
    gates: int
    operands: list[np.ndarray]


@dataclass(frozen=True)
class DeclaredBackward:
    """One layer's backward pass: dx, float32, (T, B, I), dh0 and dc0, (B, H), and the gradients of each product."""

    dx: np.ndarray
    dh0: np.ndarray
    dc0: np.ndarray
    products: tuple[ProductGradients, ...]


def layer_forward(cell, matrices, x, h0, c0, active, storage=DENSE, skipped=None) -> DeclaredPass:
    """Do what :func:`etalstm.golden.reference.cell_forward` does, bit for bit, without delta inputs and tokens."""
    steps = len(x)
    h, c = (np.empty((steps + 1, *h0.shape), np.float32) for _ in range(2))
    h[0], c[0] = h0, c0
    outputs = {name: np.empty((steps, *h0.shape), np.float32) for s in cell.stages[:-1] for name in s.outputs}
    kept = np.zeros((len(cell.kinds), steps, *h0.shape), np.float32)
    given_matrices = zip(cell.products, matrices, strict=True)
    sums = [_Sums(product, weights, bias, x) for product, (weights, bias) in given_matrices]
    for t in range(steps):
        given, state, of_step = _step_forward(cell, sums, t, h[t], c[t])
        for name, array in outputs.items():
            array[t] = given[name]
        live = active[t][:, None]
        h[t + 1] = np.where(live, given[cell.output], h[t])
        c[t + 1] = np.where(live, state, c[t])
        if skipped is None or not skipped[t]:
            kept[:, t] = np.where(live, np.stack(stored(of_step, storage)), ZERO)
    sent = x, h[:-1], OFF
    return DeclaredPass(x, h, c, kept[:, active], active, skipped_steps(skipped, steps), *sent, outputs)


def _step_forward(cell, sums, t, h, c):
    """Run step t; gives the outputs of all stages by name, c, and the local gradients."""
    given, kept, products = {cell.output: h}, [], iter(sums)
    for stage in cell.stages:
        of_stage = islice(products, len(stage.products))
        gates = [gate for product in of_stage for gate in product.step(t, given)]
        values = {cell.state_before: c} | dict(zip(stage.sums, gates, strict=True))
        values = evaluate(stage.forward + stage.local, values)
        given |= {name: values[name] for name in stage.outputs}
        kept += [values[name] for name in stage.kept.values()]
    return given, values[cell.state], kept


class _Sums:
    """The sums of one product, step by step."""

    def __init__(self, product, weights, bias, x):
        self._operand, self._gates = product.operands[-1], len(product.gates)
        self._rows, self._start = len(bias), np.broadcast_to(bias, (x.shape[1], len(bias)))
        self._of_x, of_others = None, weights
        if "x" in product.operands:
            steps, batch, width = x.shape
            start = np.broadcast_to(bias, (steps * batch, len(bias)))
            of_x, of_others = matrix_of(weights[:, :width].T), weights[:, width:]
            self._of_x = packed_sums(start, of_x, np.ascontiguousarray(x).reshape(-1, width))
        self._matrix = matrix_of(of_others.T)

    def step(self, t: int, given: dict) -> np.ndarray:
        """Give the sums of step t, (gates, B, H)."""
        operand = np.ascontiguousarray(given[self._operand])
        batch = len(operand)
        if self._of_x is None:
            total = packed_sums(self._start, self._matrix, operand)
        else:
            total = self._of_x[t * batch : (t + 1) * batch]
            accumulate(total, self._matrix, operand, 0, batch)
        z = total.reshape(batch, -1)[:, : self._rows]
        return np.moveaxis(z.reshape(batch, -1, self._gates), 2, 0)


def layer_backward(cell, weights, forward: DeclaredPass, dy, dh, dc, delta_threshold=0.0, slices=1) -> DeclaredBackward:
    """Do what :func:`etalstm.golden.reference.cell_backward` does, bit for bit."""
    whole = [np.zeros((*dy.shape[:2], len(matrix)), np.float32) for matrix in weights]
    delta = [np.zeros_like(rows) if delta_threshold > 0 else rows for rows in whole]
    width, intermediates = forward.x.shape[2], forward.intermediates
    takes_x = ["x" in product.operands for product in cell.products]
    pairs = zip(weights, takes_x, strict=True)
    others = [matrix_of(np.ascontiguousarray(matrix[:, width * has_x :])) for matrix, has_x in pairs]
    for t in reversed(range(len(dy))):
        if forward.skipped[t]:
            dh, dc = np.zeros_like(dh), np.zeros_like(dc)
            continue
        live, dh = forward.active[t][:, None], add(dy[t], dh)
        kept = dict(zip(cell.kinds, intermediates[:, t], strict=True))
        values = {name: array[t] for name, array in forward.outputs.items()}
        values |= {name: kept[kind] for stage in cell.stages for kind, name in stage.kept.items()}
        values |= {f"d{cell.output}": dh, cell.state_gradient: dc}
        whole_of_step, delta_of_step = [rows[t] for rows in whole], [rows[t] for rows in delta]
        values = _step_backward(cell, others, values, live, whole_of_step, delta_of_step, delta_threshold)
        dh = np.where(live, values[f"d{cell.output}"], dh)
        dc = np.where(live, values[cell.state_gradient_before], dc)
    of_x = takes_x.index(True)
    rows = delta[of_x].reshape(-1, len(weights[of_x]))
    dx = mac_sums(None, weights[of_x][:, :width], rows).reshape(forward.x.shape)
    products = zip(cell.products, delta, whole, strict=True)
    return DeclaredBackward(dx, dh, dc, tuple(_product_gradients(forward, *each, slices) for each in products))


def _step_backward(cell, matrices, values, live, whole, delta, delta_threshold):
    """Go back through one step; fills δ of each product. Gives `values` and what was computed, by name."""
    number = len(cell.products)
    for stage in reversed(cell.stages):
        values = evaluate(stage.backward, values)
        number -= len(stage.products)
        for n, product in enumerate(stage.products, number):
            deltas = np.stack([values[name] for name in product.deltas], axis=2).reshape(len(live), -1)
            whole[n][:] = np.where(live, deltas, ZERO)
            if delta_threshold > 0:
                delta[n][:] = pruned(whole[n], delta_threshold)
            below = packed_sums(None, matrices[n], np.ascontiguousarray(delta[n])).reshape(len(live), -1)
            values[f"d{product.operands[-1]}"] = below[:, : deltas.shape[1] // len(product.gates)]
    return values


def _product_gradients(forward: DeclaredPass, product, delta, whole, slices: int) -> ProductGradients:
    """Add up dW and db of each slice, t descending, then b ascending, and then the slices'."""
    steps, batch = forward.active.shape
    numbers = np.arange(steps * batch).reshape(steps, batch)[::-1]
    operands = forward.operands(product)
    *left, right = (np.ascontiguousarray(array).reshape(steps * batch, -1) for array in operands)
    [first] = left or [np.empty((steps * batch, 0), np.float32)]
    delta_rows, whole_rows = (array.reshape(steps * batch, -1) for array in (delta, whole))
    orders = [np.ascontiguousarray(numbers[:, r.start : r.stop]).ravel() for r in slice_ranges(batch, slices)]
    dw = (gradient_sums(first, right, order, delta_rows, order) for order in orders)
    db = (bias_gradient(whole_rows, order) for order in orders)
    weights, bias = (tree_total(terms, slices, add_arrays) for terms in (dw, db))
    return ProductGradients(weights, bias, delta, len(product.gates), operands)


@dataclass(frozen=True)
class DeclaredIntegerPass(LayerPass):
    """A forward pass of a layer of any cell; `broadcasts` are what each product acted on, float32, (T, B, K)."""

    broadcasts: list[np.ndarray]


def exact_forward(cell, products, x, h0, c0, active, storage, skipped) -> DeclaredIntegerPass:
    """Run a layer of any declared cell forward: :func:`etalstm.golden.reference.cell_forward` with integers."""
    found, broadcasts = cell_forward(cell, products, x, h0, c0, active, storage, skipped)
    return DeclaredIntegerPass(**vars(found), broadcasts=broadcasts)


def exact_backward(cell, products, forward: DeclaredIntegerPass, dy, dh, dc, delta_threshold=0.0) -> DeclaredBackward:
    """Run a layer of any declared cell backward: :func:`etalstm.golden.reference.cell_backward` with integers."""
    given = forward, forward.broadcasts, dy, dh, dc, delta_threshold
    dx, dh0, dc0, found = cell_backward(cell, products, *given)
    gradients = [
        ProductGradients(dw, db, delta, len(product.gates), [sent])
        for product, (dw, db, delta), sent in zip(cell.products, found, forward.broadcasts, strict=True)
    ]
    return DeclaredBackward(dx, dh0, dc0, tuple(gradients))
