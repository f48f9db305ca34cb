"""``etalstm.research.reduced.LSTM`` is ``torch.nn.LSTM`` where nothing is dropped, on every device of PyTorch."""

import copy
import pickle

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from etalstm.research.reduced import LSTM, layer
from etalstm.research.reduced.compression import kept_tensors
from tests.nn.parity import DEVICES, assert_close, run

INPUTS, UNITS, LAYERS, STEPS, BATCH = 3, 5, 2, 6, 4
LENGTHS = [3, 6, 1, 4]
WHOLE = ["dense", "ms1"]  # storages that round nothing


def pair(inputs=INPUTS, units=UNITS, layers=LAYERS, storage="ms1", **options):
    """Give a network and a stock one with the same parameters."""
    torch.manual_seed(1)
    network = LSTM(inputs, units, layers, storage=storage, **options)
    stock = torch.nn.LSTM(inputs, units, layers, **options)
    stock.load_state_dict(network.state_dict())
    return network, stock


def sequences(batch_first=False, seed=2, **options):
    torch.manual_seed(seed)
    return torch.randn(*((BATCH, STEPS) if batch_first else (STEPS, BATCH)), INPUTS, **options)


def states(**options):
    torch.manual_seed(3)
    return tuple(torch.randn(2, LAYERS, BATCH, UNITS, **options))


def compare(device, network, stock, x, given=None):
    """Compare a network on a device with a stock one on the host: a GPU's stock one multiplies with fewer bits."""
    there = given and tuple(state.to(device) for state in given)
    assert_close(run(network.to(device), x.to(device), there), run(stock, x, given))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("storage", WHOLE)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("with_states", [False, True])
