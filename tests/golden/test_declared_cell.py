"""The reference differentiates a declared cell rightly: its gradients are those of the equations in float64."""

import numpy as np
import pytest

from etalstm.golden.passes import active_steps
from etalstm.golden.reference import cell_backward, cell_forward
from tests.cells.two_stages import TWO_STAGES

STEPS, BATCH, INPUTS, UNITS = 4, 3, 3, 5
STEP = 1e-6
BOUND = 1e-5  # relative; float32 rounds each of some hundred terms to 6e-8, the difference quotient errs by 1e-8


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def loss(arguments, active, dy, dh, dc):
    """Give the sum whose derivatives by the results are dy, dh and dc.

    The cell runs in float64, as its equations stand; rows are gates*unit + gate.
    """
    h, c, total = arguments["h0"], arguments["c0"], 0.0
    for t in range(STEPS):
        live = active[t][:, None]
        u = sigmoid(np.concatenate([arguments["x"][t], h], axis=1) @ arguments["w0"].T + arguments["b0"])
        z = ((u * u) @ arguments["w1"].T + arguments["b1"]).reshape(BATCH, UNITS, 3)
        c = np.where(live, c + sigmoid(z[..., 0]) * np.tanh(z[..., 1]), c)
        h = np.where(live, sigmoid(z[..., 2]) * np.tanh(c), h)
        total += np.sum(dy[t] * h * live)
    return total + np.sum(dh * h) + np.sum(dc * c)


def numerical(arguments, name, *rest):
    """Central differences of the loss by every element of an argument."""
    gradient = np.empty_like(arguments[name])
    for index in np.ndindex(gradient.shape):
        sides = []
        for sign in (1, -1):
            moved = arguments | {name: arguments[name].copy()}
            moved[name][index] += sign * STEP
            sides.append(loss(moved, *rest))
        gradient[index] = (sides[0] - sides[1]) / (2 * STEP)
    return gradient


@pytest.mark.parametrize("lengths", [(STEPS,) * BATCH, (4, 1, 3)], ids=["whole", "unequal lengths"])
def test_gradients_of_a_cell_of_two_stages_are_those_of_its_equations(lengths):
    generator = np.random.default_rng(2)
    sizes = {
        "x": (STEPS, BATCH, INPUTS), "h0": (BATCH, UNITS), "c0": (BATCH, UNITS),
        "w0": (UNITS, INPUTS + UNITS), "b0": (UNITS,), "w1": (3 * UNITS, UNITS), "b1": (3 * UNITS,),
    }  # fmt: skip
    arguments = {name: generator.standard_normal(size, np.float32) for name, size in sizes.items()}
    active = active_steps(lengths, STEPS)
    dy = generator.standard_normal((STEPS, BATCH, UNITS), np.float32) * active[:, :, None]
    dh, dc = generator.standard_normal((2, BATCH, UNITS), np.float32)

    matrices = [(arguments["w0"], arguments["b0"]), (arguments["w1"], arguments["b1"])]
    states = arguments["h0"], arguments["c0"]
    forward, broadcasts = cell_forward(TWO_STAGES, matrices, arguments["x"], *states, active)
    found = cell_backward(TWO_STAGES, matrices, forward, broadcasts, dy, dh, dc)
    dx, dh0, dc0, [(dw0, db0, _), (dw1, db1, _)] = found
    actual = {"x": dx, "h0": dh0, "c0": dc0, "w0": dw0, "b0": db0, "w1": dw1, "b1": db1}

    exact = {name: array.astype(np.float64) for name, array in arguments.items()}
    for name, gradient in actual.items():
        expected = numerical(exact, name, active, dy, dh, dc)
        error = np.linalg.norm(gradient - expected) / np.linalg.norm(expected)
        assert error < BOUND, f"gradient of {name}: relative error {error:.2e}, expected below {BOUND:.0e}"
