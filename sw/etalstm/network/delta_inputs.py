"""Delta inputs: which elements of x and of h a layer sends, and whether as values or as differences.

An element is sent, as a difference, if it has changed by at least a threshold Θ since it was last sent. Every R steps,
at a *refresh step*, all elements are sent as they are. Step 0 is always one. With R = 1 every step is a refresh step,
which is the network without delta inputs. The page ``docs/delta.md`` defines the arithmetic.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from etalstm.network.storage import check_threshold

EXPECTED = "a number for all layers, or for each layer a number or a pair for x and h"

LayerThresholds = float | tuple[float, float]
"""Θ of one layer: for x and h alike, or for each of them."""


@dataclass(frozen=True)
class LayerInputs:
    """The :class:`DeltaInputs` of one layer: Θ of x, Θ of h, and R."""

    x: float = 0.0
    h: float = 0.0
    refresh: int = 1

    @property
    def off(self) -> bool:
        """Whether every step is a refresh step."""
        return self.refresh == 1

    @property
    def of_integers(self) -> "LayerInputs":
        """What is sent where sums are exact: a refresh would change none, so there is none but at step 0."""
        return self if self.off else replace(self, refresh=0)

    def refreshes(self, step: int) -> bool:
        """Tell whether everything is sent at a step, 0 being the first."""
        return step == 0 or (self.refresh > 0 and step % self.refresh == 0)

    def refreshed(self, steps: int) -> np.ndarray:
        """Tell of all steps whether everything is sent; bool, (T,)."""
        return np.array([self.refreshes(step) for step in range(steps)], bool)

    def sends(self, sent: np.ndarray) -> np.ndarray:
        """Tell which elements are sent, bool: all at a refresh step, else those that have changed.

        `sent`, float32, (T, B, N), has the value that each element was last sent as.
        """
        return self._refreshed(sent) | changed(sent, np.roll(sent, 1, axis=0))

    def broadcast(self, sent: np.ndarray) -> np.ndarray:
        """Tell which elements are sent as nonzero scalars; arguments as in :meth:`sends`."""
        return self.sends(sent) & ~(self._refreshed(sent) & (sent == 0))

    def _refreshed(self, sent: np.ndarray) -> np.ndarray:
        return self.refreshed(len(sent))[:, None, None]


def changed(now: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Tell where the difference of the values sent at two steps is not zero; that of two infinities is a NaN."""
    return (now != before) | ~np.isfinite(now)


def least_change(threshold: np.ndarray | float, bits: int, exponent: np.ndarray | int) -> np.ndarray:
    """Give by how many steps of its grid an integer of an operand must have changed to be sent, float64.

    It is an integer of so many bits, of the exponent that its operand has. One step is the least.
    """
    return np.maximum(np.ldexp(np.asarray(threshold, np.float64), bits - 1 - exponent), 1.0)


def moved(now: np.ndarray, before: np.ndarray, least: np.ndarray | float) -> np.ndarray:
    """Tell which integers differ by at least `least` from what was sent before."""
    return np.abs(now.astype(np.int32) - before) >= least


def last_sent(numbers: np.ndarray, least: np.ndarray | float, active: np.ndarray) -> np.ndarray:
    """Give what integers, (T, B, K), were last sent as at each step. A change of at least `least` is sent.

    All are sent at step 0. At steps that are not `active`, bool, (T, B), none is.
    """
    sent = numbers.copy()
    for t in range(1, len(sent)):
        sends = moved(numbers[t], sent[t - 1], least) & active[t][:, None]
        sent[t] = np.where(sends, numbers[t], sent[t - 1])
    return sent


OFF = LayerInputs()


