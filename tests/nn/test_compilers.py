"""The module under what compiles, exports and distributes PyTorch's modules."""

import os
from datetime import timedelta

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel

import etalstm.nn
from tests.nn.parity import run

PROCESSES = 2
TIMEOUT = timedelta(minutes=3)


def network():
    torch.manual_seed(0)
    return etalstm.nn.LSTM(3, 4, num_layers=2, bidirectional=True)


def sequences():
    torch.manual_seed(1)
    return torch.randn(5, 4, 3)


@pytest.fixture
def recurrent_modules_compile():
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def test_compiled_gives_the_same_bits(recurrent_modules_compile):
    mine = network()
    expected = run(mine, sequences())
    actual = run(torch.compile(mine, backend="aot_eager", fullgraph=True), sequences())
    for name, tensor in expected.items():
        got = actual.get(name, actual.get(f"_orig_mod.{name}"))
        assert torch.equal(got, tensor), name


def test_compiled_with_another_number_of_steps(recurrent_modules_compile):
    mine = network()
    compiled = torch.compile(mine, backend="aot_eager", fullgraph=True, dynamic=True)
    for steps in (5, 3, 4):
        assert torch.equal(compiled(sequences()[:steps])[0], mine(sequences()[:steps])[0])


@pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights")
def test_exported_gives_the_same_bits(recurrent_modules_compile, tmp_path):
    mine = network().eval()
    torch.export.save(torch.export.export(mine, (sequences(),)), tmp_path / "lstm.pt2")
    loaded = torch.export.load(tmp_path / "lstm.pt2")
    assert torch.equal(loaded.module()(sequences())[0], mine(sequences())[0])


def train_in_process(rank, folder):
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", timeout=TIMEOUT, rank=rank, world_size=PROCESSES
    )
    mine = DistributedDataParallel(network())
    share = sequences()[:, rank * 2 : rank * 2 + 2]
    mine(share)[0].square().mean().backward()
    torch.save([parameter.grad for parameter in mine.parameters()], f"{folder}/{rank}")
    torch.distributed.barrier()
    # No destroy_process_group(): it joins gloo's thread while it holds the interpreter's lock. If that thread still has
    # a tensor to free, it waits for the lock, and both wait for ever.
    os._exit(0)


def test_processes_share_their_gradients(tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")  # else gloo connects to the address of the machine's name
    torch.multiprocessing.spawn(train_in_process, (str(tmp_path),), nprocs=PROCESSES)
    first, second = (torch.load(tmp_path / str(rank)) for rank in range(PROCESSES))
    whole = network()
    whole(sequences())[0].square().mean().backward()
    for a, b, parameter in zip(first, second, whole.parameters(), strict=True):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, parameter.grad)
