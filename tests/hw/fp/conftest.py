"""Small exact references and a pipeline driver for the floating-point units."""

from fractions import Fraction

import numpy as np
import pytest
from amaranth.sim import Simulator

from etalstm_hw.contract import BINARY32, FloatFormat
from etalstm_hw.fp.activation import Activation
from etalstm_hw.fp.add import Adder
from etalstm_hw.fp.multiply import Multiplier
from etalstm_sim.trials.arithmetic.units import Units

SMALL, HALF, BRAIN = FloatFormat(4, 3), FloatFormat(5, 10), FloatFormat(8, 7)


class Exact:
    """Arithmetic of any format in exact fractions: slow, and too simple to be wrong in the same way as the hardware."""

    def __init__(self, format):
        self.format = format

    def value(self, word):
        """Return ``word`` as a Fraction, ``'inf'`` or ``'nan'``, and its sign bit."""
        format = self.format
        fraction = word & (1 << format.mantissa) - 1
        exponent = word >> format.mantissa & (1 << format.exponent) - 1
        sign = word >> format.width - 1
        if exponent == (1 << format.exponent) - 1:
            return ("nan" if fraction else "inf"), sign
        if exponent == 0:
            return Fraction(0), sign
        significand = Fraction(fraction | 1 << format.mantissa)
        return (-1) ** sign * significand * Fraction(2) ** (exponent - format.bias - format.mantissa), sign

    def word(self, value, sign):
        """Round to nearest even on the subnormal grid, then flush; ``sign`` is for what rounds to zero."""
        format = self.format
        negative = value < 0 or (value == 0 and sign)
        magnitude, exponent = abs(value), 1
        while exponent < 2**format.exponent and magnitude >= Fraction(2) ** (exponent + 1 - format.bias):
            exponent += 1
        grid = Fraction(2) ** (exponent - format.bias - format.mantissa)
        rounded = round(magnitude / grid)  # Fraction rounds halves to even
        encoded = rounded + ((exponent - 1) << format.mantissa)
        if encoded < 1 << format.mantissa:
            encoded = 0
        return min(encoded, format.infinity) | negative << format.width - 1

    def multiply(self, a, b):
        """Return the word of a product."""
        (x, x_sign), (y, y_sign) = self.value(a), self.value(b)
        sign = x_sign ^ y_sign
        if "nan" in (x, y) or ("inf" in (x, y) and 0 in (x, y)):
            return self.format.nan
        if "inf" in (x, y):
            return self.format.infinity | sign << self.format.width - 1
        return self.word(x * y, sign)

    def add(self, a, b):
        """Return the word of a sum."""
        (x, x_sign), (y, y_sign) = self.value(a), self.value(b)
        if "nan" in (x, y) or (x == y == "inf" and x_sign != y_sign):
            return self.format.nan
        if "inf" in (x, y):
            return self.format.infinity | (x_sign if x == "inf" else y_sign) << self.format.width - 1
        return self.word(x + y, x_sign & y_sign)


def stream_through(unit, **operands):
    """Return what a free-running pipeline makes of one operand tuple a cycle, ``LATENCY`` cycles later each."""
    count, results = min(map(len, operands.values())), []

    async def drive(ctx):
        for cycle in range(count + unit.LATENCY):
            for name, words in operands.items():
                ctx.set(getattr(unit, name), int(words[min(cycle, count - 1)]))
            if cycle >= unit.LATENCY:
                results.append(ctx.get(unit.z))
            await ctx.tick()

    simulator = Simulator(unit)
    simulator.add_clock(1e-6)
    simulator.add_testbench(drive)
    simulator.run()
    return results


def hard_pairs(format, count, seed, *, addition):
    """Random operand pairs where results are hard to get right; words of ``format``, two uint32 arrays.

    Exponents of factors are weighted to products at the smallest and the largest number, those of summands to
    distances within two significands; fractions to few ones or few zeros, which makes ties and long carries; a tenth of
    the summands nearly cancel. All special words occur.
    """
    rng = np.random.default_rng(seed)
    largest, ones = (1 << format.exponent) - 1, (1 << format.mantissa) - 1

    def fractions():
        sparse = 1 << rng.integers(0, format.mantissa, count) | 1 << rng.integers(0, format.mantissa, count)
        kind = rng.integers(0, 4, count)
        anything = rng.integers(0, ones + 1, count)
        return np.choose(kind, [anything, sparse & ones, ~sparse & ones, rng.choice([0, 1, ones - 1, ones], count)])

    a, near = rng.integers(0, largest + 1, count), rng.integers(-3, 4, count)
    if addition:
        b = a + rng.integers(-2 * format.mantissa, 2 * format.mantissa + 1, count)
    else:
        b = near + format.bias - a + np.where(rng.random(count) < 0.5, 0, largest)
    b = np.where(rng.random(count) < 0.1, rng.integers(0, largest + 1, count), b).clip(0, largest)
    magnitudes = [a << format.mantissa | fractions(), b << format.mantissa | fractions()]
    if addition:
        close = (magnitudes[0] + near).clip(0, (1 << format.width - 1) - 1)
        magnitudes[1] = np.where(rng.random(count) < 0.1, close, magnitudes[1])
    return [(m | rng.integers(0, 2, count) << format.width - 1).astype(np.uint32) for m in magnitudes]


@pytest.fixture(scope="session")
def units():
    """All units, compiled, for tests that need millions of operations."""
    formats = {"": BINARY32, "_small": SMALL, "_half": HALF, "_brain": BRAIN}
    bank = {f"multiply{suffix}": Multiplier(format) for suffix, format in formats.items()}
    bank |= {f"add{suffix}": Adder(format) for suffix, format in formats.items()}
    return Units(bank | {"activation": Activation(BINARY32)}, operands={"activation": ("a", "function")})


@pytest.fixture
def hard():
    """Give tests :func:`hard_pairs`."""
    return hard_pairs


@pytest.fixture
def stream():
    """Give tests :func:`stream_through`."""
    return stream_through


@pytest.fixture
def exact():
    """Give tests :class:`Exact`."""
    return Exact