@dataclass(frozen=True)
class DeltaInputs:
    """Thresholds and refresh of a network's layers.

    ``ValueError`` if a threshold is negative, infinite or no number, an entry has another length, or `refresh` is no
    integer of at least 0.

    Parameters
    ----------
    thresholds : float, or sequence with an entry for each layer
        Θ. The entry of a layer is a number, or a pair: of x and of h. An element is sent if its difference from the
        value last sent is neither zero nor below Θ in magnitude.
    refresh : int
        R: everything is sent at steps 0, R, 2R and so on; 0: at step 0 only; 1: always, whatever Θ is.
    """

    thresholds: float | tuple[LayerThresholds, ...] = 0.0
    refresh: int = 1

    def __post_init__(self) -> None:
        values = self.thresholds
        checked = tuple(map(_check_entry, values)) if _is_sequence(values) else _check_number(values)
        object.__setattr__(self, "thresholds", checked)
        object.__setattr__(self, "refresh", _check_refresh(self.refresh))

    @classmethod
    def of(cls, thresholds: float | tuple[LayerThresholds, ...], refresh: int | None = None) -> "DeltaInputs":
        """Make delta inputs; without `refresh` R is 0 if a threshold is above 0, else 1.

        Raises ``ValueError`` also if there is a threshold above 0 and `refresh` is 1: no threshold would be used.
        """
        values = cls(thresholds).thresholds
        above_zero = any(np.max(entry) > 0 for entry in _entries(values))
        if above_zero and refresh == 1:
            text = input_thresholds_text(values)
            raise ValueError(f"with refresh 1 everything is sent: input_threshold must be 0, got {text}")
        return cls(values, (0 if above_zero else 1) if refresh is None else refresh)

    @classmethod
    def read(cls, thresholds: str, refresh: int | None = None) -> "DeltaInputs":
        """Make delta inputs as :meth:`of` does, of thresholds as :func:`read_input_thresholds` reads them."""
        return cls.of(read_input_thresholds(thresholds), refresh)

    @property
    def off(self) -> bool:
        """Whether every step is a refresh step."""
        return self.refresh == 1

    def of_layers(self, layers: Iterable[int]) -> "DeltaInputs":
        """Give the delta inputs of a network of some of the layers."""
        chosen = [self.layer(number) for number in layers]
        return DeltaInputs(tuple((layer.x, layer.h) for layer in chosen), self.refresh)

    def check_layers(self, layers: int) -> None:
        """Raise ``ValueError`` if there are thresholds for another number of layers."""
        if isinstance(self.thresholds, tuple) and len(self.thresholds) != layers:
            expected = f"there must be one input threshold, or one for each of {layers} layers"
            raise ValueError(f"{expected}, got {len(self.thresholds)}: {input_thresholds_text(self.thresholds)}")

    def layer(self, number: int) -> LayerInputs:
        """Give the thresholds and R of one layer."""
        entry = self.thresholds[number] if isinstance(self.thresholds, tuple) else self.thresholds
        return LayerInputs(*(entry if isinstance(entry, tuple) else (entry, entry)), self.refresh)


def read_input_thresholds(text: str) -> float | tuple[LayerThresholds, ...]:
    """Read a user's text of Θ: ``0.1``, by layer ``0.1,0.2``, or for x and h by layer ``0.1/0.2,0.1/0.1``.

    Raises ``ValueError`` if it is none of these. :class:`DeltaInputs` checks the values.
    """
    try:
        entries = tuple(_read_entry(entry) for entry in text.split(","))
    except ValueError as error:
        raise ValueError(f"input_threshold must be {EXPECTED}, as in 0.1/0.2,0.1; got {text!r}") from error
    return entries[0] if len(entries) == 1 and isinstance(entries[0], float) else entries


def input_thresholds_text(thresholds: float | tuple[LayerThresholds, ...]) -> str:
    """Write thresholds as :func:`read_input_thresholds` reads them: ``/`` between x and h, a comma between layers."""
    return ",".join("/".join(map(_number_text, _entries(entry))) for entry in _entries(thresholds))


def _entries(value: object) -> tuple:
    """Give a tuple as it is, and anything else as a tuple of one."""
    return value if isinstance(value, tuple) else (value,)


def _number_text(value: float) -> str:
    """Write the shortest text that is read as the same float32."""
    return np.format_float_positional(np.float32(value), trim="-")


def _read_entry(text: str) -> LayerThresholds:
    values = tuple(float(number) for number in text.split("/"))
    if len(values) > 2:
        raise ValueError
    return (values[0], values[1]) if len(values) == 2 else values[0]


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, (tuple, list)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _check_entry(entry: object) -> LayerThresholds:
    if not _is_sequence(entry):
        return _check_number(entry)
    if len(entry) != 2:
        raise ValueError(f"input_threshold must be {EXPECTED}, got {len(entry)} numbers for a layer: {entry}")
    x, h = map(_check_number, entry)
    return x, h


def _check_number(value: object) -> float:
    return check_threshold("input_threshold", value)


def _check_refresh(refresh: object) -> int:
    if isinstance(refresh, bool) or not isinstance(refresh, (int, np.integer)) or refresh < 0:
        raise ValueError(f"refresh must be an integer of at least 0 (0: at the first step only), got {refresh!r}")
    return int(refresh)
