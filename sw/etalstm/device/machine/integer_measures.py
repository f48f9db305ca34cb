"""What the last passes have sent and stored, where products are integers."""

from dataclasses import dataclass, replace

import numpy as np

from etalstm.device.hooks import Factors
from etalstm.device.machine.measures import DeltaReader, Measures
from etalstm.device.machine.windows import Windows
from etalstm.network.arithmetic import Arithmetic, digits, scaled
from etalstm.network.shape import GATES, canonical_rows
from etalstm.network.storage import Usage
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.integer_arrays import OPERANDS, IntegerArrays, Noted
from etalstm.plan.memory.network_map import NetworkMap
from etalstm_hw.contract import NOTED_NOT_FINITE, NOTHING_NOTED


def integers_of(arrays: LayerArrays) -> IntegerArrays:
    """Give a layer's arrays of integers."""
    assert arrays.integers, "a session with integers has arrays for them"
    return arrays.integers


def whole_sums(rounded: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Give integer sums from what the machine tells of each: int64.

    Parameters
    ----------
    rounded : array, float32    the sum, rounded once
    low : array, int32          its lower 32 bits

    Exactness: a sum of SUM_BITS is at most 2^14 from its float32. So it is the nearest integer that has these bits.
    """
    near = rounded.astype(np.int64)
    return near + (low - near).astype(np.int32)


@dataclass(frozen=True)
class WhatIsNoted:
    """What the machine has noted of a layer's δ: the largest exponent, places included, and how many were clamped."""

    exponent: int
    clamped: int

    def largest(self, places: int) -> float:
        """Give a number whose exponent is that of the largest δ, which were quantised to so many `places`."""
        if self.exponent == NOTHING_NOTED:
            return 0.0
        return float("inf") if self.exponent == NOTED_NOT_FINITE else float(np.ldexp(0.5, self.exponent - places))


def noted_of(windows: Windows, arrays: LayerArrays) -> WhatIsNoted:
    """Read what was noted in the last backward pass."""
    words = windows.read_words(integers_of(arrays).noted).view(np.int32)
    return WhatIsNoted(int(words[:, Noted.EXPONENT].max()), int(words[:, Noted.CLAMPED].sum()))


class IntegerDeltaReader(DeltaReader):
    """Reads one layer's δ as the integers that were sent."""

    def __init__(self, network: NetworkMap, arrays: LayerArrays, skipped: np.ndarray, windows: Windows):
        super().__init__(network, arrays, skipped, windows)
        self._batch = network.division.batch

    def numbers(self) -> np.ndarray:
        """Read the integers: int32, (T, B, 4H), rows in canonical order."""
        digits, steps = integers_of(self._arrays).delta, self._skipped.size
        words = self._windows.read_words(digits.section(steps))
        units = self._arrays.tiling.units.size
        delta = digits.numbers(words, steps, (steps, self._batch, GATES * units))
        delta[self._skipped] = 0
        return delta

    def kept(self) -> int:
        """Count those that are not zero."""
        return int(np.count_nonzero(self.numbers()))


@dataclass(frozen=True)
class PassExponents:
    """The arithmetic of an iteration, and the exponents of its passes: of δ, (L,), and of operands, (L, 2)."""

    arithmetic: Arithmetic
    delta: np.ndarray
    operands: np.ndarray


class IntegerMeasures(Measures):
    """Reads what the passes of one iteration have left, with their exponents."""

    def __init__(self, network: NetworkMap, windows: Windows, skipped: np.ndarray, how: "PassExponents"):
        super().__init__(network, windows, skipped)
        self._how = how

    def usage(self, active: np.ndarray) -> list[Usage]:
        """Count also the digits of δ, and how many of its integers were clamped."""
        counted = zip(super().usage(active), self._network.layers, self._skipped, strict=True)
        return [
            replace(
                usage,
                saturated=noted_of(self._windows, arrays).clamped,
                delta_digits=int(digits(self._deltas(arrays, skipped).numbers()).sum()),
            )
            for usage, arrays, skipped in counted
        ]

    def _deltas(self, arrays: LayerArrays, skipped: np.ndarray) -> IntegerDeltaReader:
        return IntegerDeltaReader(self._network, arrays, skipped, self._windows)

    def _sent(self, arrays: LayerArrays, skipped: np.ndarray) -> tuple[list[np.ndarray], IntegerDeltaReader]:
        sent = []
        for name in OPERANDS:
            numbers = integers_of(arrays).operands[name]
            digits, entries = numbers.digits, len(skipped) + numbers.first
            words = self._windows.read_words(digits.section(entries))
            shape = entries, self._network.division.batch, integers_of(arrays).tiling.columns_of(name).size
            sent.append(digits.numbers(words, entries, shape)[numbers.first :].astype(np.float32))
        return sent, self._deltas(arrays, skipped)

    def factors(self) -> Factors:
        """Read the two factors of each layer's dW, as float32."""
        factors, arithmetic = [], self._how.arithmetic
        for number, (arrays, skipped) in enumerate(zip(self._network.layers, self._skipped, strict=True)):
            sent, deltas = self._sent(arrays, skipped)
            words = self._windows.read(integers_of(arrays).exponents).view(np.int32)
            of_rows = canonical_rows(words, arrays.tiling.gates)
            delta = scaled(deltas.numbers(), self._how.delta[number] - (arithmetic.delta_bits - 1) - of_rows)
            operands = [
                scaled(numbers.astype(np.int32), exponent - (arithmetic.bits - 1))
                for numbers, exponent in zip(sent, self._how.operands[number], strict=True)
            ]
            factors.append((delta, np.concatenate(operands, axis=2)))
        return factors
