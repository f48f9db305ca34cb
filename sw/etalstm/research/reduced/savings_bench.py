"""Time and memory of a training iteration with the two memory savings, beside PyTorch's LSTM and a plain autograd one.

Dimensions: B sequences, T steps, I inputs, H units.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from etalstm.host.turns import take_turns
from etalstm.network.shape import GATES, check_size, check_sizes
from etalstm.network.storage import KINDS, check_share
from etalstm.nn.torch_device import check_device, device_name, peak_bytes, waited_for
from etalstm.research.reduced.compression import kept_elements, kept_tensors, storage_bytes
from etalstm.research.reduced.lstm import LSTM

STOCK, PLAIN = "stock", "plain"


@dataclass(frozen=True)
class Options:
    """What to measure, where, and how often."""

    theta: float | tuple[float, ...]  # threshold of the cases with MS1
    skip: float  # share of the steps that the cases with MS2 skip: the first, as a last loss has it
    device: str  # ``cpu`` or ``cuda``
    runs: int  # turns, of three iterations of each case that count

    def __post_init__(self):
        check_size("runs", self.runs)
        check_share("skip", self.skip)
        check_device(self.device)


@dataclass(frozen=True)
class Work:
    """A layer and its data, float32: w_ih (4H, I), w_hh (4H, H), bias (4H,), x (T, B, I) and dy (T, B, H)."""

    w_ih: np.ndarray
    w_hh: np.ndarray
    bias: np.ndarray
    x: np.ndarray
    dy: np.ndarray

    def load(self, module: torch.nn.LSTM) -> torch.nn.LSTM:
        """Give a module these parameters."""
        arrays = self.w_ih, self.w_hh, self.bias, np.zeros_like(self.bias)
        with torch.no_grad():
            for parameter, array in zip(module.parameters(), arrays, strict=True):
                parameter.copy_(torch.from_numpy(array))
        return module


class PlainLSTM(torch.nn.LSTM):
    """One layer written out step by step, which autograd differentiates operation by operation."""

    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def forward(  # type: ignore[override]  # without initial states, which no bench gives
        self, x: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Give y (T, B, H), and the last h and c, for x (T, B, I), from states of zero."""
        h = c = x.new_zeros(x.shape[1], self.hidden_size)
        outputs, recurrent = [], self.weight_hh_l0.T
        for sums in torch.nn.functional.linear(x, self.weight_ih_l0, self.bias_ih_l0 + self.bias_hh_l0):
            i, f, g, o = torch.addmm(sums, h, recurrent).chunk(GATES, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs), (h, c)


def drawn(hidden: int, batch: int, steps: int) -> Work:
    """Draw a layer as PyTorch initialises it, of as many inputs as units, and its data from a normal distribution."""
    check_sizes(hidden=hidden, batch=batch, steps=steps)
    torch.manual_seed(0)
    w_ih, w_hh, b_ih, b_hh = (parameter.detach().numpy() for parameter in torch.nn.LSTM(hidden, hidden).parameters())
    x, dy = torch.randn(2, steps, batch, hidden).numpy()
    return Work(w_ih, w_hh, b_ih + b_hh, x, dy)


def measure(work: Work, options: Options) -> dict:
    """Run iterations, forward and backward pass, of each case; the cases take turns, so that all meet the same load.

    Gives a dict: ``density``: share of the local gradients that MS1 keeps. ``device``: its model if it is a GPU.
    ``threads``, ``torch``: of PyTorch. ``cases``: by name ``seconds`` (median), ``kept_bytes`` (tensors of the
    graph between the passes, without those of the caller: parameters, x and results), ``peak_bytes`` (see
    :func:`etalstm.nn.torch_device.peak_bytes`), and the quotients ``time_of_plain``, ``time_of_stock`` (medians over
    the turns), ``kept_of_plain`` and ``kept_of_stock``.
    """
    modules = {name: work.load(module).to(options.device) for name, module in _modules(work, options).items()}
    x, dy = (torch.from_numpy(array).to(options.device) for array in (work.x, work.dy))
    iterations = [iteration_of(module, x, dy) for module in modules.values()]
    seconds = dict(zip(modules, take_turns(iterations, options.runs), strict=True))
    kept = {name: _kept_sizes(module, x) for name, module in modules.items()}
    cases = {}
    for (name, module), iteration in zip(modules.items(), iterations, strict=True):
        case = {"seconds": float(np.median(seconds[name])), "kept_bytes": kept[name][0]}
        for base in (PLAIN, STOCK):
            case[f"time_of_{base}"] = float(np.median(seconds[name] / seconds[base]))
            case[f"kept_of_{base}"] = kept[name][0] / kept[base][0]
        cases[name] = case | {"peak_bytes": peak_bytes(module, iteration, options.device)}
    density, device = kept["MS1"][1] / (len(KINDS) * work.dy.size), device_name(options.device)
    machine = {"device": device, "threads": torch.get_num_threads(), "torch": torch.__version__}
    return {"density": density, **machine, "cases": cases}


def _modules(work: Work, options: Options) -> dict[str, torch.nn.LSTM]:
    """Make a module of each case."""
    sizes, steps = (work.w_ih.shape[1], work.w_hh.shape[1]), len(work.x)
    skip = np.arange(steps)[None] < round(options.skip * steps)
    return {
        STOCK: torch.nn.LSTM(*sizes),
        PLAIN: PlainLSTM(*sizes),
        "MS1": LSTM(*sizes, storage="ms1", theta=options.theta),
        "MS1, bfloat16": LSTM(*sizes, storage="ms1-bf16", theta=options.theta),
        "MS2": LSTM(*sizes, skip=skip),
        "Combine-MS": LSTM(*sizes, storage="ms1", theta=options.theta, skip=skip),
        "Combine-MS, bfloat16": LSTM(*sizes, storage="ms1-bf16", theta=options.theta, skip=skip),
    }


def iteration_of(module: torch.nn.LSTM, x: Tensor, dy: Tensor) -> Callable[[], object]:
    """Give a call that runs a forward and a backward pass, and waits for their end."""

    def iterate():
        module.zero_grad()
        module(x.detach().requires_grad_())[0].backward(dy)

    return waited_for(iterate, x.device)


def _kept_sizes(module: torch.nn.LSTM, x: Tensor) -> tuple[int, int]:
    """Give the bytes that a module's graph keeps between the passes, and how many local gradients are in them."""
    x, results = x.detach().requires_grad_(), []
    tensors = kept_tensors(lambda: results.append(module(x)))
    y, states = results[0]
    return storage_bytes(tensors, [x, y, *states, *module.parameters()]), kept_elements(tensors)
