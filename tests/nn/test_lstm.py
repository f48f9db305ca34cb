"""``etalstm.nn.LSTM`` does what ``torch.nn.LSTM`` does."""

import copy
import pickle

import pytest
import torch
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import etalstm.nn
from tests.nn.parity import assert_close, run, whole_loss

INPUTS, UNITS, LAYERS, STEPS, BATCH = 3, 5, 2, 6, 4
LENGTHS = [3, 6, 1, 4]


def pair(**options):
    """Give a network and a stock one with the same parameters."""
    torch.manual_seed(1)
    network = etalstm.nn.LSTM(INPUTS, UNITS, LAYERS, **options)
    return network, network.to_stock()


def sequences(batch_first=False, seed=2):
    torch.manual_seed(seed)
    return torch.randn(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), INPUTS)


def states(directions=1):
    torch.manual_seed(3)
    return tuple(torch.randn(2, LAYERS * directions, BATCH, UNITS))


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("with_states", [False, True])
def test_batches_give_what_torch_gives(batch_first, bidirectional, bias, with_states):
    network, stock = pair(batch_first=batch_first, bidirectional=bidirectional, bias=bias)
    x, given = sequences(batch_first), states(1 + bidirectional) if with_states else None
    assert_close(run(network, x, given), run(stock, x, given))


def test_the_biases_have_gradients_of_their_own():
    network, _ = pair()
    network(sequences())[0].sum().backward()
    before = network.bias_hh_l0.grad.clone()
    assert torch.equal(network.bias_ih_l0.grad, before)
    network.bias_ih_l0.grad.zero_()
    assert torch.equal(network.bias_hh_l0.grad, before)


@pytest.mark.parametrize(("inputs", "units", "layers", "steps", "batch"), [(8, 32, 2, 8, 16), (64, 64, 1, 35, 8)])
def test_larger_networks_give_what_torch_gives(inputs, units, layers, steps, batch):
    torch.manual_seed(5)
    network = etalstm.nn.LSTM(inputs, units, layers)
    x, given = torch.randn(steps, batch, inputs), tuple(torch.randn(2, layers, batch, units))
    assert_close(run(network, x, given), run(network.to_stock(), x, given))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("enforce_sorted", [False, True])
@pytest.mark.parametrize("with_states", [False, True])
def test_packed_sequences_give_what_torch_gives(bidirectional, enforce_sorted, with_states):
    network, stock = pair(bidirectional=bidirectional)
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    packed = pack_padded_sequence(sequences(), lengths, enforce_sorted=enforce_sorted)
    given = states(1 + bidirectional) if with_states else None
    assert_close(run(network, packed, given), run(stock, packed, given))


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_one_step_in_both_directions_gives_what_torch_gives(batch, batch_first, packed):
    network, stock = pair(bidirectional=True, batch_first=batch_first)
    x = torch.randn(*((batch, 1) if batch_first else (1, batch)), INPUTS)
    x = pack_padded_sequence(x, [1] * batch, batch_first=batch_first) if packed else x
    assert_close(run(network, x), run(stock, x))


def test_a_packed_sequence_comes_back_in_the_order_it_was_given():
    network, _ = pair()
    packed = pack_padded_sequence(sequences(), LENGTHS, enforce_sorted=False)
    y, (h, _) = network(packed)
    padded, lengths = pad_packed_sequence(y)
    assert lengths.tolist() == LENGTHS
    for sequence, length in enumerate(LENGTHS):
        assert torch.equal(padded[length - 1, sequence], h[-1, sequence])


def test_length_zero_is_refused():
    with pytest.raises(RuntimeError, match="greater than 0"):
        pack_padded_sequence(sequences(), [6, 0, 1, 1], enforce_sorted=False)
    for network in pair():
        with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
            network(torch.zeros(0, BATCH, INPUTS))


