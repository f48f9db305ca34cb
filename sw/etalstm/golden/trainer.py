"""A whole network's passes and its update, in the machine's arithmetic, over either engine.

An engine is a module with ``layer_forward`` and ``layer_backward``: :mod:`etalstm.golden.reference` or
:mod:`etalstm.golden.fast.compiled`. Rows are in canonical order ``4*unit + gate`` throughout.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numba import njit

from etalstm.formats.codec import round_bf16
from etalstm.golden.fast import compiled, declared, integers
from etalstm.golden.fast.declared import DeclaredBackward
from etalstm.golden.fast.quantised import IntegerBackward, IntegerPass
from etalstm.golden.integers import IntegerProduct
from etalstm.golden.passes import LayerBackward, LayerPass, active_steps
from etalstm.network.cells.cell import Cell
from etalstm.network.cells.lstm import LSTM
from etalstm.network.execution import FLOAT32, Execution
from etalstm.network.shape import GATES, LayerParameters, canonical_rows, pytorch_rows
from etalstm.network.storage import DENSE_TENSORS, KINDS, LayerStorage, ProductCounts, Usage
from etalstm.network.update_rule import UpdateRule
from etalstm_hw.contract import STREAM_BLOCK

PLAIN = Execution()


@dataclass(frozen=True)
class Rows:
    """A matrix (G*H, K) and its bias (G*H,), or their velocities, float32 in canonical row order."""

    weights: np.ndarray
    bias: np.ndarray
    gates: int = GATES

    @classmethod
    def of(cls, parameters: LayerParameters) -> "Rows":
        """Reorder parameters from PyTorch's row order."""
        gates = parameters.gates
        return cls(canonical_rows(parameters.weights, gates), canonical_rows(parameters.bias, gates), gates)

    def read_as(self, weight_format: str) -> "Rows":
        """Give the parameters as the passes read them: rounded to `weight_format`, but for the bias."""
        return self if weight_format == FLOAT32 else Rows(round_bf16(self.weights), self.bias, self.gates)

    def parameters(self) -> LayerParameters:
        """Reorder back to PyTorch's row order."""
        weights, bias = (pytorch_rows(array, self.gates) for array in (self.weights, self.bias))
        return LayerParameters(weights, bias, self.gates)


def network_forward(
    layers, x, lengths, h0, c0, engine=compiled, execution=PLAIN, skipped_cells=None, shared=None, cell=LSTM
) -> list[LayerPass]:
    """Run all layers forward; layer l + 1 reads layer l's h, which is frozen at padded steps. Gives each layer's pass.

    Parameters
    ----------
    layers : list of Rows               a layer's are as many as its cell has products; in the execution's weight format
    x : array, float32, (T, B, I)
    lengths : array, integers, (B,)
    h0, c0 : arrays, float32, (L, B, H)
    skipped_cells : array, bool, (L, T), or None    cells that keep nothing and have no backward pass
    shared : SharedTokens, or None      the distinct tokens of x, whose sums the first layer computes once
    cell : Cell                         of all layers; another than the LSTM is of :mod:`etalstm.golden.fast.declared`,
                                        and has neither delta inputs nor shared tokens
    """
    active = active_steps(lengths, x.shape[0])
    passes = []
    for layer, rows in enumerate(_by_layer(layers, cell)):
        skipped = None if skipped_cells is None else skipped_cells[layer]
        given = x, h0[layer], c0[layer], active, execution.storage.layer(layer), skipped
        if cell is LSTM:
            more = execution.delta_inputs.layer(layer), None if layer else shared
            passes.append(engine.layer_forward(rows[0].weights, rows[0].bias, *given, *more))
        else:
            passes.append(declared.layer_forward(cell, [(each.weights, each.bias) for each in rows], *given))
        x = passes[-1].y
    return passes


def _by_layer(rows: list[Rows], cell: Cell) -> list[list[Rows]]:
    """Give the matrices of each layer."""
    products, left = len(cell.products), iter(rows)
    return list(iter(lambda: list(islice(left, products)), []))


def integer_forward(
    layers: list[list[IntegerProduct]], x, lengths, h0, c0, execution, skipped_cells, cell
) -> list[LayerPass | IntegerPass]:
    """Do what :func:`network_forward` does, with the products of each layer in integers."""
    passes: list[LayerPass | IntegerPass] = []
    active = active_steps(lengths, x.shape[0])
    for layer, products in enumerate(layers):
        given = x, h0[layer], c0[layer], active, execution.storage.layer(layer), skipped_cells[layer]
        delta_inputs = execution.delta_inputs.layer(layer).of_integers
        if cell is LSTM:
            passes.append(integers.layer_forward(products[0], *given, delta_inputs))
        else:
            passes.append(declared.exact_forward(cell, products, *given))
        x = passes[-1].y
    return passes


