"""Modules with an arithmetic of integers."""

import pytest
import torch

import etalstm.nn


def gradients(module, x):
    """Give the outputs and the gradients of all parameters and the input."""
    x = x.clone().requires_grad_()
    y, _ = module(x)
    y.square().sum().backward()
    found = {name: parameter.grad.clone() for name, parameter in module.named_parameters()}
    module.zero_grad()
    return found | {"y": y.detach(), "x": x.grad}


@pytest.mark.parametrize("kind", [etalstm.nn.LSTM, etalstm.nn.HLSTM])
@pytest.mark.parametrize("arithmetic, bound", [("int8", 0.2), ("int16", 1e-3)])
def test_a_module_is_close_to_float32_and_a_pass_depends_on_its_inputs_alone(kind, arithmetic, bound):
    torch.manual_seed(0)
    plain, x = kind(6, 8, 2), torch.randn(5, 3, 6)
    module = kind(6, 8, 2, arithmetic=arithmetic)
    module.load_state_dict(plain.state_dict())
    expected, found = gradients(plain, x), gradients(module, x)
    for name, tensor in found.items():
        assert (tensor - expected[name]).norm() <= bound * expected[name].norm(), name
    gradients(module, 1000 * x)
    again = gradients(module, x)
    assert all(torch.equal(tensor, again[name]) for name, tensor in found.items())


def test_there_are_no_gradients_of_gradients():
    module, x = etalstm.nn.LSTM(3, 4, arithmetic="int8"), torch.randn(2, 1, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(module(x)[0].sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="gradients of gradients with arithmetic int8"):
        gradient.sum().backward()


def test_a_model_of_stock_layers_takes_it():
    torch.manual_seed(0)
    stock, x = torch.nn.LSTM(4, 5), torch.randn(3, 2, 4)
    with etalstm.nn.accelerate(arithmetic="int8"):
        y, _ = stock(x)
    apart = (y - stock(x)[0]).abs().max()
    assert 0 < apart < 0.05


def test_another_device_refuses():
    module = etalstm.nn.LSTM(3, 4, arithmetic="int8", engine="xdma:sim")
    with pytest.raises(etalstm.errors.DeviceError, match="arithmetic cannot be int8"):
        module(torch.randn(2, 1, 3))
