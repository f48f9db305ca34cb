"""THE reference: one layer's training pass in plain NumPy, every sum a loop in the order the design fixes.

Slow on purpose. The cell's equations are those that :mod:`etalstm.network.cells` declares. Rows are in canonical order
r = 4*unit + gate. A term whose broadcast factor is zero takes no part in a sum; a sum without a starting value starts
from its first term, and an empty one is +0.
"""

from functools import partial

import numpy as np

from etalstm.golden.arithmetic import add, multiply
from etalstm.golden.cell import evaluate, stored
from etalstm.golden.passes import LayerBackward, LayerPass, skipped_steps, without_padding
from etalstm.golden.product import FloatProduct
from etalstm.network.cells.lstm import LSTM
from etalstm.network.delta_inputs import OFF
from etalstm.network.storage import LayerStorage

DENSE = LayerStorage()


def cell_forward(cell, products, x, h0, c0, active, storage=DENSE, skipped=None, delta_inputs=OFF, shared=None):
    """Run a layer of any declared cell forward over T steps.

    `products` are the cell's, each a :class:`FloatProduct`, or an :class:`etalstm.golden.integers.IntegerProduct`. The
    other arguments are those of :func:`layer_forward`.

    Gives the LayerPass and, float32, (T, B, K), what the matrix of each product acted on, as it was last sent. Raises
    ``ValueError`` if a cell other than of one product, with x and the cell's output, is to have delta inputs.
    """
    if not delta_inputs.off and [product.operands for product in cell.products] != [("x", cell.output)]:
        operands = "; ".join(", ".join(product.operands) for product in cell.products)
        raise ValueError(
            f"delta inputs need a cell of one product, with x, {cell.output}; {cell.name} broadcasts {operands}"
        )
    steps = x.shape[0]
    states, cells, intermediates, broadcasts = [h0], [c0], [], []
    tokens = [shared if "x" in product.operands else None for product in cell.products]
    sums = [each.gate_sums(delta_inputs, active, x.shape[2], of) for each, of in zip(products, tokens, strict=True)]
    for t in range(steps):
        h_new, c_new, kept, broadcast = _step_forward(cell, x[t], states[t], cells[t], sums, t)
        live = active[t][:, None]
        states.append(np.where(live, h_new, states[t]))
        cells.append(np.where(live, c_new, cells[t]))
        real = live & (skipped is None or not skipped[t])
        intermediates.append(np.where(real, np.stack(stored(kept, storage)), np.float32(0)))
        broadcasts.append(broadcast)
    h, c, kept = np.stack(states), np.stack(cells), np.stack(intermediates, axis=1)[:, active]
    broadcasts = [np.stack(arrays) for arrays in zip(*broadcasts, strict=True)]
    x_sent, h_sent = x, h[:-1]
    if cell.products[0].operands == ("x", cell.output):
        x_sent, h_sent = np.split(broadcasts[0], [x.shape[2]], axis=2)
    return LayerPass(x, h, c, kept, active, skipped_steps(skipped, steps), x_sent, h_sent, delta_inputs), broadcasts


def _step_forward(cell, x, h, c, sums, t):
    """Run step t; gives h, c, the local gradients, and what each product's matrix acted on."""
    outputs, kept, broadcasts, left = {"x": x, cell.output: h}, [], [], iter(sums)
    for stage in cell.stages:
        gates = []
        for product, of_product in zip(stage.products, left, strict=False):
            operands = np.concatenate([outputs[name] for name in product.operands], axis=1)
            z, sent = of_product.step(t, operands)
            broadcasts.append(sent)
            gates.extend(np.moveaxis(z.reshape(len(x), -1, len(product.gates)), 2, 0))
        values = {cell.state_before: c} | dict(zip(stage.sums, gates, strict=True))
        values = evaluate(stage.forward + stage.local, values)
        outputs |= {name: values[name] for name in stage.outputs}
        kept += [values[name] for name in stage.kept.values()]
    return outputs[cell.output], values[cell.state], kept, broadcasts


def cell_backward(cell, products, forward, broadcasts, dy, dh, dc, delta_threshold=0.0, slices=1):
    """Run a layer of any declared cell backward over T steps; arguments as in :func:`cell_forward` and
    :func:`layer_backward`.

    Gives dx, dh0, dc0, and a list with (dW, db, δ) of each product.
    """
    dx = np.zeros_like(forward.x)
    whole = [np.zeros((*dy.shape[:2], product.rows), np.float32) for product in products]
    delta = [np.zeros_like(rows) for rows in whole]
    given = np.concatenate([forward.x, forward.h[:-1]], axis=2)  # to products with delta inputs
    collected = [p.collected(forward.delta_inputs, given, sent) for p, sent in zip(products, broadcasts, strict=True)]
    intermediates = forward.intermediates
    for t in reversed(range(len(dy))):
        if forward.skipped[t]:
            dh, dc = np.zeros_like(dh), np.zeros_like(dc)
            for gradients in collected:
                gradients.drop()
            continue
        live, dh = forward.active[t][:, None], add(dy[t], dh)
        whole_of_step, delta_of_step = [rows[t] for rows in whole], [rows[t] for rows in delta]
        kept = dict(zip(cell.kinds, intermediates[:, t], strict=True))
        pass_on = [partial(gradients.step, t) for gradients in collected]
        operands = [broadcast[t] for broadcast in broadcasts]
        dx[t], dh_before, dc_before = _step_backward(
            cell, products, operands, kept, live, dh, dc, whole_of_step, delta_of_step, delta_threshold, pass_on
        )
        dh, dc = np.where(live, dh_before, dh), np.where(live, dc_before, dc)
    given_to = zip(products, delta, whole, broadcasts, strict=True)
    return dx, dh, dc, [(*product.gradients(*terms, slices), terms[0]) for product, *terms in given_to]


