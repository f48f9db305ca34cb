"""Each of the four steps by itself."""

import pytest
import torch
from torch import nn

from etalstm.research.compress import mask_of, prune, put_masks
from etalstm.research.compress.masks import probing, stored
from etalstm.research.compress.network import Sizes
from etalstm.research.compress.steps import drop_empty, grow, grow_weights, prune_weights, sparse_seed
from etalstm.research.compress.task import MaskedLanguageModel


def linear(weights):
    module = nn.Linear(len(weights[0]), len(weights))
    with torch.no_grad():
        module.weight[:] = torch.tensor(weights)
    put_masks(module)
    return module, mask_of(module, "weight"), stored(module, "weight")


def model(units=(6, 4), cell="lstm"):
    torch.manual_seed(3)
    return MaskedLanguageModel(Sizes(11, 5, units, cell=cell))


def scores(network):
    words = torch.arange(12).reshape(4, 3) % 11
    return network(words, [None] * 2)[0]


def test_a_seed_has_the_share_that_is_asked_for_and_depends_on_its_generator_only():
    masks = [mask for mask, _ in model().matrices()]
    for _ in range(2):
        sparse_seed(masks, 0.25, torch.Generator().manual_seed(5))
    first = [mask.elements.clone() for mask in masks]
    assert [int(one.sum()) for one in first] == [30, 36, 24, 16]
    sparse_seed(masks, 0.25, torch.Generator().manual_seed(5))
    assert all(torch.equal(mask.elements, one) for mask, one in zip(masks, first, strict=True))
    sparse_seed(masks, 0.25, torch.Generator().manual_seed(6))
    assert not torch.equal(masks[0].elements, first[0])


def test_pruning_takes_the_smallest_weights_of_those_that_are_kept():
    _, mask, weight = linear([[1.0, -0.5, 0.25, 3.0], [0.125, 2.0, -4.0, 5.0]])
    assert prune_weights([(mask, weight)], 0.25) == 2
    assert mask.elements.tolist() == [[True, True, False, True], [False, True, True, True]]
    assert prune_weights([(mask, weight)], 0.5) == 3
    assert mask.elements.tolist() == [[False, False, False, True], [False, False, True, True]]