def test_batches_give_what_torch_gives(device, storage, batch_first, bias, with_states):
    network, stock = pair(storage=storage, batch_first=batch_first, bias=bias)
    compare(device, network, stock, sequences(batch_first), states() if with_states else None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("storage", WHOLE)
@pytest.mark.parametrize("enforce_sorted", [False, True])
@pytest.mark.parametrize("with_states", [False, True])
def test_packed_sequences_give_what_torch_gives(device, storage, enforce_sorted, with_states):
    network, stock = pair(storage=storage)
    lengths = sorted(LENGTHS, reverse=True) if enforce_sorted else LENGTHS
    packed = pack_padded_sequence(sequences(), lengths, enforce_sorted=enforce_sorted)
    compare(device, network, stock, packed, states() if with_states else None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("storage", WHOLE)
@pytest.mark.parametrize(("inputs", "units", "layers", "steps", "batch"), [(8, 30, 2, 23, 16), (64, 64, 1, 35, 300)])
def test_larger_networks_give_what_torch_gives(device, storage, inputs, units, layers, steps, batch):
    network, stock = pair(inputs, units, layers, storage)
    given = tuple(torch.randn(2, layers, batch, units))
    compare(device, network, stock, torch.randn(steps, batch, inputs), given)


def test_one_sequence_without_a_batch():
    network, stock = pair()
    x = sequences()[:, 0]
    assert_close(run(network, x), run(stock, x))


@pytest.mark.parametrize("result", ["y", "h", "c"])
def test_gradients_that_come_through_one_result_only(result):
    def loss(y, h, c):
        return {"y": y, "h": h, "c": c}[result].sin().sum()

    network, stock = pair()
    assert_close(run(network, sequences(), states(), loss), run(stock, sequences(), states(), loss))


def test_dropout_draws_the_random_numbers_of_torch_and_only_in_training():
    network, stock = pair(dropout=0.4)
    assert_close(run(network, sequences()), run(stock, sequences()))
    network.eval()
    assert torch.equal(run(network, sequences())["y"], run(network, sequences(), seed=9)["y"])


@pytest.mark.parametrize("storage", WHOLE)
def test_gradients_are_those_of_finite_differences(storage):
    torch.manual_seed(1)
    network = LSTM(2, 3, 2, storage=storage, dtype=torch.float64)
    inputs = [tensor.double().requires_grad_() for tensor in torch.randn(3, 4, 2, 3).split([1, 1, 1])]
    x, h0, c0 = inputs[0][0, :, :, :2], inputs[1][0, :2], inputs[2][0, :2]

    def results(x, h0, c0, *parameters):
        names = [name for name, _ in network.named_parameters()]
        y, (h, c) = torch.func.functional_call(network, dict(zip(names, parameters, strict=True)), (x, (h0, c0)))
        return y, h, c

    leaves = [tensor.detach().requires_grad_() for tensor in (x, h0, c0, *network.parameters())]
    assert torch.autograd.gradcheck(results, leaves)


def test_what_needs_no_gradient_gets_none():
    network, stock = pair(layers=1)
    for one in (network, stock):
        one.weight_hh_l0.requires_grad_(False)
        one.bias_ih_l0.requires_grad_(False)
        one.bias_hh_l0.requires_grad_(False)
        one(sequences())[0].sin().sum().backward()
    assert network.weight_hh_l0.grad is None and network.bias_hh_l0.grad is None
    torch.testing.assert_close(network.weight_ih_l0.grad, stock.weight_ih_l0.grad)


def test_a_graph_is_gone_back_through_twice():
    network, _ = pair()
    x = sequences().requires_grad_()
    loss = network(x)[0].sin().sum()
    (first,) = torch.autograd.grad(loss, x, retain_graph=True)
    (second,) = torch.autograd.grad(loss, x)
    assert torch.equal(first, second)


def test_the_biases_have_gradients_of_their_own():
    network, _ = pair()
    network(sequences())[0].sum().backward()
    before = network.bias_hh_l0.grad.clone()
    network.bias_ih_l0.grad.zero_()
    assert torch.equal(network.bias_hh_l0.grad, before)


def test_parameters_names_and_initialisation_are_those_of_torch():
    for options in ({}, {"bias": False}):
        torch.manual_seed(7)
        network = LSTM(INPUTS, UNITS, LAYERS, **options)
        torch.manual_seed(7)
        stock = torch.nn.LSTM(INPUTS, UNITS, LAYERS, **options)
        mine, theirs = network.state_dict(), stock.state_dict()
        assert list(mine) == list(theirs) and all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_copies_and_pickles_compute_the_same():
    torch.manual_seed(1)
    network = LSTM(INPUTS, UNITS, LAYERS, storage="ms1-bf16", theta=0.1, skip=[[True] + [False] * 5] * 2)
    expected = run(network, sequences())
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert_close(run(other, sequences()), expected)
        assert repr(other) == repr(network)


def test_autocast_computes_float32_and_casts():
    network, _ = pair()
    exact, _ = network(sequences())
    with torch.autocast("cpu", torch.bfloat16):
        y, (h, c) = network(sequences().bfloat16().float())
        y_of_floats, _ = network(sequences())
        (y.float().sum() + h.float().sum() + c.float().sum()).backward()
    assert [tensor.dtype for tensor in (y, h, c)] == [torch.bfloat16] * 3
    assert torch.equal(y_of_floats, exact.bfloat16())
    assert network.weight_hh_l0.grad.dtype == torch.float32


def test_an_empty_batch_is_empty():
    network, stock = pair()
    assert network(torch.zeros(STEPS, 0, INPUTS))[0].shape == stock(torch.zeros(STEPS, 0, INPUTS))[0].shape


def test_without_gradients_nothing_is_compressed_or_kept(monkeypatch):
    network, _ = pair()
    monkeypatch.setattr(layer, "compress", None)
    with torch.no_grad():
        assert not kept_tensors(lambda: network(sequences()))
        assert not network(sequences())[0].requires_grad
    network.requires_grad_(False)
    assert not network(sequences())[0].requires_grad


def test_gradients_of_gradients_are_refused():
    network, _ = pair()
    x = sequences().requires_grad_()
    (dx,) = torch.autograd.grad(network(x)[0].sin().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="no gradients of gradients"):
        dx.sum().backward()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bidirectional": True}, "bidirectional of a reduced LSTM must be False, got True"),
        ({"proj_size": 2}, "proj_size of a reduced LSTM must be 0, got 2"),
        ({"storage": "ms2"}, "storage must be one of dense, ms1, ms1-bf16, got 'ms2'"),
        ({"storage": "dense", "theta": 0.1}, "dense storage prunes nothing: theta must be 0, got 0.1$"),
        ({"storage": ("ms1",) * 3}, "one for each of 2 layers"),
        ({"skip": [[True], [False], [True]]}, r"for each of 2 layers, got bool of shape \(3, 1\)"),
        ({"skip": [[1], [0]]}, "skip must be None or bool"),
        ({"skip": [[True], [True, False]]}, r"skip must be None or bool, .* got object of shape \(2,\)"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LSTM(INPUTS, UNITS, LAYERS, **options)


def test_calls_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="skip must have as many steps as the input, 6, got 2"):
        LSTM(INPUTS, UNITS, LAYERS, skip=[[True, False]] * 2)(sequences())
    with pytest.raises(ValueError, match=r"computes float32 or float64, got torch.bfloat16"):
        LSTM(INPUTS, UNITS, dtype=torch.bfloat16)(sequences().bfloat16())
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        pair()[0](torch.zeros(0, BATCH, INPUTS))
    with pytest.raises(RuntimeError, match="no forward pass was measured"):
        pair()[0].contributions()
    with pytest.raises(TypeError, match="colour"):
        LSTM(INPUTS, UNITS, colour="red")
