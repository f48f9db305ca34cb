"""The same pass through two networks, compared."""

import torch
from torch.nn.utils.rnn import PackedSequence

from etalstm.golden.float64 import FLOAT32_GRADIENT_BOUND

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
BOUNDS = {torch.float32: FLOAT32_GRADIENT_BOUND, torch.float64: 1e-12, torch.bfloat16: 2**-7}


def run(network, x, states=None, loss=None, seed=0):
    """Give the results of a network and every gradient by name; random numbers are those of `seed`."""
    torch.manual_seed(seed)
    network.zero_grad()
    data = (x.data if isinstance(x, PackedSequence) else x).detach().clone().requires_grad_()
    states = states and tuple(state.detach().clone().requires_grad_() for state in states)
    y, (h, c) = network(x._replace(data=data) if isinstance(x, PackedSequence) else data, states)
    y = y.data if isinstance(y, PackedSequence) else y
    (loss or whole_loss)(y, h, c).backward()
    tensors = {"y": y.detach(), "h": h.detach(), "c": c.detach(), "dx": data.grad}
    if states:
        tensors |= {"dh0": states[0].grad, "dc0": states[1].grad}
    return tensors | {name: parameter.grad for name, parameter in network.named_parameters()}


def whole_loss(y, h, c):
    """Weigh every element of every result differently."""
    return sum((tensor * _weights(tensor)).sum() for tensor in (y, h, c))


def _weights(tensor):
    return torch.arange(tensor.numel(), device=tensor.device).reshape(tensor.shape).cos()


def assert_close(actual, expected):
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        got = actual[name]
        if tensor is None or got is None:
            assert tensor is got, f"{name}: got {got}, expected {tensor}"
            continue
        got = got.to(tensor.device)
        assert (got.shape, got.dtype) == (tensor.shape, tensor.dtype), f"{name}: {got.shape} of {got.dtype}"
        error = ((got - tensor).double().norm() / tensor.double().norm().clamp(min=1e-30)).item()
        assert error <= BOUNDS[tensor.dtype], f"{name}: relative error {error:.3g}"