def test_growing_wakes_the_masked_weights_with_the_largest_gradients():
    _, mask, weight = linear([[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
    mask.set(elements=torch.tensor([[True, False, False, True], [False, False, True, True]]))
    weight.grad = torch.tensor([[9.0, -8.0, 1.0, 7.0], [0.5, 6.0, 0.1, 0.2]])
    assert grow_weights([(mask, weight)], 0.5) == 2  # the four largest are 9, 8, 7 and 6; two of them are kept already
    assert mask.elements.tolist() == [[True, True, False, True], [False, True, True, True]]
    assert weight[0, 1] == 0 and weight[1, 1] == 0 and weight[0, 0] == 1


def test_a_weight_without_a_gradient_or_in_a_removed_row_is_not_woken():
    _, mask, weight = linear([[1.0, 1.0], [1.0, 1.0]])
    mask.set(elements=torch.zeros(2, 2, dtype=torch.bool), rows=torch.tensor([True, False]))
    weight.grad = torch.tensor([[0.0, 1.0], [2.0, 2.0]])
    assert grow_weights([(mask, weight)], 1.0) == 1 and mask.elements.tolist() == [[False, True], [False, False]]


def test_the_units_with_the_smallest_magnitudes_go():
    network = model()
    units = network.dimensions[1]
    with torch.no_grad():
        for side in (*units.makers, *units.readers):
            side.stored.fill_(0.1)
            side.stored[side.whole(torch.tensor([False, True, False, False, True, False]))] = 0.01
    prune(units, 4)
    assert units.kept.tolist() == [True, False, True, True, False, True]
    assert (units.makers[0].stored[[1, 4, 7, 10]] == 0).all()
    assert (stored(network.layers[1], "weight_ih_l0")[:, 1] == 0.01).all(), "what reads a unit stays stored"


def probe(network, dimension):
    network.zero_grad()
    with probing(network), dimension.readers_open():
        before = scores(network)
        before.cos().sum().backward()
    return before


@pytest.mark.parametrize("number", [0, 1, 2])
def test_removed_elements_can_be_probed_without_changing_anything(number):
    network = model()
    dimension = network.dimensions[number]
    prune(dimension, 2)
    without = scores(network)
    assert torch.equal(probe(network, dimension), without)
    of_makers = sum(side.sums(side.stored.grad) for side in dimension.makers)
    assert (of_makers[~dimension.kept] > 0).all() and dimension.count == 2


def test_the_elements_with_the_largest_gradients_come_back_a_step_from_zero():
    network = model()
    units = network.dimensions[1]
    for side in units.makers:
        side.mask.set(elements=torch.rand(side.stored.shape) < 0.3)
    prune(units, 2)
    before = units.kept.clone()
    probe(network, units)
    sums = sum(side.sums(side.stored.grad) for side in units.makers).masked_fill(before, -1)
    grow(units, 3, learning_rate=0.5)
    woken = units.kept & ~before
    assert woken.nonzero().tolist() == [[int(sums.argmax())]]
    for side in units.makers:
        whole = side.whole(woken)
        assert torch.equal(side.stored[whole], -0.5 * side.stored.grad[whole])
        assert side.mask.elements[whole].all(), "they were masked before"
    assert (stored(network.layers[1], "weight_ih_l0")[:, woken] != 0).all(), "it is read as before"


def test_a_step_of_growth_lowers_the_loss():
    network = model()
    units = network.dimensions[2]
    prune(units, 1)
    words = torch.arange(12).reshape(4, 3) % 11

    def loss():
        return nn.functional.cross_entropy(scores(network).flatten(0, 1), words.flatten())

    network.zero_grad()
    with probing(network), units.readers_open():
        before = loss()
        before.backward()
    grow(units, 4, learning_rate=0.5)
    assert loss() < before


def test_units_that_nothing_makes_or_nobody_reads_are_dropped():
    network = model()
    units = network.dimensions[1]
    made, read = torch.ones(24, 5, dtype=torch.bool), torch.ones(16, 6, dtype=torch.bool)
    recurrent = torch.ones(24, 6, dtype=torch.bool)
    made[[2, 8, 14, 20]] = recurrent[[2, 8, 14, 20]] = False  # all gates of unit 2
    read[:, 4] = recurrent[:, 4] = False
    mask_of(network.layers[0], "weight_ih_l0").set(elements=made)
    mask_of(network.layers[0], "weight_hh_l0").set(elements=recurrent)
    mask_of(network.layers[1], "weight_ih_l0").set(elements=read)
    assert drop_empty(units) == 2 and units.kept.tolist() == [True, True, False, True, False, True]
    assert drop_empty(units) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda net: prune(net.dimensions[1], 0), "units_0: pruning must leave 1 to 6, got 0"),
        (lambda net: prune(net.dimensions[1], 7), "units_0: pruning must leave 1 to 6, got 7"),
        (lambda net: grow(net.dimensions[1], 7, 0.1), "units_0: growth must lead to 6 to 6, got 7"),
        (lambda net: grow(net.dimensions[2], 4, 0.1), "units_1: growing needs gradients"),
        (lambda _: grow(model(cell="hlstm").dimensions[1], 6, 0.1), "units of an H-LSTM cannot grow"),
        (lambda net: grow_weights(net.matrices(), 0.1), "growing needs gradients, a weight of shape"),
        (lambda net: grow_weights(net.matrices(), 0.0), "growth ratio must be above 0 and at most 1, got 0.0"),
        (lambda net: prune_weights(net.matrices(), 1.0), "pruning ratio must be above 0 and below 1, got 1.0"),
        (lambda net: sparse_seed([], 2, torch.Generator()), "density must be above 0 and at most 1, got 2"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        change(model())