def integer_backward(
    layers: list[list[IntegerProduct]], passes, dy, dh, dc, delta_threshold, cell
) -> list[IntegerBackward | DeclaredBackward]:
    """Do what :func:`network_backward` does, with integers; slices change no bit."""
    results: list[IntegerBackward | DeclaredBackward] = []
    for layer, products in reversed(list(enumerate(layers))):
        given = passes[layer], dy, dh[layer], dc[layer], delta_threshold
        back = integers.layer_backward(*given) if cell is LSTM else declared.exact_backward(cell, products, *given)
        results.append(back)
        dy = back.dx
    return results[::-1]


def network_outputs(passes: Sequence[LayerPass | IntegerPass]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Copy what a forward pass gives: y (T, B, H), with the frozen h at padded steps, h and c (L, B, H)."""
    h, c = (np.stack(states) for states in zip(*((layer.h[-1], layer.c[-1]) for layer in passes), strict=True))
    return passes[-1].y.copy(), h, c


def network_backward(
    layers, passes, dy, dh, dc, engine=compiled, delta_threshold=0.0, execution=PLAIN, whole=None, cell=LSTM
) -> list[LayerBackward]:
    """Run all layers backward, the top one first; layer l's dy is layer l + 1's dx. Gives the results, the first layer
    first.

    Parameters
    ----------
    dy : array, float32, (T, B, H)      +0 at padded steps
    dh, dc : arrays, float32, (L, B, H)
    delta_threshold : float             if above 0, what is below it of δ is not broadcast; db adds all of δ
    whole : callable, optional          given a layer's number and its result as soon as it is there
    layers, passes, execution, cell     those of the forward pass, and what it gave
    """
    results = []
    for layer, rows in reversed(list(enumerate(_by_layer(layers, cell)))):
        given = passes[layer], dy, dh[layer], dc[layer], delta_threshold, execution.slices
        if cell is LSTM:
            results.append(engine.layer_backward(rows[0].weights, *given))
        else:
            results.append(declared.layer_backward(cell, [each.weights for each in rows], *given))
        dy = results[-1].dx
        if whole:
            whole(layer, results[-1])
    return results[::-1]


def network_update(layers, velocities, gradients, rule: UpdateRule) -> tuple[list[Rows], list[Rows]]:
    """Update every matrix; the bias does not decay. Gives the new layers and velocities."""
    moved, speeds = [], []
    for rows, speed, gradient in zip(layers, velocities, gradients, strict=True):
        weights = compiled.descend(rows.weights, speed.weights, gradient.weights, rule, rule.weight_decay)
        bias = compiled.descend(rows.bias, speed.bias, gradient.bias, rule, np.float32(0))
        moved.append(Rows(weights[0], bias[0], rows.gates))
        speeds.append(Rows(weights[1], bias[1], rows.gates))
    return moved, speeds


@njit(nogil=True, cache=True)
def _streams(elements, skipped, bf16):
    """Count nonzero elements, and words of the streams, of an array (T, N): one stream for each step not skipped."""
    kept, words = 0, 0
    for t in range(elements.shape[0]):
        if skipped[t]:
            continue
        for first in range(0, elements.shape[1], STREAM_BLOCK):
            count = 0
            for n in range(first, min(first + STREAM_BLOCK, elements.shape[1])):
                count += elements[t, n] != 0
            kept += count
            words += 1 + ((count + 1) >> 1 if bf16 else count)
    return kept, words


def _products(forward, backward) -> Iterator[ProductCounts]:
    """Count what each product of a layer's cell has computed."""
    if isinstance(backward, LayerBackward | IntegerBackward):
        operands = map(forward.delta_inputs.broadcast, forward.sent)
        yield ProductCounts.of(GATES, operands, forward.active, int(np.count_nonzero(backward.broadcast)))
        return
    for product in backward.products:
        kept = int(np.count_nonzero(product.delta))
        yield ProductCounts.of(product.gates, product.operands, forward.active, kept)


def layer_usage(forward, backward, storage: LayerStorage) -> Usage:
    """Count what one layer kept and computed in an iteration.

    A stream is one kind of one cell, elements in the order of sequences, then units; beats are not filled up. Of a cell
    with other kinds of local gradients than an LSTM's none is counted: there is no stream of them.
    """
    steps, batch, units = forward.h[1:].shape
    streams = [_streams(p.reshape(steps, -1), forward.skipped, storage.bf16) for p in forward.intermediates]
    words = sum(size for _, size in streams)
    if not storage.compressed:
        words = DENSE_TENSORS * int((~forward.skipped).sum()) * batch * units
    return Usage.counted(
        units=units,
        products=_products(forward, backward),
        active=forward.active,
        skipped=forward.skipped,
        kept=tuple(kept for kept, _ in streams) if len(streams) == len(KINDS) else (0,) * len(KINDS),
        words=words,
    )
