"""The exponents of a run with integers, from iteration to iteration: see :mod:`etalstm.network.arithmetic`."""

from dataclasses import dataclass

import numpy as np

from etalstm.errors import DivergedError
from etalstm.network.arithmetic import HEADROOM, LEAST_EXPONENT, MOST_SATURATED, exponent_of
from etalstm.network.shape import NetworkShape


@dataclass(frozen=True)
class Peaks:
    """What a pass has quantised with each of some exponents: the largest magnitudes, and how many are saturated.

    `largest` is float64, `saturated` int64, and both are of one shape.
    """

    largest: np.ndarray
    saturated: np.ndarray

    @classmethod
    def together(cls, parts: "list[Peaks]") -> "Peaks":
        """Give the peaks of a batch from those of its parts."""
        largest, saturated = np.stack([p.largest for p in parts]), np.stack([p.saturated for p in parts])
        return cls(largest.max(axis=0), saturated.sum(axis=0))


class Exponents:
    """The exponents of a network's products: e_δ, int32, (P,), and those of operands, (P, O), O the most of a product.

    An operand that its cell keeps within ±1 has 0. Where all of a product's operands do, they are summed `together`,
    bool, (P,). `first` is true until an iteration stands whose δ are not all zero.
    """

    def __init__(self, network: NetworkShape):
        cell, products = network.declared, network.declared.products
        within = {*cell.within_one} | ({"x"} if cell.output in cell.within_one else set())
        names = [product.operands for _ in range(network.layers) for product in products]
        most = max(map(len, names))
        self.delta = np.full(len(names), LEAST_EXPONENT, np.int32)
        self.operands = np.full((len(names), most), LEAST_EXPONENT, np.int32)
        self._given = np.zeros(self.operands.shape, bool)  # by the cell, or for x by the batch
        self._of_x = np.zeros(self.operands.shape, bool)
        for number, operands in enumerate(names):
            for place, name in enumerate(operands):
                self._of_x[number, place] = name == "x" and number < len(products)
                self._given[number, place] = self._of_x[number, place] or name in within
        self.together = np.array([
            len(operands) > 1 and not x.any() and {*operands} <= within
            for operands, x in zip(names, self._of_x, strict=True)
        ])  # fmt: skip
        self._given |= np.array([[place >= len(operands) for place in range(most)] for operands in names])
        self.operands[self._given] = 0
        self._initial = self.operands.copy()
        self.first = True
        self._before = self._next = self.operands.copy()  # what an iteration begins with, and what follows from it

    @property
    def now(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """e_δ, the exponents of operands, and which are summed together, of the next pass."""
        return self.delta, self.operands, self.together

    @property
    def state(self) -> tuple[list[int], list[list[int]]]:
        """e_δ, and the exponents of operands, for a checkpoint; may be set to those of a checkpoint."""
        return self.delta.tolist(), self._before.tolist()

    @state.setter
    def state(self, state: tuple[list[int], list[list[int]]]) -> None:
        delta, operands = (np.array(each, np.int32) for each in state)
        if delta.shape != self.delta.shape or operands.shape != self.operands.shape:
            raise ValueError(f"exponents must be of {self.operands.shape} operands, got those of {operands.shape}")
        self.delta, self._before, self.first = delta, operands, bool((delta == LEAST_EXPONENT).all())

    def forget(self) -> None:
        """Go back to the exponents of a run that has not begun."""
        self.delta, self._before = np.full_like(self.delta, LEAST_EXPONENT), self._initial.copy()
        self.first = True

    def begin(self, largest_input: float) -> None:
        """Begin a forward pass whose x is of at most this magnitude."""
        self.operands = self._before.copy()
        self.operands[self._of_x] = exponent_of(np.float64(largest_input))

    def settle_operands(self, peaks: Peaks, elements: int) -> bool:
        """Tell whether a forward pass stands; else the exponents are those for another try.

        `elements` counts those of an operand whose exponent is state: as many for each.
        """
        stands, tried, following = self._settle(self.operands, peaks, elements, ~self._given)
        self.operands, self._next = tried, np.where(self._given, 0, following)
        return stands

    def settle_delta(self, peaks: Peaks, elements: np.ndarray) -> bool:
        """Tell whether a backward pass stands; then the exponents are those of the next iteration.

        Else they are those for another try.
        """
        stands, tried, following = self._settle(self.delta, peaks, elements, np.ones(len(self.delta), bool))
        self.delta = following if stands else tried
        if stands:
            self._before, self.first = self._next, self.first and not peaks.largest.any()
        return stands

    def _settle(
        self, exponents: np.ndarray, peaks: Peaks, elements: np.ndarray | int, moves: np.ndarray
    ) -> tuple[bool, np.ndarray, np.ndarray]:
        """Give whether a pass stands, the exponents for another try, and those of the next iteration."""
        if not np.isfinite(peaks.largest).all():
            raise DivergedError("a number to be quantised is not finite: training has diverged")
        follows = exponent_of(peaks.largest) + HEADROOM
        too_many = peaks.saturated > (0 if self.first else MOST_SATURATED) * elements
        raised = np.where(moves & too_many, np.maximum(exponents, follows), exponents).astype(np.int32)
        following = np.where(moves & (peaks.largest > 0), follows, exponents).astype(np.int32)
        return not (moves & too_many).any(), raised, following
