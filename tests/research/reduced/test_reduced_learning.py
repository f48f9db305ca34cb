"""A network learns with what the savings leave of its gradients, and MS2's significance chooses what to skip."""

import numpy as np
import pytest
import torch

from etalstm.research.reduced import LSTM
from etalstm.train.significance import EPOCHS_FULL, Significance, Skipping

STEPS, BATCH, UNITS, EPOCHS, ITERATIONS = 12, 64, 24, 6, 25
LENGTHS = np.full(BATCH, STEPS)


def drawn(generator):
    """Sequences of noise, and whether the last four steps hold more of one input than of the other."""
    x = torch.randn(STEPS, BATCH, 4, generator=generator)
    return x, (x[-4:, :, 0] > x[-4:, :, 1]).sum(0).gt(1).long()


def learn(ms2=None, **options):
    """Train for some epochs; give the accuracy on new data, and the share of cells that were skipped at last."""
    torch.manual_seed(0)
    lstm, output, generator = LSTM(4, UNITS, **options), torch.nn.Linear(UNITS, 2), torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam([*lstm.parameters(), *output.parameters()], lr=0.02)
    significance = Significance(1, STEPS, Skipping(ms2 or 0.0), per_step=False, untrained=np.log(2))
    for iteration in range(EPOCHS * ITERATIONS):
        x, classes = drawn(generator)
        compensation = 1.0
        if ms2 is not None:
            lstm.skip, compensation = significance.plan(iteration, LENGTHS, STEPS)
            lstm.measure = significance.measures(iteration)
        loss = torch.nn.functional.cross_entropy(output(lstm(x)[0][-1]), classes)
        optimizer.zero_grad()
        loss.backward()
        for parameter in lstm.parameters():
            parameter.grad *= compensation
        if lstm.measure:
            significance.measure(lstm.contributions(), LENGTHS, loss.item())
        optimizer.step()
        significance.end_iteration(loss.item())
        if iteration % ITERATIONS == ITERATIONS - 1:
            significance.end_epoch(loss.item())
    share, lstm.skip = 0.0 if lstm.skip is None else lstm.skip.mean(), None
    return accuracy(lstm, output), share


@torch.no_grad()
def accuracy(lstm, output):
    generator, right = torch.Generator().manual_seed(2), []
    for _ in range(16):
        x, classes = drawn(generator)
        right.append((output(lstm(x)[0][-1]).argmax(1) == classes).float().mean().item())
    return np.mean(right)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"storage": "ms1", "theta": 0.1},
        {"storage": "ms1-bf16", "theta": 0.1},
        {"ms2": 0.3},
        {"ms2": 0.3, "storage": "ms1-bf16", "theta": 0.1},
    ],
    ids=["dense", "MS1", "MS1, bfloat16", "MS2", "Combine-MS"],
)
def test_it_learns(options):
    found, skipped = learn(**options)
    assert found > 0.9, found
    assert skipped > 0.2 if "ms2" in options else skipped == 0, skipped


def test_a_threshold_above_all_gradients_learns_nothing():
    assert learn(storage="ms1", theta=2.0)[0] < 0.85  # the output layer alone learns, on states of chance
    assert EPOCHS_FULL < EPOCHS  # else nothing would have been skipped above
