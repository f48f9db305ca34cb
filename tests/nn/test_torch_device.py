"""What a bench measures of a device of PyTorch."""

import pytest
import torch

from etalstm.nn.torch_device import peak_bytes, waited_for
from etalstm.research.reduced.lstm import layout_of
from tests.nn.parity import DEVICES

FLOATS = 1 << 18


class Pass:
    """A module of one parameter, and a pass through it that keeps a tensor of its size."""

    def __init__(self, device):
        self.module = torch.nn.Linear(FLOATS, 1, bias=False, device=device)

    def __call__(self):
        self.module.zero_grad()
        self.module.weight.exp().sum().backward()


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_an_earlier_pass_do_not_hide_those_of_this_one(device):
    work = Pass(device)
    first = peak_bytes(work.module, work, device)
    assert first >= 2 * 4 * FLOATS and work.module.weight.grad is not None
    assert peak_bytes(work.module, work, device) == first


@pytest.mark.parametrize("device", ["cpu", "mps", "meta"])
def test_only_a_gpu_of_cuda_is_waited_for(device):
    assert waited_for(lambda: 3, device)() == 3


def test_devices_that_no_bench_measures_choose_a_layout():
    assert layout_of(torch.zeros(20, 5, device="meta"), 3)
