"""The reference differentiates declared cells rightly: its gradients are those of the equations in float64."""

import numpy as np
import pytest

from etalstm.golden.passes import active_steps
from etalstm.golden.product import FloatProduct
from etalstm.golden.reference import cell_backward, cell_forward
from etalstm.network.cells.hlstm import HLSTM
from tests.network.cells.coupled import COUPLED
from tests.network.cells.two_stages import TWO_STAGES

STEPS, BATCH, INPUTS, UNITS = 4, 3, 3, 5
STEP = 1e-6
BOUND = 1e-5  # relative; float32 rounds each of some hundred terms to 6e-8, the difference quotient errs by 1e-8


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def sums(arguments, product, operand, gates):
    """Give a product's sums, one array for each gate; rows are gates*unit + gate."""
    z = operand @ arguments[f"w{product}"].T + arguments[f"b{product}"]
    return np.moveaxis(z.reshape(BATCH, UNITS, gates), 2, 0)


def two_stages(arguments, xh, c):
    (u,) = sigmoid(sums(arguments, 0, xh, 1))
    q, r, o = sums(arguments, 1, u * u, 3)
    c = c + sigmoid(q) * np.tanh(r)
    return sigmoid(o) * np.tanh(c), c


def hlstm(arguments, xh, c):
    hidden = np.maximum(sums(arguments, 0, xh, 4), 0)
    i, f, g, o = (sums(arguments, 1 + n, hidden[n], 1)[0] for n in range(4))
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def coupled(arguments, xh, c):
    i, g, o = sums(arguments, 0, xh, 3)
    c = (1 - sigmoid(i)) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


CELLS = {"two stages": (TWO_STAGES, two_stages), "hlstm": (HLSTM, hlstm), "of the page": (COUPLED, coupled)}


def loss(equations, arguments, active, dy, dh, dc):
    """Give the sum whose derivatives by the results are dy, dh and dc; the cell runs in float64."""
    h, c, total = arguments["h0"], arguments["c0"], 0.0
    for t in range(STEPS):
        live = active[t][:, None]
        h_new, c_new = equations(arguments, np.concatenate([arguments["x"][t], h], axis=1), c)
        h, c = np.where(live, h_new, h), np.where(live, c_new, c)
        total += np.sum(dy[t] * h * live)
    return total + np.sum(dh * h) + np.sum(dc * c)


def numerical(equations, arguments, name, *rest):
    """Central differences of the loss by every element of an argument."""
    gradient = np.empty_like(arguments[name])
    for index in np.ndindex(gradient.shape):
        sides = []
        for sign in (1, -1):
            moved = arguments | {name: arguments[name].copy()}
            moved[name][index] += sign * STEP
            sides.append(loss(equations, moved, *rest))
        gradient[index] = (sides[0] - sides[1]) / (2 * STEP)
    return gradient


@pytest.mark.parametrize("lengths", [(STEPS,) * BATCH, (4, 1, 3)], ids=["whole", "unequal lengths"])
@pytest.mark.parametrize(("cell", "equations"), CELLS.values(), ids=CELLS)
def test_gradients_of_a_declared_cell_are_those_of_its_equations(cell, equations, lengths):
    generator = np.random.default_rng(2)
    sizes = {"x": (STEPS, BATCH, INPUTS), "h0": (BATCH, UNITS), "c0": (BATCH, UNITS)}
    for n, (rows, columns) in enumerate(cell.matrices(INPUTS, UNITS)):
        sizes |= {f"w{n}": (rows, columns), f"b{n}": (rows,)}
    arguments = {name: generator.standard_normal(size, np.float32) for name, size in sizes.items()}
    active = active_steps(lengths, STEPS)
    dy = generator.standard_normal((STEPS, BATCH, UNITS), np.float32) * active[:, :, None]
    dh, dc = generator.standard_normal((2, BATCH, UNITS), np.float32)

    products = [FloatProduct(arguments[f"w{n}"], arguments[f"b{n}"]) for n in range(len(cell.products))]
    states = arguments["h0"], arguments["c0"]
    forward, broadcasts = cell_forward(cell, products, arguments["x"], *states, active)
    dx, dh0, dc0, of_products = cell_backward(cell, products, forward, broadcasts, dy, dh, dc)
    actual = {"x": dx, "h0": dh0, "c0": dc0}
    for n, (dw, db, _) in enumerate(of_products):
        actual |= {f"w{n}": dw, f"b{n}": db}

    exact = {name: array.astype(np.float64) for name, array in arguments.items()}
    for name, gradient in actual.items():
        expected = numerical(equations, exact, name, active, dy, dh, dc)
        error = np.linalg.norm(gradient - expected) / np.linalg.norm(expected)
        assert error < BOUND, f"gradient of {name}: relative error {error:.2e}, expected below {BOUND:.0e}"
