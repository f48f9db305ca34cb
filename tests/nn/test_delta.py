"""Delta inputs: gradients are those of PyTorch's autograd, in float64, of a program that holds what was last sent."""

import numpy as np
import pytest
import torch

from etalstm.golden import float64
from etalstm.golden.passes import active_steps
from etalstm.golden.trainer import Rows, network_backward, network_forward
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution

STEPS, BATCH, INPUTS, UNITS, LAYERS = 9, 4, 5, 6, 2
LENGTHS = np.array([9, 4, 7, 1])
BOUND = 1e-10  # relative; both round sums of some hundred terms to 2^-53


def drawn():
    """Random tensors by name, float64; x changes slowly."""
    generator = np.random.default_rng(3)
    tensors = {"x": np.cumsum(generator.normal(size=(STEPS, BATCH, INPUTS)) * 0.3, axis=0)}
    for layer, width in enumerate((INPUTS, UNITS)):
        tensors[f"weights{layer}"] = generator.normal(size=(4 * UNITS, width + UNITS)) * 0.4
        tensors[f"bias{layer}"] = generator.normal(size=4 * UNITS) * 0.4
        tensors[f"h0{layer}"], tensors[f"c0{layer}"] = generator.normal(size=(2, BATCH, UNITS)) * 0.5
    return tensors


def drawn_gradients():
    """dy, which is 0 at padded steps, dh and dc."""
    generator = np.random.default_rng(4)
    dy = generator.normal(size=(STEPS, BATCH, UNITS)) * active_steps(LENGTHS, STEPS)[:, :, None]
    return dy, *generator.normal(size=(2, LAYERS, BATCH, UNITS))


def layer_program(weights, bias, x, h, c, inputs, skipped):
    """One layer; rows of the matrix are 4*unit + gate. What a skipped cell gives and holds is cut off the graph."""
    thresholds = torch.tensor([inputs.x] * x.shape[2] + [inputs.h] * UNITS, dtype=torch.float64)
    outputs, active, sent = [], torch.from_numpy(active_steps(LENGTHS, STEPS)), None
    for t in range(STEPS):
        xh = torch.cat([x[t], h], dim=1)
        if inputs.refreshes(t):
            sent = xh
        else:
            moved = (xh - sent).detach().abs()
            sent = torch.where((moved != 0) & ~(moved < thresholds), xh, sent)
        z = (sent @ weights.T + bias).reshape(BATCH, UNITS, 4)
        i, f, g, o = z[..., 0].sigmoid(), z[..., 1].sigmoid(), z[..., 2].tanh(), z[..., 3].sigmoid()
        live = active[t][:, None]
        c = torch.where(live, f * c + i * g, c)
        h = torch.where(live, o * c.tanh(), h)
        if skipped[t]:
            h, c, sent = h.detach(), c.detach(), sent.detach()
        outputs.append(h)
    return torch.stack(outputs), h, c


def gradients_of_program(tensors, inputs, skipped):
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in tensors.items()}
    dy, dh, dc = map(torch.from_numpy, drawn_gradients())
    y, loss = leaves["x"], 0.0
    for n in range(LAYERS):
        arguments = [leaves[f"{name}{n}"] for name in ("weights", "bias", "h0", "c0")]
        y, h, c = layer_program(*arguments[:2], y, *arguments[2:], inputs.layer(n), skipped[n])
        loss = loss + (h * dh[n]).sum() + (c * dc[n]).sum()
    (loss + (y * dy).sum()).backward()
    return {name: torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for name, leaf in leaves.items()}


def gradients_of_golden(tensors, inputs, skipped):
    layers = [Rows(tensors[f"weights{n}"], tensors[f"bias{n}"]) for n in range(LAYERS)]
    h0, c0 = (np.stack([tensors[f"{name}{n}"] for n in range(LAYERS)]) for name in ("h0", "c0"))
    execution = Execution(delta_inputs=inputs)
    passes = network_forward(layers, tensors["x"], LENGTHS, h0, c0, float64, execution, skipped_cells=skipped)
    results = network_backward(layers, passes, *drawn_gradients(), float64)
    found = {"x": results[0].dx}
    for n, result in enumerate(results):
        found |= {f"weights{n}": result.weights, f"bias{n}": result.bias, f"h0{n}": result.dh0, f"c0{n}": result.dc0}
    return found, np.mean([done.sent.mean() for done in passes])


@pytest.mark.parametrize("skipped", [[], [(0, 3), (1, 0), (1, 5)]], ids=["all cells", "without three"])
@pytest.mark.parametrize("refresh", [1, 4, 0])
def test_gradients_are_those_of_autograd(refresh, skipped):
    cells = np.zeros((LAYERS, STEPS), bool)
    for cell in skipped:
        cells[cell] = True
    inputs = DeltaInputs(((0.4, 0.1), (0.05, 0.15)), refresh)
    tensors = drawn()
    found, share = gradients_of_golden(tensors, inputs, cells)
    assert share == 1 if refresh == 1 else 0.2 < share < 0.8, share
    for name, expected in gradients_of_program(tensors, inputs, cells).items():
        error = np.linalg.norm(found[name] - expected.numpy()) / max(np.linalg.norm(expected), 1e-30)
        assert error < BOUND, f"{name}: relative error {error:.3g}"
