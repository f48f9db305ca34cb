"""``etalstm.research.reduced.LSTM`` drops, skips and measures as the golden trainer does."""

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from etalstm.golden.float64 import FLOAT32_GRADIENT_BOUND
from etalstm.golden.trainer import Rows, network_backward, network_forward
from etalstm.network.execution import Execution
from etalstm.network.shape import LayerParameters, pytorch_rows
from etalstm.network.storage import Storage
from etalstm.network.update_rule import contribution_norms
from etalstm.research.reduced import LSTM
from etalstm.research.reduced.compression import kept_elements, kept_tensors

INPUTS, UNITS, LAYERS, STEPS, BATCH = 5, 13, 2, 9, 6
LENGTHS = np.array([9, 9, 7, 4, 4, 1])
SIX = (0.02, 0.05, 0.3, 0.01, 0.2, 0.4)
# One word of some thousand that rounds to the other of two neighbours in bfloat16 errs by 2^-8 of itself.
BOUNDS = {"ms1": FLOAT32_GRADIENT_BOUND, "ms1-bf16": 2e-4, "dense": FLOAT32_GRADIENT_BOUND}
SKIPPED = np.zeros((LAYERS, STEPS), bool)
SKIPPED[0, :2] = SKIPPED[1, :4] = SKIPPED[1, 6] = True


class Pass:
    """One iteration's random numbers, float32; a network like PyTorch's default has gates around one half only."""

    def __init__(self):
        generator = np.random.default_rng(5)

        def draw(*shape):
            return generator.standard_normal(shape, np.float32)

        widths = (INPUTS, UNITS)
        self.layers = [LayerParameters(draw(4 * UNITS, n + UNITS), draw(4 * UNITS)) for n in widths]
        self.x, self.dy = draw(STEPS, BATCH, INPUTS), draw(STEPS, BATCH, UNITS)
        self.dy[np.arange(STEPS)[:, None] >= LENGTHS] = 0
        self.h0, self.c0, self.dh, self.dc = draw(4, LAYERS, BATCH, UNITS)


def on_golden(given, storage, theta, skipped, lengths):
    """Give results and gradients by name, elements kept, and what each cell contributed."""
    layers = [Rows.of(layer) for layer in given.layers]
    kept = Storage(storage, theta)
    passes = network_forward(
        layers, given.x, lengths, given.h0, given.c0, execution=Execution(kept), skipped_cells=skipped
    )
    back = network_backward(layers, passes, given.dy, given.dh, given.dc)
    found = {"y": np.where(passes[-1].active[:, :, None], passes[-1].y, 0), "dx": back[0].dx}
    found |= {"h": np.stack([one.h[-1] for one in passes]), "c": np.stack([one.c[-1] for one in passes])}
    found |= {"dh0": np.stack([one.dh0 for one in back]), "dc0": np.stack([one.dc0 for one in back])}
    for n, gradients in enumerate(back):
        split = np.split(pytorch_rows(gradients.weights), [passes[n].x.shape[2]], axis=1)
        found |= {f"weight_ih_l{n}": split[0], f"weight_hh_l{n}": split[1]}
        found |= dict.fromkeys((f"bias_ih_l{n}", f"bias_hh_l{n}"), pytorch_rows(gradients.bias))
    factors = zip(back, passes, strict=True)
    norms = [contribution_norms(b.delta, np.concatenate([p.x, p.h[:-1]], axis=2)) for b, p in factors]
    return found, sum(int(np.count_nonzero(one.kept)) for one in passes), np.stack(norms)


def in_pytorch(given, storage, theta, skipped, lengths):
    """Do what :func:`on_golden` does; a batch with padding is packed."""
    network = LSTM(INPUTS, UNITS, LAYERS, storage=storage, theta=theta, skip=skipped)
    network.load_state_dict(state_dict(given.layers))
    network.measure = True
    x, h0, c0 = (torch.from_numpy(array).requires_grad_() for array in (given.x, given.h0, given.c0))
    packed = lengths.min() < STEPS
    y, (h, c) = network(pack_padded_sequence(x, lengths) if packed else x, (h0, c0))
    y = pad_packed_sequence(y)[0] if packed else y
    gradients = [torch.from_numpy(array) for array in (given.dy, given.dh, given.dc)]
    torch.autograd.backward([y, h, c], gradients)
    found = {"y": y, "dx": x.grad, "h": h, "c": c, "dh0": h0.grad, "dc0": c0.grad}
    found |= {name: parameter.grad for name, parameter in network.named_parameters()}
    contributions = network.contributions()
    kept = kept_elements(kept_tensors(lambda: network(pack_padded_sequence(x, lengths) if packed else x, (h0, c0))))
    return {name: tensor.detach().numpy() for name, tensor in found.items()}, kept, contributions


def state_dict(layers):
    tensors = {}
    for n, layer in enumerate(layers):
        width = layer.weights.shape[1] - UNITS
        tensors |= {f"weight_ih_l{n}": layer.weights[:, :width], f"weight_hh_l{n}": layer.weights[:, width:]}
        tensors |= {f"bias_ih_l{n}": layer.bias, f"bias_hh_l{n}": np.zeros_like(layer.bias)}
    return {name: torch.from_numpy(array.copy()) for name, array in tensors.items()}


@pytest.mark.parametrize("skipped", [None, SKIPPED], ids=["all cells", "skipping"])
@pytest.mark.parametrize("lengths", [np.full(BATCH, STEPS), LENGTHS], ids=["padded", "packed"])
@pytest.mark.parametrize(
    ("storage", "theta"), [("dense", 0.0), ("ms1", 0.0), ("ms1", 0.1), ("ms1", SIX), ("ms1-bf16", 0.1)]
)
def test_results_and_gradients_are_golden_ones(storage, theta, lengths, skipped):
    given = Pass()
    expected, kept_there, contributed = on_golden(given, storage, theta, skipped, lengths)
    found, kept_here, measured = in_pytorch(given, storage, theta, skipped, lengths)
    if storage != "dense":
        assert kept_here == kept_there, "an element lies closer to its threshold than the arithmetics differ"
    for name, array in expected.items():
        error = np.linalg.norm(found[name] - array) / max(np.linalg.norm(array), 1e-30)
        assert error < BOUNDS[storage], f"{name}: relative error {error:.3g}"
    np.testing.assert_allclose(measured, contributed, rtol=100 * BOUNDS[storage], atol=1e-6)


def test_a_threshold_changes_the_gradients():
    given, lengths = Pass(), np.full(BATCH, STEPS)
    dense, pruned = (in_pytorch(given, "ms1", theta, None, lengths)[0] for theta in (0.0, 0.1))
    assert np.array_equal(dense["y"], pruned["y"])
    assert np.linalg.norm(dense["weight_hh_l0"] - pruned["weight_hh_l0"]) > 0.01 * np.linalg.norm(dense["weight_hh_l0"])


def test_layers_have_storages_of_their_own():
    given, lengths = Pass(), np.full(BATCH, STEPS)
    mixed, _, _ = in_pytorch(given, ("dense", "ms1"), 0.1, None, lengths)
    expected, _, _ = on_golden(given, ("dense", "ms1"), 0.1, None, lengths)
    for name, array in expected.items():
        np.testing.assert_allclose(mixed[name], array, rtol=0, atol=1e-5 * np.abs(array).max(), err_msg=name)
