"""Timings of :class:`etalstm.nn.LSTM`: beside the session it runs on, beside PyTorch's own, and on a packed batch.

Dimensions: B sequences, T steps, H units and inputs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from etalstm.device import TrainingShape, open_device
from etalstm.network import LayerParameters, NetworkShape, check_size
from etalstm.nn.lstm import LSTM

SHORTEST = 4  # steps of the shortest sequence of the packed batch


@dataclass(frozen=True)
class Sizes:
    """What is timed.

    Members
    -------
    hidden, batch, steps : int
        H, B, T of the batch whose sequences are equally long.
    longest : int
        Steps of the longest sequence of the packed batch; the shortest has ``SHORTEST``.
    runs : int
        Turns, after one that warms up.
    """

    hidden: int
    batch: int
    steps: int
    longest: int
    runs: int

    def __post_init__(self):
        for name, value in vars(self).items():
            check_size(name, value)
        if self.longest < SHORTEST:
            raise ValueError(f"longest must be at least {SHORTEST}, got {self.longest}")


def measure(sizes: Sizes) -> dict:
    """Time forward and backward passes on golden; the works take turns, so that other programs slow all of them.

    Returns
    -------
    dict
        ``session_seconds``, ``module_seconds``, ``stock_seconds``: medians, of a session, of the module on it, and of
        ``torch.nn.LSTM``. ``module_overhead``: the module's time over the session's, less 1. ``of_stock``: stock's time
        over the module's. ``packed_over_real_steps``: time of a packed batch over the share of its steps that is not
        padding of the time of a batch of full length. The last three are medians over the turns of quotients.
    """
    torch.manual_seed(0)
    module = LSTM(sizes.hidden, sizes.hidden)
    session, own, stock = turns(_same_work(module, sizes), sizes.runs)
    full, packed = turns(_packed_work(module, sizes), sizes.runs)
    share = _lengths(sizes).sum() / (sizes.batch * sizes.longest)
    return {
        "session_seconds": float(np.median(session)),
        "module_seconds": float(np.median(own)),
        "stock_seconds": float(np.median(stock)),
        "module_overhead": float(np.median(own / session)) - 1,
        "of_stock": float(np.median(stock / own)),
        "packed_over_real_steps": float(np.median(packed / full)) / float(share),
    }


def turns(works: list[Callable[[], object]], runs: int) -> np.ndarray:
    """Give the seconds of each work in each turn, (works, runs). Every other turn goes through them backwards."""
    seconds = np.empty((len(works), runs + 1))
    for turn in range(runs + 1):
        for number in list(range(len(works)))[:: 1 if turn % 2 else -1]:
            started = time.perf_counter()
            works[number]()
            seconds[number, turn] = time.perf_counter() - started
    return seconds[:, 1:]


def _same_work(module: LSTM, sizes: Sizes) -> list[Callable[[], object]]:
    """Give a pass there and back in a session, in the module, and in a stock module."""
    x = torch.randn(sizes.steps, sizes.batch, sizes.hidden)
    dy = torch.randn(sizes.steps, sizes.batch, sizes.hidden)
    shape = TrainingShape(NetworkShape(sizes.hidden, sizes.hidden), sizes.batch, sizes.steps)
    session = open_device("golden").create(shape)
    w_ih, w_hh, b_ih, b_hh = (parameter.detach().numpy() for parameter in module.parameters())
    session.load([LayerParameters(np.concatenate([w_ih, w_hh], axis=1), b_ih + b_hh)])

    def in_session():
        session.forward(x.numpy())
        back = session.backward(dy.numpy())
        gradients = session.gradients()[0]
        return back.dx, back.dh0, back.dc0, gradients.weights, gradients.bias

    stock = module.to_stock()
    return [in_session, lambda: _there_and_back(module, x, dy), lambda: _there_and_back(stock, x, dy)]


def _packed_work(module: LSTM, sizes: Sizes) -> list[Callable[[], object]]:
    """Give a pass there and back through a batch of full length, and through a packed one."""
    x = torch.randn(sizes.longest, sizes.batch, sizes.hidden)
    packed = pack_padded_sequence(x, torch.from_numpy(_lengths(sizes)))
    dy = torch.randn_like(x), torch.randn_like(packed.data)

    def through_packed():
        module.zero_grad()
        data = packed.data.detach().requires_grad_()
        module(packed._replace(data=data))[0].data.backward(dy[1])

    return [lambda: _there_and_back(module, x, dy[0]), through_packed]


def _lengths(sizes: Sizes) -> np.ndarray:
    """Spread lengths evenly from the longest to the shortest."""
    return np.linspace(sizes.longest, SHORTEST, sizes.batch).round().astype(np.int64)


def _there_and_back(module: torch.nn.LSTM, x: torch.Tensor, dy: torch.Tensor) -> None:
    module.zero_grad()
    module(x.detach().requires_grad_())[0].backward(dy)
