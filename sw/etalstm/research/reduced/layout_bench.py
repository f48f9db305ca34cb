"""Times of both layouts: of a layer's steps beside the chosen one and PyTorch's LSTM, and of an output layer.

Dimensions: B sequences or rows, H units or inputs, V tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from etalstm.network.storage import check_threshold
from etalstm.nn.torch_device import CPU, check_device, device_name, waited_for
from etalstm.research.layouts import BATCH_MAJOR, BATCH_MINOR, Machine, Shape, timed
from etalstm.research.reduced.lstm import LSTM, STEPS, layout_of, steps_of
from etalstm.research.reduced.savings_bench import drawn, iteration_of

GAIN = 1.2  # of a choice that matters: the slower layout takes so many times as long


@dataclass(frozen=True)
class Timing:
    """Seconds of a step, forward and backward, for one H and B.

    `major`, `minor` and `chosen` time the recurrent product, and all that depends on its layout, in each layout and the
    chosen one. `layer` and `torch` time a whole step with all gradients: ours in the chosen layout, and that of
    ``torch.nn.LSTM``.
    """

    hidden: int
    batch: int
    layout: str
    major: float
    minor: float
    chosen: float
    layer: float
    torch: float

    @property
    def loss(self) -> float:
        """Time of the chosen layout over that of the faster one."""
        return self.chosen / min(self.major, self.minor)

    @property
    def gain(self) -> float:
        """Time of the slower layout over that of the chosen one."""
        return max(self.major, self.minor) / self.chosen


def measure(hidden: Sequence[int], batch: Sequence[int], budget_s: float, device: str = CPU) -> dict:
    """Time every H with every B. In each turn all works run one after the other; the fastest turns count.

    Each H and B take `budget_s` seconds; large ones take longer, as there are eight turns at least. The device is
    ``cpu`` or ``cuda``.

    Gives a dict: ``machine``: see :class:`etalstm.research.layouts.Machine`. ``device``: its model if it is a GPU.
    ``shapes``: a :class:`Timing` each, as a dict. ``worst``: largest time of the chosen layout over that of the faster
    one. ``gain``: ``GAIN``. ``gained``: share of the shapes whose slower layout takes ``gain`` times as long as the
    chosen one. ``minor``: share of the shapes for which batch-minor was chosen. ``over_major``: largest time of
    batch-major over that of the chosen one.
    """
    check_threshold("seconds", budget_s)
    check_device(device)
    timings = [_timing(units, size, budget_s, device) for units in hidden for size in batch]
    return {
        "machine": asdict(Machine.here()),
        "device": device_name(device),
        "shapes": [asdict(timing) for timing in timings],
        "worst": max(timing.loss for timing in timings),
        "gain": GAIN,
        "gained": sum(timing.gain >= GAIN for timing in timings) / len(timings),
        "minor": sum(timing.layout == BATCH_MINOR for timing in timings) / len(timings),
        "over_major": max(timing.major / timing.chosen for timing in timings),
    }


def _timing(hidden: int, batch: int, budget_s: float, device: str) -> Timing:
    work = drawn(hidden, batch, STEPS)
    x, dy, w_hh = (torch.from_numpy(array).to(device) for array in (work.x, work.dy, work.w_hh))
    layers = [work.load(module(hidden, hidden)).to(device) for module in (LSTM, torch.nn.LSTM)]
    rows, columns = w_hh.shape
    shape = Shape(rows, columns, batch, w_hh.dtype, w_hh.device)
    works = [steps_of(shape, layout) for layout in (BATCH_MAJOR, BATCH_MINOR, None)]
    chosen = layout_of(w_hh, batch)
    seconds = timed([*works, *(iteration_of(layer, x, dy) for layer in layers)], budget_s)
    return Timing(hidden, batch, chosen, *(one / STEPS for one in seconds))


def linear(x: Tensor, weight: Tensor, bias: Tensor, layout: str) -> Tensor:
    """Give a linear layer's result (B, V) for x (B, H), weights (V, H) and bias (V,); batch-minor lies as (V, B)."""
    if layout == BATCH_MAJOR:
        return torch.nn.functional.linear(x, weight, bias)
    return torch.addmm(bias[:, None], weight, x.T).T


def measure_output(hidden: Sequence[int], rows: Sequence[int], tokens: int, budget_s: float, device: str = CPU) -> dict:
    """Time an output layer for every H with every B; the fastest calls count.

    Returns a dict of ``machine``, ``device`` as :func:`measure`, and ``shapes``: for each H and B a dict of ``hidden``,
    ``batch``, and the seconds ``major`` and ``minor``.
    """
    check_threshold("seconds", budget_s)
    check_device(device)
    shapes = []
    for units in hidden:
        for count in rows:
            works = [_output_work(units, count, tokens, layout, device) for layout in (BATCH_MAJOR, BATCH_MINOR)]
            major, minor = timed(works, budget_s)
            shapes.append({"hidden": units, "batch": count, "major": major, "minor": minor})
    return {"machine": asdict(Machine.here()), "device": device_name(device), "shapes": shapes}


def _output_work(hidden: int, rows: int, tokens: int, layout: str, device: str) -> Callable[[], object]:
    """Make a call that goes through the layer and back."""
    torch.manual_seed(0)
    x, layer = torch.randn(rows, hidden).to(device).requires_grad_(), torch.nn.Linear(hidden, tokens).to(device)
    wanted = torch.randint(tokens, (rows,)).to(device)

    def work():
        loss = cross_entropy(linear(x, layer.weight, layer.bias, layout), wanted)
        torch.autograd.grad(loss, (x, *layer.parameters()))

    return waited_for(work, device)
