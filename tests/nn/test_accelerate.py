"""Unmodified models inside ``etalstm.nn.accelerate``."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

import etalstm.nn
from tests.nn.parity import assert_close, run
from tests.nn.watched import WatchedDevice


class Classifier(torch.nn.Module):
    """What somebody has written who has never heard of us."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(10, 3)
        self.lstm = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
        self.output = torch.nn.Linear(8, 2)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.output(torch.cat([h[-2], h[-1]], dim=1))


def losses_of(model, device=None, iterations=3):
    words, lengths, labels = torch.arange(20).reshape(4, 5) % 10, torch.tensor([3, 5, 1, 2]), torch.tensor([0, 1, 1, 0])
    optimizer, found = torch.optim.SGD(model.parameters(), lr=0.5), []
    for _ in range(iterations):
        optimizer.zero_grad()
        if device:
            with etalstm.nn.accelerate(engine=device):
                scores = model(words, lengths)
        else:
            scores = model(words, lengths)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_a_model_trains_on_the_engine_as_it_does_without():
    losses, device = [], WatchedDevice()
    for engine in (None, device):
        torch.manual_seed(0)
        losses.append(losses_of(Classifier(), engine))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert device.calls["forward"] == device.calls["backward"] == 3 * 4


def test_the_bits_are_those_of_the_module():
    options = {"storage": "ms1", "theta": 0.1, "slices": 2, "input_threshold": 0.2, "delta_threshold": 0.01}
    mine = etalstm.nn.LSTM(3, 4, **options)
    x = torch.randn(5, 2, 3)
    expected = run(mine, x)
    with etalstm.nn.accelerate(**options):
        actual = run(mine.to_stock(), x)
    assert all(torch.equal(actual[name], tensor) for name, tensor in expected.items())


def test_a_module_keeps_its_own_engine():
    outer, inner = WatchedDevice(), WatchedDevice()
    mine = etalstm.nn.LSTM(3, 4, engine=inner)
    with etalstm.nn.accelerate(engine=outer):
        mine(torch.randn(5, 2, 3))
    assert (outer.calls["forward"], inner.calls["forward"]) == (0, 1)


def test_afterwards_everything_is_as_before():
    device, stock = WatchedDevice(), torch.nn.LSTM(3, 4)
    with pytest.raises(RuntimeError, match="must be equal to input_size"), etalstm.nn.accelerate(device):
        stock(torch.zeros(5, 2, 7))
    stock(torch.zeros(5, 2, 3))
    assert not device.calls


@pytest.mark.filterwarnings("ignore:LSTM with projections is not")
def test_a_projection_runs_on_the_host_and_says_so():
    stock, x = torch.nn.LSTM(3, 4, proj_size=2), torch.randn(5, 2, 3)
    expected = run(stock, x)
    with etalstm.nn.accelerate(), pytest.warns(UserWarning, match="proj_size runs on the host"):
        actual = run(stock, x)
    assert_close(actual, expected)


@pytest.mark.parametrize("policies", [("dense",), ("dense", "ms1", "ms1")])
@pytest.mark.parametrize("packed", [False, True])
def test_policies_for_another_number_of_layers_are_refused(policies, packed):
    stock, x = torch.nn.LSTM(3, 4, 2), torch.randn(5, 2, 3)
    x = pack_padded_sequence(x, [5, 5]) if packed else x
    message = r"one storage policy, or one for each of 2 layers, got \('dense',"
    with etalstm.nn.accelerate(storage=policies), pytest.raises(ValueError, match=message):
        stock(x)


@pytest.mark.parametrize("slices", [0, 2.5])
def test_a_number_of_slices_that_is_none_is_refused_at_once(slices):
    with pytest.raises(ValueError, match=f"slices must .*got {slices}"):
        etalstm.nn.accelerate(slices=slices)


def test_an_engine_that_there_is_not_is_refused_at_once():
    with pytest.raises(ValueError, match="got 'gpu'"):
        etalstm.nn.accelerate("gpu")