def _step_backward(cell, multiplied, operands, kept, live, dh, dc, whole, delta, delta_threshold, pass_on):
    """Go back through one step; fills δ of each product, `whole` and `delta` as it is broadcast. Gives dx, dh, dc.

    `operands` are those of each product, and `pass_on` gives their gradients, from the sums over δ.
    """
    gradients, units = {f"d{cell.output}": dh, cell.state_gradient: dc}, dh.shape[1]
    outputs: dict[str, np.ndarray] = {}
    for product, columns in zip(cell.products, operands, strict=True):
        outputs |= _by_operand(product, columns, units)
    first = len(cell.products)
    for stage in reversed(cell.stages):
        local = {name: kept[kind] for kind, name in stage.kept.items()}
        local |= {name: outputs[name] for name in stage.outputs_read}
        gradients = evaluate(stage.backward, gradients | local)
        first -= len(stage.products)
        for n, product in enumerate(stage.products, first):
            deltas = np.stack([gradients[name] for name in product.deltas], axis=2).reshape(len(dh), -1)
            whole[n][:] = np.where(live, deltas, np.float32(0))
            delta[n][:] = multiplied[n].broadcast(whole[n], delta_threshold)
            columns = pass_on[n](delta[n])
            gradients |= {f"d{name}": part for name, part in _by_operand(product, columns, units).items()}
    return gradients["dx"], gradients[f"d{cell.output}"], gradients[cell.state_gradient_before]


def _by_operand(product, columns, units):
    """Cut what belongs to the columns of a product's matrix into what belongs to each operand, by name."""
    parts = {}
    inputs = columns.shape[1] - units * sum(name != "x" for name in product.operands)
    for name in product.operands:
        size = inputs if name == "x" else units
        parts[name], columns = columns[:, :size], columns[:, size:]
    return parts


def layer_forward(weights, bias, x, h0, c0, active, storage=DENSE, skipped=None, delta_inputs=OFF, shared=None):
    """Run one LSTM layer forward over T steps; gives its LayerPass.

    Parameters
    ----------
    weights, bias : arrays, float32, (4H, K) and (4H,), canonical rows
    x : array, float32, (T, B, I)
    h0, c0 : arrays, float32, (B, H)
    active : array, bool, (T, B)          False at padded steps, where the state does not change
    storage : LayerStorage                what becomes of the local gradients, see :func:`stored`
    skipped : array, bool, (T,), or None  True at cells that keep nothing
    delta_inputs : LayerInputs            what of x and h is broadcast, see :mod:`etalstm.network.delta_inputs`
    shared : SharedTokens, or None        the distinct tokens of x, whose sums are computed once; without delta inputs
    """
    return cell_forward(LSTM, [FloatProduct(weights, bias)], x, h0, c0, active, storage, skipped, delta_inputs, shared)[
        0
    ]


def layer_backward(weights, forward, dy, dh, dc, delta_threshold=0.0, slices=1):
    """Run one LSTM layer backward over T steps; gives its LayerBackward.

    A skipped cell contributes nothing and passes nothing on, whoever's sequence it is: the dy, dh and dc that reach it
    are dropped, its δ and dx are +0, and the cell before it receives dh and dc of +0. With delta inputs, what has been
    collected for elements that were sent before it is dropped, too.

    Parameters
    ----------
    weights : array, float32, (4H, K), canonical rows
    forward : LayerPass
    dy : array, float32, (T, B, H)
    dh, dc : arrays, float32, (B, H)      gradients of the final states
    delta_threshold : float               if above 0, what is below it of δ is not broadcast; db adds all of δ
    slices : int                          see :mod:`etalstm.network.slices`
    """
    xh = np.concatenate([forward.x_sent, forward.h_sent], axis=2)
    final = dy, dh, dc, delta_threshold, slices
    dx, dh, dc, [(dw, db, delta)] = cell_backward(
        LSTM, [FloatProduct(weights, np.empty(0, np.float32))], forward, [xh], *final
    )
    active = forward.active
    return LayerBackward(dx, dh, dc, dw, db, without_padding(delta, active), active)


def descend(values, velocity, gradient, rule, weight_decay):
    """Take one step of SGD with momentum on float32 arrays of one shape; gives new values and velocities.

    `weight_decay` is the rule's, or 0 for a bias.

    Exactness: ``g = scale*gradient; g = g + decay*w; v = momentum*v + g; w = w + -(rate*v)``, every product and sum
    rounded, also where a factor is 0 or 1; bit-identical to the element-wise engine.
    """
    clipped = add(multiply(rule.scale, gradient), multiply(weight_decay, values))
    velocity = add(multiply(rule.momentum, velocity), clipped)
    return add(values, -multiply(rule.learning_rate, velocity)), velocity


def column_norms(dw):
    """Add the squares of each column of dW, r ascending from +0; float32, (K,)."""
    total = np.zeros(dw.shape[1], np.float32)
    for row in dw:
        total = add(total, multiply(row, row))
    return total
