"""The operators under PyTorch's own checks, on float64 and on golden."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import etalstm.nn
from etalstm.network.execution import Execution
from etalstm.nn import operators
from etalstm.nn.operators import lstm_layer, lstm_layer_backward
from tests.nn.parity import run

STEPS, BATCH, INPUTS, UNITS = 4, 3, 2, 3
SIZES = torch.tensor([3, 2, 2, 1])
CASES = [(None, False), (None, True), (SIZES, False), (SIZES, True)]


def rows(batch_sizes):
    return (STEPS, BATCH) if batch_sizes is None else (SIZES.sum(),)


def tensors(dtype, batch_sizes=None):
    generator = torch.Generator().manual_seed(5)
    shapes = [
        (*rows(batch_sizes), INPUTS),
        *[(1, BATCH, UNITS)] * 2,
        (4 * UNITS, INPUTS),
        (4 * UNITS, UNITS),
        *[(4 * UNITS,)] * 2,
    ]
    return [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]


def results(dtype, batch_sizes):
    generator = torch.Generator().manual_seed(6)
    shapes = [(*rows(batch_sizes), UNITS), (1, BATCH, UNITS), (1, BATCH, UNITS)]
    return [torch.randn(s, generator=generator, dtype=dtype).requires_grad_() for s in shapes]


def rest(engine, batch_sizes=None, reverse=False):
    return batch_sizes, reverse, engine, Execution().text, 0.0


@pytest.mark.parametrize(("batch_sizes", "reverse"), CASES)
class TestFloat64:
    def test_gradients(self, batch_sizes, reverse):
        def layer(*arguments):
            return lstm_layer(*arguments, *rest("float64", batch_sizes, reverse))

        assert torch.autograd.gradcheck(layer, tensors(torch.float64, batch_sizes))

    def test_gradients_of_gradients(self, batch_sizes, reverse):
        def layer(*arguments):
            return lstm_layer(*arguments, *rest("float64", batch_sizes, reverse))

        assert torch.autograd.gradgradcheck(layer, tensors(torch.float64, batch_sizes))


@pytest.mark.parametrize(("engine", "dtype"), [("float64", torch.float64), ("golden", torch.float32)])
@pytest.mark.parametrize(("batch_sizes", "reverse"), CASES)
def test_passes_the_checks_of_operators(engine, dtype, batch_sizes, reverse):
    extra = rest(engine, batch_sizes, reverse)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype is torch.float32 else {}
    torch.library.opcheck(lstm_layer, (*tensors(dtype, batch_sizes), *extra), **tolerance)
    torch.library.opcheck(
        lstm_layer_backward, (*results(dtype, batch_sizes), *tensors(dtype, batch_sizes), *extra), **tolerance
    )


def test_gradients_through_one_tensor_given_as_both_states():
    x, h0, _, *weights = tensors(torch.float64)

    def layer(x, state, *weights):
        return lstm_layer(x, state, state, *weights, *rest("float64"))

    assert torch.autograd.gradgradcheck(layer, (x, h0, *weights))


def test_a_penalty_on_gradients_trains_on_golden():
    network = etalstm.nn.LSTM(INPUTS, UNITS, num_layers=2, bidirectional=True)
    stock = network.to_stock()
    x = torch.randn(STEPS, BATCH, INPUTS)
    found = []
    for one in (network, stock):
        inputs = x.clone().requires_grad_()
        (dx,) = torch.autograd.grad(one(inputs)[0].square().sum(), inputs, create_graph=True)
        dx.square().sum().backward()
        found.append([dx, inputs.grad, *(parameter.grad for parameter in one.parameters())])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"theta": 0.25}, r"refresh 1 \(no delta inputs\), .* got theta 0\.25, delta_threshold 0\.0, refresh 1"),
        ({"delta_threshold": 0.5}, r"got theta 0\.0, delta_threshold 0\.5, refresh 1"),
        ({"input_threshold": 0.5}, r"got theta 0\.0, delta_threshold 0\.0, refresh 0"),
    ],
)
def test_gradients_of_gradients_are_refused_where_a_pass_prunes(options, found):
    network = etalstm.nn.LSTM(INPUTS, UNITS, storage="ms1", **options)
    x = torch.randn(STEPS, BATCH, INPUTS, requires_grad=True)
    (dx,) = torch.autograd.grad(network(x)[0].square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match=found):
        dx.square().sum().backward()


class Listener(TorchDispatchMode):
    """Notes the names of operators."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function.name())
        return function(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_the_operators_and_changes_no_bit():
    network, x = etalstm.nn.LSTM(INPUTS, UNITS), torch.randn(STEPS, BATCH, INPUTS)
    expected = run(network, x)
    with Listener() as listener:
        actual = run(network, x)
    names = [name for name in listener.seen if name.startswith("etalstm")]
    assert names == ["etalstm::lstm_layer", "etalstm::lstm_layer_backward"]
    assert all(torch.equal(tensor, expected[name]) for name, tensor in actual.items())


def test_a_dispatch_mode_sees_the_backward_pass_of_what_ran_without_it():
    y, _ = etalstm.nn.LSTM(INPUTS, UNITS)(torch.randn(STEPS, BATCH, INPUTS))
    with Listener() as listener:
        y.sum().backward()
    assert "etalstm::lstm_layer_backward" in listener.seen


def test_tensors_without_numbers_give_shapes():
    y, (h, c) = etalstm.nn.LSTM(INPUTS, UNITS, device="meta")(torch.empty(STEPS, BATCH, INPUTS, device="meta"))
    assert y.is_meta and y.shape == (STEPS, BATCH, UNITS) and h.shape == c.shape == (1, BATCH, UNITS)
    y.sum().backward()


def test_nobody_sees_a_call_past_the_dispatcher(monkeypatch):
    def seen(*arguments):
        pytest.fail("the dispatcher was asked")

    for name in ("lstm_layer", "lstm_layer_backward"):
        monkeypatch.setattr(operators, name, seen)
    run(etalstm.nn.LSTM(INPUTS, UNITS), torch.randn(STEPS, BATCH, INPUTS))


@pytest.mark.parametrize(
    ("batch_sizes", "message"),
    [([2, 3], "must be above 0 and descend"), ([3, 0], "must be above 0 and descend"), ([3, 2], "must be 5 steps")],
)
def test_a_damaged_packing_is_refused(batch_sizes, message):
    arguments = tensors(torch.float32, SIZES)
    with pytest.raises(ValueError, match=message):
        lstm_layer(*arguments, *rest("golden", torch.tensor(batch_sizes)))
