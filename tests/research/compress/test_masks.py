"""Masked weights are zero, have no gradient, and leave the bits of a network whose weights happen to be zero."""

import pytest
import torch
from torch import nn

from etalstm.device import open_device
from etalstm.nn import HLSTM, LSTM
from etalstm.research.compress import mask_of, put_masks
from etalstm.research.compress.masks import masks_of, probing, stored
from etalstm.research.compress.structure import layer_names

INPUTS, UNITS, STEPS, BATCH = 3, 4, 3, 2


def random_masks(module, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for mask in put_masks(module).values():
        shapes = {"elements": mask.elements.shape, "rows": mask.rows.shape, "columns": mask.columns.shape}
        mask.set(**{name: torch.rand(shape, generator=generator) < 0.8 for name, shape in shapes.items()})
    return module


def network(kind=LSTM, **options):
    torch.manual_seed(1)
    return kind(INPUTS, UNITS, 2, **options)


def plain_copy(masked, kind, **options):
    """Give a network without masks whose weights are zero where they are masked."""
    plain = network(kind, **options)
    weights = {name: getattr(masked, name).detach() for name, _ in plain.named_parameters()}
    plain.load_state_dict(weights)
    return plain


def passes(module, x):
    """Give the output, the gradient of the input, and those of every weight."""
    x = x.clone().requires_grad_()
    y, _ = module(x)
    y.cos().sum().backward()
    names = [name for layer in layer_names(module) for name in layer]
    return y.detach(), x.grad, [gradient(module, name) for name in names]


def gradient(module, name):
    return (stored(module, name) if masks_of(module) else getattr(module, name)).grad


def same_bits(one, other):
    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def check_bits(kind, **options):
    masked = random_masks(network(kind, **options))
    plain = plain_copy(masked, kind, **options)
    torch.manual_seed(2)
    x = torch.randn(STEPS, BATCH, INPUTS)
    ours, theirs = passes(masked, x), passes(plain, x)
    assert same_bits(ours[0], theirs[0]) and same_bits(ours[1], theirs[1])
    for (name, mask), got, expected in zip(masks_of(masked).items(), ours[2], theirs[2], strict=True):
        assert same_bits(got[mask.kept], expected[mask.kept]), name
        assert (got[~mask.kept] == 0).all() and not mask.kept.all(), name


@pytest.mark.parametrize("kind", [LSTM, HLSTM])
def test_golden_gives_the_bits_of_a_network_whose_weights_happen_to_be_zero(kind):
    check_bits(kind)


@pytest.mark.parametrize("kind", [LSTM, HLSTM])
def test_the_simulated_machine_gives_the_bits_of_a_network_whose_weights_happen_to_be_zero(kind):
    with open_device("sim", "test") as device:
        check_bits(kind, engine=device)


def test_a_masked_weight_is_positive_zero_whatever_is_stored():
    linear = nn.Linear(3, 2)
    mask = put_masks(linear)["weight"]
    with torch.no_grad():
        linear.parametrizations.weight.original[:] = torch.tensor([[-1.0, torch.inf, torch.nan], [1.0, 2.0, 3.0]])
    mask.set(rows=torch.tensor([False, True]))
    assert linear.weight[0].view(torch.int32).tolist() == [0, 0, 0] and linear.weight[1].tolist() == [1.0, 2.0, 3.0]


def test_masks_survive_saving_and_loading(tmp_path):
    masked = random_masks(network())
    torch.save(masked.state_dict(), tmp_path / "state")
    other = LSTM(INPUTS, UNITS, 2)
    put_masks(other)
    other.load_state_dict(torch.load(tmp_path / "state"))
    for name, mask in masks_of(masked).items():
        assert all(torch.equal(*pair) for pair in zip(mask.buffers(), masks_of(other)[name].buffers(), strict=True))
    x = torch.randn(STEPS, BATCH, INPUTS)
    assert same_bits(masked(x)[0], other(x)[0])


def test_a_step_of_an_optimizer_leaves_masked_weights_zero():
    masked = random_masks(network())
    optimizer = torch.optim.Adam(masked.parameters(), 0.1)
    for _ in range(2):
        optimizer.zero_grad()
        masked(torch.randn(STEPS, BATCH, INPUTS))[0].sum().backward()
        optimizer.step()
    for name, mask in masks_of(masked).items():
        assert (getattr(masked, name)[~mask.kept] == 0).all(), name


def test_probing_gives_the_gradients_of_weights_that_happen_to_be_zero():
    masked = random_masks(network())
    plain, x = plain_copy(masked, LSTM), torch.randn(STEPS, BATCH, INPUTS)
    theirs = passes(plain, x)[2]
    with probing(masked):
        ours = passes(masked, x)[2]
    assert all(same_bits(*pair) for pair in zip(ours, theirs, strict=True))
    assert any((got[~mask.kept] != 0).any() for mask, got in zip(masks_of(masked).values(), ours, strict=True))
    masked.zero_grad()
    again = passes(masked, x)[2]
    assert all((got[~mask.kept] == 0).all() for mask, got in zip(masks_of(masked).values(), again, strict=True))


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (2,)])
def test_a_mask_of_another_shape_is_refused(shape):
    mask = put_masks(nn.Linear(3, 2))["weight"]
    with pytest.raises(ValueError, match=r"mask elements must be bool of shape \(2, 3\), got torch.bool of"):
        mask.set(elements=torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"mask rows must be bool of shape \(2,\), got torch.float32 of \(2,\)"):
        mask.set(rows=torch.ones(2))


def test_modules_that_take_no_masks_are_refused():
    with pytest.raises(ValueError, match="masks go on LSTM, HLSTM, Linear and Embedding; Tanh has none"):
        put_masks(nn.Tanh())


def test_a_weight_keeps_the_mask_that_it_has():
    linear = nn.Linear(3, 2)
    put_masks(linear)["weight"].set(rows=torch.tensor([False, True]))
    put_masks(linear)
    assert not mask_of(linear, "weight").rows[0] and len(masks_of(linear)) == 2
