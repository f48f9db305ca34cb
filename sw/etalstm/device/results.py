"""The passes of a session: what they give, both as one call, and how their counters add up.

Dimensions: B sequences, T steps, I inputs, H units, L layers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from etalstm.device.shape import TrainingShape
from etalstm.network.slices import slice_ranges


@dataclass(frozen=True)
class Outputs:
    """What a forward pass gives: arrays of the caller's own.

    Members
    -------
    y : array, float32, (T, B, H)
        The top layer's h of every step; zero at padded steps.
    h, c : arrays, float32, (L, B, H)
        Every layer's state after each sequence's last step.
    """

    y: np.ndarray
    h: np.ndarray
    c: np.ndarray


class InputGradients:
    """What a backward pass gives back to the host; each member is read from the device when first asked for.

    A member that was not read before the session's next ``forward`` or ``load`` raises :class:`CallOrderError`.
    """

    def __init__(self, read: Callable[[str], Any]):
        self._read = read

    @cached_property
    def dx(self) -> np.ndarray:
        """Gradient of the first layer's input, float32, (T, B, I); +0 at padded steps."""
        return self._read("dx")

    @cached_property
    def _states(self) -> tuple[np.ndarray, np.ndarray]:
        return self._read("states")

    @property
    def dh0(self) -> np.ndarray:
        """Gradient of the initial h, float32, (L, B, H)."""
        return self._states[0]

    @property
    def dc0(self) -> np.ndarray:
        """Gradient of the initial c, likewise."""
        return self._states[1]

    @cached_property
    def norm(self) -> float:
        """2-norm of the gradient of all weights and biases before clipping; :class:`DivergedError` if not finite."""
        return self._read("norm")


def clear_padding(steps: np.ndarray, lengths: np.ndarray) -> None:
    """Put +0 where sequences of `lengths`, (B,), have ended, in an array (T, B, N)."""
    if lengths.min() < len(steps):
        steps[np.arange(len(steps))[:, None] >= lengths] = 0


def all_counts(of_passes: dict[str, dict]) -> dict:
    """Add what passes have counted; ``passes`` are the cycles of each."""
    cycles = {name: counts["cycles"] for name, counts in of_passes.items()}
    return add_counts(of_passes.values()) | {"passes": cycles}


def counts_side_by_side(counts: list[dict]) -> dict:
    """Add what machines have counted that worked at the same time; their cycles are those of the slowest."""
    slowest = {"cycles": max(each["cycles"] for each in counts)}
    if "passes" in counts[0]:
        slowest["passes"] = {name: max(each["passes"][name] for each in counts) for name in counts[0]["passes"]}
    return add_counts(counts) | slowest


def add_counts(counts: Iterable[dict]) -> dict:
    """Add nested dicts of numbers of one shape."""
    counts = list(counts)
    if not counts:
        return {"cycles": 0}
    return {
        key: add_counts(entry[key] for entry in counts)
        if isinstance(value, dict)
        else sum(entry[key] for entry in counts)
        for key, value in counts[0].items()
    }


SliceLoss = Callable[[int, np.ndarray], np.ndarray]
"""From a slice's number and its y, (T, b, H), to the gradient of y."""


Gradients = TypeVar("Gradients")


class BothPasses(ABC, Generic[Gradients]):
    """Something of a `shape` with a forward and a backward pass, which gives `Gradients`."""

    shape: TrainingShape

    @abstractmethod
    def forward(self, x: np.ndarray, *arguments: Any, **options: Any) -> Outputs:
        """Run forward."""

    @abstractmethod
    def backward(self, dy: np.ndarray, *arguments: Any, **options: Any) -> Gradients:
        """Run backward."""

    def forward_backward(
        self, x: np.ndarray, loss: SliceLoss, *, delta_threshold: float = 0.0, measured: bool = False, **inputs: Any
    ) -> tuple[Outputs, Gradients]:
        """Run forward, the loss slice by slice, and backward: for a pipeline the slices overlap.

        Parameters
        ----------
        x : array, float32, (T, B, I)
        loss : function
            Called once for each slice, in any order and maybe by another thread, but one call at a time. What it raises
            is raised here; the weights stay as they were.
        delta_threshold : float
            See :meth:`etalstm.device.Session.backward`.
        measured : bool
            What the cells contribute will be asked for. Only a pipeline must know it before.
        **inputs
            More of the forward pass: see :meth:`etalstm.device.Session.forward`.
        """
        outputs = self.forward(x, **inputs)
        dy = np.empty_like(outputs.y)
        for number, sequences in enumerate(slice_ranges(self.shape.batch, self.shape.execution.slices)):
            of_slice = slice(sequences.start, sequences.stop)
            dy[:, of_slice] = loss(number, outputs.y[:, of_slice])
        return outputs, self.backward(dy, delta_threshold=delta_threshold)
