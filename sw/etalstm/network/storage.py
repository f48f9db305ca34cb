"""Storage policies: how a cell stores its intermediates, and what a layer has stored and computed, in counts.

``dense``
    The gates i, f, g, o and the state c, whole: five tensors. Nothing is pruned. The others are compared with it.
``ms1``
    The six local gradients P, each element below its kind's threshold dropped, as compressed streams.
``ms1-bf16``
    The same, kept words rounded to bfloat16.

Echo's cell is left out. It keeps i, f and c and rebuilds g = (c - f∘c') / i and o = h / tanh(c): always 0.60 of five
tensors. The machine has no division, and at the densities that training reaches ``ms1-bf16`` is below half of it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import mul

import numpy as np

from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import GATES, flush_subnormals

DENSE, MS1, MS1_BF16 = POLICIES = ("dense", "ms1", "ms1-bf16")
KINDS, DENSE_TENSORS = LSTM.kinds, LSTM.dense_tensors
PRODUCTS_OF_DELTA = 2  # a scalar of δ is multiplied once for dxh and once for dW with each of K columns


def check_threshold(name: str, value: object) -> float:
    """Give the float32 that the machine takes as a threshold, or raise ``ValueError`` naming `name` and `value`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise ValueError(f"{name} must be a number, got {value!r}")
    with np.errstate(over="ignore"):
        word = np.float32(value)
    if not (math.isfinite(word) and word >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value}")
    return float(flush_subnormals(word)) + 0.0


def read_thresholds(text: str) -> float | tuple[float, ...]:
    """Read a user's text of θ: a number, or six of them, for P_i, P_f, P_g, P_o, P_s, P_r, with commas between.

    Raises ``ValueError`` if it is neither. :class:`Storage` checks the values.
    """
    try:
        values = tuple(float(number) for number in text.split(","))
        if len(values) not in (1, len(KINDS)):
            raise ValueError
    except ValueError as error:
        expected = f"a number, or one for each of {', '.join(KINDS)}, with commas between"
        raise ValueError(f"theta must be {expected}, got {text!r}") from error
    return values[0] if len(values) == 1 else values


def thresholds_text(thresholds: float | tuple[float, ...]) -> str:
    """Write thresholds as :func:`read_thresholds` reads them."""
    return ",".join(f"{value:g}" for value in np.atleast_1d(thresholds))


def default_policy(thresholds: float | Sequence[float], prunes: bool = False) -> str:
    """Give the policy of a run that names none: ``ms1`` with a threshold above 0, or where δ is pruned, else dense."""
    return MS1 if prunes or np.any(thresholds) else DENSE