@pytest.mark.parametrize("result", ["y", "h", "c"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradients_that_come_through_one_result_only(result, bidirectional):
    network, stock = pair(bidirectional=bidirectional)

    def loss(y, h, c):
        return {"y": y, "h": h, "c": c}[result].sin().sum()

    x, given = sequences(), states(1 + bidirectional)
    assert_close(run(network, x, given, loss), run(stock, x, given, loss))


@pytest.mark.parametrize("packed", [False, True])
def test_dropout_draws_the_random_numbers_of_torch_and_only_in_training(packed):
    network, stock = pair(dropout=0.4, bidirectional=True)
    x = pack_padded_sequence(sequences(), LENGTHS, enforce_sorted=False) if packed else sequences()
    assert_close(run(network, x), run(stock, x))
    assert not torch.equal(run(network, x)["y"], run(network, x, seed=9)["y"])
    network.eval()
    assert torch.equal(run(network, x)["y"], run(network, x, seed=9)["y"])


def test_parameters_names_and_initialisation_are_those_of_torch():
    for options in ({}, {"bidirectional": True, "bias": False}, {"proj_size": 2}):
        torch.manual_seed(7)
        network = etalstm.nn.LSTM(INPUTS, UNITS, LAYERS, **options)
        torch.manual_seed(7)
        stock = torch.nn.LSTM(INPUTS, UNITS, LAYERS, **options)
        mine, theirs = network.state_dict(), stock.state_dict()
        assert list(mine) == list(theirs) and all(torch.equal(mine[name], theirs[name]) for name in mine)
        network.load_state_dict(theirs)
        stock.load_state_dict(mine)


def test_a_call_keeps_its_bits_whatever_ran_between():
    network, _ = pair()
    x = sequences()
    alone = run(network, x)
    inputs = [x.clone().requires_grad_(), sequences(seed=11).requires_grad_()]
    network.zero_grad()
    results = [network(one) for one in inputs]  # two passes of one layer before either goes back
    results[0][0].data.fill_(0)  # a result is the caller's own
    y, (h, c) = results[0]
    whole_loss(y, h, c).backward()
    assert torch.equal(inputs[0].grad, alone["dx"])
    assert all(torch.equal(parameter.grad, alone[name]) for name, parameter in network.named_parameters())
    (again,) = torch.autograd.grad(results[1][0].sum(), inputs[1], retain_graph=True)
    (twice,) = torch.autograd.grad(results[1][0].sum(), inputs[1])
    assert torch.equal(again, twice)


def test_weights_that_are_replaced_between_calls_are_used():
    network, stock = pair()
    network(sequences())
    for one in (network, stock):
        torch.manual_seed(4)
        one.weight_hh_l0 = torch.nn.Parameter(torch.randn(4 * UNITS, UNITS))
        with torch.no_grad():
            one.weight_ih_l1.mul_(2)
    assert_close(run(network, sequences()), run(stock, sequences()))


def test_functional_call_uses_the_parameters_it_is_given():
    network, stock = pair()
    given = {name: (2 * value).detach().requires_grad_() for name, value in network.named_parameters()}
    y, _ = torch.func.functional_call(network, given, sequences())
    expected, _ = torch.func.functional_call(stock, given, sequences())
    torch.testing.assert_close(y, expected)
    y.sum().backward()
    assert all(value.grad is not None for value in given.values())


def test_weight_norm():
    network, stock = (parametrizations.weight_norm(one, "weight_hh_l0") for one in pair())
    x = sequences()
    assert_close(run(network, x), run(stock, x))


def test_copies_and_pickles_compute_the_same():
    network, _ = pair()
    expected = run(network, sequences())
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert_close(run(other, sequences()), expected)
        assert other.engine is network.engine


def test_autocast_computes_float32_and_casts_as_torch_does():
    network, stock = pair()
    with torch.autocast("cpu", torch.bfloat16):
        expected, _ = stock(sequences().bfloat16())  # not every processor's stock LSTM takes float32 here
        for x in (sequences(), sequences().bfloat16()):
            y, (h, c) = network(x)
            assert [tensor.dtype for tensor in (y, h, c)] == [torch.bfloat16] * 3
            torch.testing.assert_close(y, expected, rtol=0.05, atol=0.02)  # stock computes in bfloat16 too
    exact, _ = network(sequences())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(network(sequences())[0], exact.bfloat16())
    whole_loss(y.float(), h.float(), c.float()).backward()
    assert network.weight_hh_l0.grad.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:LSTM with projections is not")
def test_a_projection_runs_on_the_host_and_says_so():
    network, stock = pair(proj_size=2)
    with pytest.warns(UserWarning, match="proj_size runs on the host"):
        got = run(network, sequences())
    assert_close(got, run(stock, sequences()))


def test_an_empty_batch_is_empty():
    network, stock = pair()
    assert network(torch.zeros(STEPS, 0, INPUTS))[0].shape == stock(torch.zeros(STEPS, 0, INPUTS))[0].shape


def test_without_gradients_nothing_is_recorded():
    network, _ = pair()
    with torch.no_grad():
        y, _ = network(sequences())
    assert not y.requires_grad
