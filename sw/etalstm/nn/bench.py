"""Times :class:`etalstm.nn.LSTM` against its session, against PyTorch's LSTM, and on a packed batch.

Also times PyTorch's LSTM by its size.

Dimensions: B sequences, T steps, H units and inputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from etalstm.device import Session, TrainingShape, open_device
from etalstm.host.turns import take_turns
from etalstm.network.shape import LayerParameters, NetworkShape, check_sizes
from etalstm.nn.lstm import LSTM

SHORTEST = 4  # steps of the shortest sequence of the packed batch


@dataclass(frozen=True)
class Sizes:
    """Sizes of the timed batches, and the number of turns."""

    # hidden, batch, steps: H, B, T of the batch whose sequences are equally long
    hidden: int
    batch: int
    steps: int
    longest: int  # steps of the longest sequence of the packed batch; the shortest has ``SHORTEST``
    runs: int  # turns, of three passes of each that count

    def __post_init__(self):
        check_sizes(**vars(self))
        if self.longest < SHORTEST:
            raise ValueError(f"longest must be at least {SHORTEST}, got {self.longest}")


def measure(sizes: Sizes) -> dict:
    """Time forward and backward passes on golden; the works take turns, so that other programs slow all of them.

    Gives a dict: ``session_seconds``, ``bare_seconds``, ``module_seconds``, ``stock_seconds``: medians, of a session,
    of an autograd function around it and nothing else, of the module on it, and of ``torch.nn.LSTM``.
    ``bare_overhead``, ``module_overhead``: the time over the session's, less 1. ``of_stock``: stock's time over the
    module's. ``packed_over_real_steps``: the packed batch's time over that of a batch of full length, divided by the
    share of the packed batch's steps that is no padding. All but the seconds are medians of the turns' quotients.
    """
    torch.manual_seed(0)
    module = LSTM(sizes.hidden, sizes.hidden)
    session, bare, own, stock = take_turns(_same_work(module, sizes), sizes.runs)
    full, packed = take_turns(_packed_work(module, sizes), sizes.runs)
    share = _lengths(sizes).sum() / (sizes.batch * sizes.longest)
    seconds = {"session": session, "bare": bare, "module": own, "stock": stock}
    return {f"{name}_seconds": float(np.median(turns)) for name, turns in seconds.items()} | {
        "bare_overhead": float(np.median(bare / session)) - 1,
        "module_overhead": float(np.median(own / session)) - 1,
        "of_stock": float(np.median(stock / own)),
        "packed_over_real_steps": float(np.median(packed / full)) / float(share),
    }


class _SessionPass(torch.autograd.Function):
    """A session's forward and backward pass."""

    @staticmethod
    def forward(ctx, session, x, *parameters):
        ctx.session = session
        return torch.from_numpy(session.forward(x.numpy()).y)

    @staticmethod
    def backward(ctx, dy):
        back, gradients = ctx.session.backward(dy.numpy()), ctx.session.gradients()[0].tensors()
        return None, *map(torch.from_numpy, (back.dx, *gradients, gradients[-1].copy()))


class _Bare(torch.nn.Module):
    """Only an autograd function around a session, without the checks and options of :class:`etalstm.nn.LSTM`."""

    def __init__(self, session: Session, module: LSTM):
        super().__init__()
        self._session, self._layer = session, module

    def forward(self, x):
        return (_SessionPass.apply(self._session, x, *self._layer.parameters()),)


def _same_work(module: LSTM, sizes: Sizes) -> list[Callable[[], object]]:
    """Give works of a forward and a backward pass in a session, in autograd alone, in the module, in a stock module."""
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

    modules = _Bare(session, module), module, module.to_stock()
    return [in_session, *(partial(_run_both_passes, each, x, dy) for each in modules)]


def _packed_work(module: LSTM, sizes: Sizes) -> list[Callable[[], object]]:
    """Give works of a forward and a backward pass through a batch of full length, and through a packed one."""
    x = torch.randn(sizes.longest, sizes.batch, sizes.hidden)
    packed = pack_padded_sequence(x, torch.from_numpy(_lengths(sizes)))
    dy = torch.randn_like(x), torch.randn_like(packed.data)

    def through_packed():
        module.zero_grad()
        data = packed.data.detach().requires_grad_()
        module(packed._replace(data=data))[0].data.backward(dy[1])

    return [partial(_run_both_passes, module, x, dy[0]), through_packed]


def _lengths(sizes: Sizes) -> np.ndarray:
    """Spread lengths evenly from the longest to the shortest."""
    return np.linspace(sizes.longest, SHORTEST, sizes.batch).round().astype(np.int64)


def _run_both_passes(module: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor) -> None:
    module.zero_grad()
    module(x.detach().requires_grad_())[0].backward(dy)


def seconds_of(
    networks: Sequence[NetworkShape], batch: int, steps: int, runs: int, forward: bool = False
) -> list[float]:
    """Give the median seconds of an iteration of ``torch.nn.LSTM`` for each network, or of its forward pass alone.

    Networks take turns, so that other load on the host slows all of them; three calls count in each of the `runs`
    turns. ``ValueError`` if a size is not above 0.
    """
    check_sizes(batch=batch, steps=steps, runs=runs)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        works = [_stock_work(network, batch, steps, forward) for network in networks]
    return [float(seconds) for seconds in np.median(take_turns(works, runs), axis=1)]


def _stock_work(network: NetworkShape, batch: int, steps: int, forward: bool) -> Callable[[], None]:
    lstm = torch.nn.LSTM(network.input_size, network.hidden_size, network.layers)
    x = torch.randn(steps, batch, network.input_size)

    def work() -> None:
        if forward:
            with torch.no_grad():
                lstm(x)
        else:
            lstm.zero_grad()
            lstm(x.detach().requires_grad_())[0].sum().backward()

    return work