def check_share(name: str, value: object) -> float:
    """Give `value` as a float, or raise ``ValueError`` if it is not above 0 and at most 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating, np.integer)) or not 0 < value <= 1:
        raise ValueError(f"{name} must be above 0 and at most 1, got {value!r}")
    return float(value)


@dataclass(frozen=True)
class LayerStorage:
    """The :class:`Storage` of one layer: its policy and the thresholds of i, f, g, o, s, r."""

    policy: str = DENSE
    thresholds: tuple[float, ...] = (0.0,) * len(KINDS)

    @property
    def compressed(self) -> bool:
        """Whether local gradients are pruned and stored as streams."""
        return self.policy != DENSE

    @property
    def bf16(self) -> bool:
        """Whether the kept elements are rounded to bfloat16."""
        return self.policy == MS1_BF16


@dataclass(frozen=True)
class Storage:
    """How a network's layers store their intermediates.

    ``ValueError`` if there is no such policy, a threshold is negative, infinite or no number, or one is above 0 and
    every layer is dense.

    Parameters
    ----------
    policy : str or tuple of str
        One of ``POLICIES``, for all layers or one for each.
    thresholds : float or tuple of six
        θ, for all kinds of local gradients or for P_i, P_f, P_g, P_o, P_s, P_r. An element is kept if it is neither
        zero nor |P| < θ. Layers that are dense do not use it.
    """

    policy: str | tuple[str, ...] = DENSE
    thresholds: float | tuple[float, ...] = 0.0

    @classmethod
    def of(cls, policy: str | tuple[str, ...] | None, thresholds: float | tuple[float, ...]) -> "Storage":
        """Make a storage; without a policy :func:`default_policy` chooses it from the thresholds."""
        return cls(default_policy(thresholds) if policy is None else policy, thresholds)

    def __post_init__(self) -> None:
        if not isinstance(self.policy, str):
            object.__setattr__(self, "policy", tuple(self.policy))
        for name in self.policies:
            if name not in POLICIES:
                raise ValueError(f"storage must be one of {', '.join(POLICIES)}, got {name!r}")
        values = self.thresholds
        values = tuple(values) if isinstance(values, (tuple, list, np.ndarray)) else (values,) * len(KINDS)
        if len(values) != len(KINDS):
            raise ValueError(f"there must be one threshold, or one for each of {', '.join(KINDS)}, got {len(values)}")
        checked = tuple(check_threshold("theta", value) for value in values)
        object.__setattr__(self, "thresholds", checked)
        if any(checked) and not self.compressed:
            raise ValueError(f"dense storage prunes nothing: theta must be 0, got {max(values)!s}")

    @property
    def of_kinds(self) -> tuple[float, ...]:
        """The thresholds of P_i, P_f, P_g, P_o, P_s, P_r."""
        return self.thresholds if isinstance(self.thresholds, tuple) else (self.thresholds,) * len(KINDS)

    @property
    def policies(self) -> tuple[str, ...]:
        """One policy for all layers, or one for each."""
        return (self.policy,) if isinstance(self.policy, str) else self.policy

    @property
    def compressed(self) -> bool:
        """Whether at least one layer stores streams."""
        return any(name != DENSE for name in self.policies)

    def check_layers(self, layers: int) -> None:
        """Raise ``ValueError`` if there are policies for another number of layers."""
        if not isinstance(self.policy, str) and len(self.policy) != layers:
            raise ValueError(f"there must be one storage policy, or one for each of {layers} layers, got {self.policy}")

    def of_layers(self, layers: Iterable[int]) -> "Storage":
        """Give the storage of a network of some of the layers."""
        chosen = [self.layer(number) for number in layers]
        policies = tuple(layer.policy for layer in chosen)
        return Storage(policies, self.thresholds if any(layer.compressed for layer in chosen) else 0.0)

    def layer(self, number: int) -> LayerStorage:
        """Give the storage of one layer."""
        policy = self.policy if isinstance(self.policy, str) else self.policy[number]
        return LayerStorage(policy) if policy == DENSE else LayerStorage(policy, self.of_kinds)


@dataclass(frozen=True)
class ProductCounts:
    """Counts of one matrix product of a layer in an iteration.

    Members
    -------
    gates, columns : int      rows of each unit, and columns of the matrix
    broadcast : int           scalars that the forward pass has broadcast for real steps: nonzero ones
    delta_kept : int          nonzero elements of δ
    """

    gates: int
    columns: int
    broadcast: int
    delta_kept: int

    @classmethod
    def of(cls, gates: int, operands: Iterable[np.ndarray], active: np.ndarray, delta_kept: int) -> "ProductCounts":
        """Count the scalars that are broadcast of some operands, (T, B, columns) each."""
        operands = list(operands)
        broadcast = sum(int(np.count_nonzero(operand[active])) for operand in operands)
        return cls(gates, sum(operand.shape[2] for operand in operands), broadcast, delta_kept)


@dataclass(frozen=True)
class Usage:
    """What one layer, or several added up, stored and computed in an iteration. Everything is a count, so usages add.

    A cell is one layer's step; its elements are units × sequences. Padding is the elements of sequences that have
    ended.

    Members
    -------
    cells, skipped : int                 cells, and those that stored nothing and had no backward pass
    elements, real : int                 elements of all cells, and those that are not padding
    stored : int                         real elements of cells that were not skipped
    kept : 6 int                         nonzero elements of P_i, P_f, P_g, P_o, P_s, P_r
    words : int                          32-bit words stored for the backward pass, masks included
    deltas, delta_kept : int             elements of δ that are not padding, and the nonzero ones among them
    delta_digits, saturated : int        with integers: digits of 8 bits of δ that are not zero, and elements of δ that
                                         were too large for their exponent
    products, dense_products : int       multiplications of the three matrix products, padding left out: with the
                                         nonzero scalars that are broadcast, and with all. With shared tokens: those
                                         that are really done, and 1 for the sum that a step begins with
    backward_products, dense_backward_products : int    those of dxh and dW alone
    """

    cells: int = 0
    skipped: int = 0
    elements: int = 0
    real: int = 0
    stored: int = 0
    kept: tuple[int, ...] = field(default=(0,) * len(KINDS))
    words: int = 0
    deltas: int = 0
    delta_kept: int = 0
    delta_digits: int = 0
    saturated: int = 0
    products: int = 0
    dense_products: int = 0
    backward_products: int = 0
    dense_backward_products: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "kept"}
        return Usage(**sums, kept=tuple(a + b for a, b in zip(self.kept, other.kept, strict=True)))

    @classmethod
    def counted(
        cls,
        *,
        units: int,
        products: Iterable["ProductCounts"],
        active: np.ndarray,
        skipped: np.ndarray,
        kept: tuple[int, ...],
        words: int,
    ) -> "Usage":
        """Count an iteration of one layer of so many units, from the counts of its cell's products.

        `active`, bool, (T, B), is False where a sequence has ended, `skipped` is bool, (T,). `kept` has the nonzero
        elements of each kind of P, `words` counts the words stored for the backward pass.
        """
        (steps, batch), real, products = active.shape, int(active.sum()), list(products)
        columns, rows = [p.columns for p in products], [p.gates * units for p in products]
        back = PRODUCTS_OF_DELTA * sum(p.columns * p.delta_kept for p in products)
        dense_back = PRODUCTS_OF_DELTA * sum(map(mul, columns, rows)) * real
        return cls(
            cells=steps,
            skipped=int(skipped.sum()),
            elements=steps * batch * units,
            real=real * units,
            stored=int(active[~skipped].sum()) * units,
            kept=kept,
            words=words,
            deltas=sum(rows) * real,
            delta_kept=sum(p.delta_kept for p in products),
            products=sum(p.gates * units * p.broadcast for p in products) + back,
            dense_products=sum(map(mul, columns, rows)) * real + dense_back,
            backward_products=back,
            dense_backward_products=dense_back,
        )

    def with_more_scalars(self, scalars: int, units: int) -> "Usage":
        """Give the usage of a layer of so many units whose forward pass broadcast so many more scalars."""
        return replace(self, products=self.products + GATES * units * scalars)

    @property
    def densities(self) -> dict[str, float]:
        """Nonzero share of each kind of P, by kind, in the cells that were not skipped."""
        return {kind: kept / max(self.stored, 1) for kind, kept in zip(KINDS, self.kept, strict=True)}

    @property
    def delta_density(self) -> float:
        """Nonzero share of δ, skipped cells counted as zeros."""
        return self.delta_kept / max(self.deltas, 1)

    @property
    def input_density(self) -> float:
        """Nonzero share of the scalars that the forward pass broadcasts, padding left out.

        Layers of unequal widths may be added up, as a scalar is multiplied with equally many weights in all layers.
        """
        forward = self.products - self.backward_products
        return forward / max(self.dense_products - self.dense_backward_products, 1)

    @property
    def footprint(self) -> float:
        """Words stored over those of five dense tensors, including their padding, as ``dense`` stores it."""
        return self.words / max(DENSE_TENSORS * self.elements, 1)

    @property
    def real_footprint(self) -> float:
        """Words stored over those of five dense tensors without any padding: the stricter measure."""
        return self.words / max(DENSE_TENSORS * self.real, 1)

    @property
    def multiplications(self) -> float:
        """Multiplications of the matrix products over those of a machine that skips none."""
        return self.products / max(self.dense_products, 1)

    @property
    def backward_multiplications(self) -> float:
        """As :attr:`multiplications`, of the backward pass and the weight gradient alone."""
        return self.backward_products / max(self.dense_backward_products, 1)

    @property
    def _of_integers(self) -> dict[str, float]:
        """Digits and saturated elements, as shares of the elements of δ; {} with float32."""
        counts = {"delta_digits": self.delta_digits, "saturated": self.saturated}
        return {name: count / max(self.deltas, 1) for name, count in counts.items()} if any(counts.values()) else {}

    def summary(self) -> dict:
        """Give the densities and shares for the log of a run, by name."""
        shares = "footprint", "real_footprint", "multiplications", "backward_multiplications"
        return {
            "densities": {kind: round(value, 6) for kind, value in self.densities.items()},
            "delta_density": self.delta_density,
            "input_density": self.input_density,
            "cells_skipped": self.skipped,
            "cells": self.cells,
            **self._of_integers,
            **{name: getattr(self, name) for name in shares},
        }
