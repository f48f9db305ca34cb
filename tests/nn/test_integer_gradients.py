"""Golden's gradients with integers against PyTorch's autograd, in float64, through the quantised network.

Rounding passes gradients straight through, and the gradient of each gate's sum is quantised as golden does it.
"""

import numpy as np
import pytest
import torch

from etalstm.golden.fast import integers
from etalstm.golden.fast.quantised import quantised
from etalstm.golden.integers import IntegerProduct
from etalstm.golden.passes import active_steps
from etalstm.network.arithmetic import INT8, INT16, exponent_of, most
from etalstm.network.delta_inputs import OFF

STEPS, BATCH, INPUTS, UNITS = 7, 5, 6, 9


def on_grid(values, exponents, bits):
    """Round to mantissas of so many bits, as float64 values."""
    unit = torch.as_tensor(2.0) ** (torch.as_tensor(exponents, dtype=torch.float64) - (bits - 1))
    limit = most(bits)
    return torch.clamp(torch.round(values / unit), -limit, limit) * unit


def straight_through(values, exponents, bits):
    return values + (on_grid(values, exponents, bits) - values).detach()


def autograd(product, weights, bias, x, h0, c0, active, dy):
    """Give y and all gradients."""
    arithmetic, rows = product.arithmetic, torch.as_tensor(product.matrix.exponents, dtype=torch.float64)
    leaves = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (weights, bias, x, h0, c0)]
    w, b, inputs, h, c = leaves
    w_grid = straight_through(w, rows[:, None], arithmetic.bits)
    xs = straight_through(inputs, product.operand_exponents[0], arithmetic.bits)

    def quantise_delta(delta):
        return on_grid(delta, product.delta_exponent - rows, arithmetic.delta_bits)

    outputs = []
    for t in range(STEPS):
        live = torch.tensor(active[t])[:, None]
        z = torch.cat([xs[t], straight_through(h, 0, arithmetic.bits)], 1) @ w_grid.T + b
        z.register_hook(quantise_delta)
        i, f, g, o = z.reshape(BATCH, UNITS, 4).unbind(2)
        c_new = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h_new = torch.sigmoid(o) * torch.tanh(c_new)
        h, c = torch.where(live, h_new, h), torch.where(live, c_new, c)
        outputs.append(h)
    (torch.stack(outputs) * torch.tensor(dy, dtype=torch.float64)).sum().backward()
    return torch.stack(outputs).detach().numpy(), [leaf.grad.numpy() for leaf in leaves]


@pytest.mark.parametrize(
    "arithmetic", [INT8, INT8.with_delta_bits(15), INT16], ids=lambda a: f"{a.name} {a.delta_bits}"
)
def test_gradients_are_those_of_the_quantised_network(arithmetic):
    generator = np.random.default_rng(8)

    def draw(*size, scale=1.0):
        return (generator.standard_normal(size) * scale).astype(np.float32)

    weights, bias = draw(4 * UNITS, INPUTS + UNITS, scale=0.3), draw(4 * UNITS, scale=0.3)
    x, h0, c0 = draw(STEPS, BATCH, INPUTS), np.tanh(draw(BATCH, UNITS)), draw(BATCH, UNITS)
    active = active_steps(generator.integers(1, STEPS + 1, BATCH), STEPS)
    dy = np.where(active[:, :, None], draw(STEPS, BATCH, UNITS), np.float32(0))
    exponents = int(exponent_of(np.abs(x).max())), 0
    product = IntegerProduct(quantised(weights, bias, arithmetic), arithmetic, (INPUTS, UNITS), exponents, 1)
    forward = integers.layer_forward(product, x, h0, c0, active, delta_inputs=OFF)
    back = integers.layer_backward(forward, dy, np.zeros_like(h0), np.zeros_like(c0))
    y, expected = autograd(product, weights, bias, x, h0, c0, active, dy)
    np.testing.assert_allclose(forward.y, y, atol=2e-6)
    found = back.weights, back.bias, back.dx, back.dh0, back.dc0
    # δ that lies on a half step may be rounded to either side, as float32 and float64 differ: a step of one element
    step = 2.0 ** (1 - (arithmetic.delta_bits - 1)) * np.abs(weights).max()
    for name, array, wanted in zip(("dW", "db", "dx", "dh0", "dc0"), found, expected, strict=True):
        apart = np.abs(array - wanted)
        assert np.median(apart) <= 2e-6 * np.abs(wanted).max() and apart.max() <= 4 * step, name
