"""Which layout the steps of a layer have: both are timed on a short layer of the same sizes.

Dimensions: B sequences, H units.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from etalstm.network.shape import GATES
from etalstm.nn.torch_device import waited_for
from etalstm.research.layouts.layout import Shape, chosen_layout, forced
from etalstm.research.reduced.arrangement import Matrix
from etalstm.research.reduced.layer import run_steps
from etalstm.research.reduced.plan import Plan

STEPS = 2  # of the layer that is timed: one that reads zeros and one that reads what the first has written


def layout_of(w_hh: Tensor, batch: int) -> str:
    """Give the layout in which steps of `batch` sequences are faster, forward and backward, on the device of `w_hh`.

    Parameters
    ----------
    w_hh : (4H, H)
    batch : int
    """
    rows, columns = w_hh.shape
    shape = Shape(rows, columns, batch, w_hh.dtype, w_hh.device)
    return chosen_layout(shape, partial(steps_of, shape))


def steps_of(shape: Shape, layout: str | None = None) -> Callable[[], object]:
    """Make a call that goes through ``STEPS`` steps of a layer, forward and backward.

    The layer has one input, and its weights have no gradients. So the call times the recurrent products, the
    element-wise functions between them, and the copies that a layout needs.

    Parameters
    ----------
    shape : Shape
        Of the recurrent product: 4H, H, B.
    layout : str, optional
        Without it, the layer chooses.
    """
    units = shape.inputs

    def filled(value: float, *size: int) -> Tensor:
        return torch.full(size, value, dtype=shape.dtype, device=shape.device)

    w_ih, w_hh = filled(0, GATES * units, 1), Matrix(filled(1 / units, GATES * units, units))
    x, state = filled(0, STEPS * shape.batch, 1), filled(1, shape.batch, units)

    def work() -> None:
        plan = Plan((shape.batch,) * STEPS, (False,) * STEPS, partial(layout_of, w_hh.given))
        run_steps(x, (state, state), w_ih, w_hh, plan)

    if layout is None:
        return waited_for(work, shape.device)

    def in_layout() -> None:
        with forced(layout):
            work()

    return waited_for(in_layout, shape.device)
