"""Latencies of PyTorch's own LSTM on the host, by size."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch

from etalstm.host.turns import take_turns
from etalstm.network.shape import NetworkShape, check_sizes


def seconds_of(
    networks: Sequence[NetworkShape], batch: int, steps: int, runs: int, forward: bool = False
) -> list[float]:
    """Give the median seconds of an iteration of ``torch.nn.LSTM`` for each network, or of its forward pass alone.

    Networks take turns, so that whatever else the host does falls on all of them; three calls count in each of the
    `runs` turns. ``ValueError`` if a size is not above 0.
    """
    check_sizes(batch=batch, steps=steps, runs=runs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        works = [_work(network, batch, steps, forward) for network in networks]
    return [float(seconds) for seconds in np.median(take_turns(works, runs), axis=1)]


def _work(network: NetworkShape, batch: int, steps: int, forward: bool) -> Callable[[], None]:
    lstm = torch.nn.LSTM(network.input_size, network.hidden_size, network.layers)
    x = torch.randn(steps, batch, network.input_size)
    return partial(_run_forward if forward else _iterate, lstm, x)


def _run_forward(lstm: torch.nn.LSTM, x: torch.Tensor) -> None:
    with torch.no_grad():
        lstm(x)


def _iterate(lstm: torch.nn.LSTM, x: torch.Tensor) -> None:
    lstm.zero_grad()
    lstm(x.detach().requires_grad_())[0].sum().backward()
