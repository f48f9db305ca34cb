"""State dicts: what PyTorch's names promise."""

import re

import numpy as np
import pytest

from etalstm.errors import InterchangeError
from etalstm.formats.interchange.state import LstmState
from etalstm.network.shape import NetworkShape, initial_parameters
from tests.formats.interchange.states import state_dict


def test_a_state_dict_comes_back_as_it_was():
    arrays = state_dict(5, 3, 2, 2)
    state = LstmState.of_arrays(arrays)
    assert (state.input_size, state.hidden_size, state.directions, len(state.layers)) == (5, 3, 2, 2)
    again = state.arrays()
    assert again.keys() == arrays.keys()
    assert all((again[name] == arrays[name]).all() for name in arrays)


def test_a_session_has_the_sum_of_both_biases():
    arrays = state_dict(5, 3, 2, 1)
    layers = LstmState.of_arrays(arrays).to_layers()
    assert [entry.weights.shape for entry in layers] == [(12, 8), (12, 6)]
    assert (layers[1].weights[:, 3:] == arrays["weight_hh_l1"]).all()
    assert (layers[0].bias == arrays["bias_ih_l0"] + arrays["bias_hh_l0"]).all()


def test_layers_of_a_session_come_back_bit_for_bit():
    layers = initial_parameters(NetworkShape(4, 3, 2), seed=1)
    again = LstmState.of_arrays(LstmState.of_layers(layers).arrays()).to_layers()
    for entry, other in zip(layers, again, strict=True):
        assert (entry.weights == other.weights).all() and (entry.bias == other.bias).all()


def test_absent_biases_are_zeros():
    arrays = {name: array for name, array in state_dict(5, 3, 1, 1).items() if name.startswith("weight")}
    assert not LstmState.of_arrays(arrays).to_layers()[0].bias.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight_hh_l0": None}, "weight_hh_l0 is missing"),
        ({"weight_hh_l0": np.zeros((12, 4), np.float32)}, r"weight_ih_l0 has shape \(12, 5\), expected \(16, 5\)"),
        ({"bias_ih_l1": np.zeros(11, np.float32)}, r"bias_ih_l1 has shape \(11,\), expected \(12,\)"),
        ({"weight_ih_l1": np.zeros((12, 5), np.float32)}, r"weight_ih_l1 has shape \(12, 5\), expected \(12, 3\)"),
        ({"weight_hr_l0": np.zeros((2, 3), np.float32)}, "weight_hr_l0 .*: projections cannot be read"),
        ({"weight_ih_l3": np.zeros((12, 3), np.float32)}, "weight_ih_l3 is no parameter of an LSTM with 2 layers"),
        ({"bias_hh_l0": np.zeros(12)}, "bias_hh_l0 is of float64, expected float32"),
        ({"bias_hh_l0": np.full(12, np.nan, np.float32)}, "bias_hh_l0 has a value that is not finite"),
    ],
)
def test_refuses_what_is_no_lstm(change, message):
    arrays = {name: array for name, array in (state_dict(5, 3, 2, 1) | change).items() if array is not None}
    with pytest.raises(InterchangeError, match=message):
        LstmState.of_arrays(arrays)


def test_refuses_layers_with_different_directions():
    arrays = state_dict(5, 3, 2, 2)
    one = {name: array for name, array in arrays.items() if not name.endswith("l1_reverse")}
    with pytest.raises(InterchangeError, match="layer 1 has 1 directions, layer 0 has 2"):
        LstmState.of_arrays(one)


def test_a_session_takes_one_direction_only():
    with pytest.raises(InterchangeError, match="bidirectional"):
        LstmState.of_arrays(state_dict(5, 3, 1, 2)).to_layers()


def test_refuses_nothing_at_all():
    with pytest.raises(InterchangeError, match="at least one LSTM layer"):
        LstmState.of_arrays({})


@pytest.mark.parametrize("shape", [(), (16,), (0, 4), (16, 4, 1)])
@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l0"])
def test_refuses_weights_that_are_no_matrix(name, shape):
    arrays = state_dict(5, 4, 1, 1) | {name: np.zeros(shape, np.float32)}
    with pytest.raises(InterchangeError, match=rf"{name} has shape {re.escape(str(shape))}, expected two axes"):
        LstmState.of_arrays(arrays)
