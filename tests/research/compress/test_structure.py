"""Units and inputs that are removed, and the smaller networks without them."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from etalstm.device import open_device
from etalstm.nn import HLSTM, LSTM
from etalstm.research.compress import compact, prune, put_masks, units_of
from etalstm.research.compress.network import Sizes
from etalstm.research.compress.task import LanguageModel, MaskedLanguageModel

INPUTS, UNITS, STEPS, BATCH = 5, 6, 4, 3
SIZES = Sizes(outputs=11, inputs=5, units=(6, 4))


def bits(tensor):
    return tensor.detach().contiguous().view(torch.int32)


def pruned_network(kind=LSTM, **options):
    """Give a network of two layers, 2 of 6 units removed from each."""
    torch.manual_seed(1)
    lstm = kind(INPUTS, UNITS, 2, **options)
    put_masks(lstm)
    for layer in range(2):
        prune(units_of(lstm, layer), 4)
    return lstm


def check_compact(kind, **options):
    lstm = pruned_network(kind, **options)
    small = compact(lstm)
    assert small.module.hidden_size == 4 and small.module.weight_hh_l1.shape == (16, 4)
    torch.manual_seed(2)
    x = torch.randn(STEPS, BATCH, INPUTS)
    (y, (h, c)), (small_y, (small_h, small_c)) = lstm(x), small.module(x)
    assert torch.equal(bits(y[..., small.units[1]]), bits(small_y))
    for layer, units in enumerate(small.units):
        assert torch.equal(bits(h[layer][:, units]), bits(small_h[layer])), layer
        assert torch.equal(bits(c[layer][:, units]), bits(small_c[layer])), layer
    gone = torch.ones(UNITS, dtype=torch.bool).index_fill(0, small.units[1], False)
    assert (bits(y[..., gone]) == 0).all()


@pytest.mark.parametrize("kind", [LSTM, HLSTM])
def test_on_golden_a_smaller_network_has_the_same_bits(kind):
    check_compact(kind)


@pytest.mark.parametrize("kind", [LSTM, HLSTM])
def test_on_the_simulated_machine_a_smaller_network_has_the_same_bits(kind):
    with open_device("sim", "test") as device:
        check_compact(kind, engine=device)


def test_the_gradients_of_what_is_left_are_the_same():
    lstm = pruned_network()
    small = compact(lstm)
    x = torch.randn(STEPS, BATCH, INPUTS)
    gradients = []
    for network in (lstm, small.module):
        given = x.clone().requires_grad_()
        network(given)[0].cos().sum().backward()
        gradients.append(given.grad)
    assert torch.equal(*gradients)
    rows = torch.cat([small.units[0] + gate * UNITS for gate in range(4)])
    whole = lstm.parametrizations.weight_hh_l0.original.grad[rows][:, small.units[0]]
    assert torch.equal(whole, small.module.weight_hh_l0.grad)


def test_a_unit_takes_its_rows_and_columns_with_it():
    lstm = LSTM(3, 4, 2)
    put_masks(lstm)
    units_of(lstm, 0).keep(torch.tensor([True, False, True, True]))
    rows = [1, 5, 9, 13]
    assert (lstm.weight_ih_l0[rows] == 0).all() and (lstm.bias_hh_l0[rows] == 0).all()
    assert (lstm.weight_hh_l0[:, 1] == 0).all() and (lstm.weight_ih_l1[:, 1] == 0).all()
    assert lstm.weight_hh_l0.count_nonzero() == 12 * 3 and (lstm.weight_hh_l1 != 0).all()


def test_a_unit_of_an_hlstm_takes_a_unit_of_each_hidden_layer_with_it():
    one = HLSTM(3, 4)
    put_masks(one)
    units_of(one).keep(torch.tensor([True, False, True, True]))
    rows = [1, 5, 9, 13]
    for name in one.parameter_names(0):
        assert (getattr(one, name)[rows] == 0).all(), name
    assert (one.weight_hh_l0[:, 1] == 0).all() and (one.weight_gates_l0[:, 1] == 0).all()
    assert (one.weight_ih_l0[[0, 2, 3]] != 0).all() and one.weight_gates_l0.count_nonzero() == 12 * 3


def test_a_smaller_lstm_runs_as_the_large_one_did():
    options = {"storage": "ms1", "theta": 0.1, "slices": 2, "input_threshold": 0.2, "delta_threshold": 0.1}
    lstm = LSTM(3, 4, **options)
    assert compact(lstm).module._settings == lstm._settings


def test_layers_that_differ_keep_some_empty_units():
    lstm = LSTM(3, 4, 2)
    put_masks(lstm)
    units_of(lstm, 0).keep(torch.tensor([True, False, True, True]))
    units_of(lstm, 1).keep(torch.tensor([False, False, True, True]))
    small = compact(lstm)
    assert (
        small.module.hidden_size == 3 and small.units[0].tolist() == [0, 2, 3] and small.units[1].tolist() == [0, 2, 3]
    )


def test_inputs_without_weights_go():
    torch.manual_seed(1)
    lstm = LSTM(3, 4)
    with torch.no_grad():
        lstm.weight_ih_l0[:, 1] = 0
    small = compact(lstm)
    assert small.inputs.tolist() == [0, 2] and small.module.input_size == 2
    x = torch.randn(STEPS, BATCH, 3)
    assert torch.equal(lstm(x)[0], small.module(x[..., [0, 2]])[0])


def test_a_stock_lstm_stays_one():
    small = compact(nn.LSTM(3, 4)).module
    assert type(small) is nn.LSTM and small.hidden_size == 4


def masked_model(sizes=SIZES):
    torch.manual_seed(3)
    model = MaskedLanguageModel(sizes)
    for dimension, count in zip(model.dimensions, (3, 4, 2), strict=True):
        prune(dimension, count)
    return model


@pytest.mark.parametrize("sizes", [SIZES, replace(SIZES, cell="hlstm")])
def test_a_smaller_language_model_gives_the_same_scores(sizes):
    model = masked_model(sizes)
    small = model.compact()
    assert isinstance(small, LanguageModel) and small.layers[0].hidden_size == 4 and small.layers[1].input_size == 4
    assert small.embedding.weight.shape == (11, 3) and small.output.weight.shape == (11, 2)
    assert small.lstm_parameters() == model.lstm_parameters() and small.parameters_kept() == model.parameters_kept()
    words = torch.randint(11, (STEPS, BATCH))
    ours, theirs = model(words, [None] * 2)[0], small(words, [None] * 2)[0]
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: units_of(LSTM(3, 4), 1), "layer must be 0 to 0, got 1"),
        (lambda: units_of(LSTM(3, 4, bidirectional=True)), "must have one direction and no projection"),
        (lambda: compact(LSTM(3, 4), units=[torch.tensor([True, True, False, True])]), "unit 2 is not kept, but has"),
        (lambda: compact(LSTM(3, 4), inputs=torch.tensor([True, False, True])), "input 1 is not kept, but has weights"),
        (lambda: Sizes(5, 4, ()), "units must name at least one layer"),
        (lambda: Sizes(5, 4, (3,), cell="gru"), "cell must be one of lstm, hlstm, got 'gru'"),
        (lambda: Sizes(5, 4, (3,), 2, "hlstm"), "cell hlstm has one direction, got 2"),
        (lambda: Sizes(5, 4, (3, 0)), "units of layer 1 must be above 0, got 0"),
        (lambda: masked_model().dimensions[1].keep(torch.ones(5, dtype=torch.bool)), r"must be bool of shape \(6,\)"),
        (lambda: masked_model().dimensions[1].keep(torch.zeros(6, dtype=torch.bool)), "at least 1 of 6 must be kept"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        change()


def test_nothing_left_is_refused():
    lstm = LSTM(3, 4)
    with torch.no_grad():
        for parameter in lstm.parameters():
            parameter.zero_()
    with pytest.raises(ValueError, match="must keep at least 1 of its 4 units"):
        compact(lstm)
