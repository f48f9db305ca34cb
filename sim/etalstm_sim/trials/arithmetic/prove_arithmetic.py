"""Compares the multiplier and the adder with integer arithmetic: all pairs of special words, and random ones."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from etalstm_hw.contract import BINARY32
from etalstm_hw.fp.add import Adder
from etalstm_hw.fp.multiply import Multiplier
from etalstm_sim.trials.arithmetic import exact
from etalstm_sim.trials.arithmetic.units import Units

UNITS = {"multiply": (Multiplier, exact.products), "add": (Adder, exact.totals)}
CHUNK = 1 << 20  # pairs
_EXPONENTS = (
    1, 2, 3, 23, 24, 25, 26, 63, 64, 100, 102, 103, 104, 125, 126, 127, 128, 129, 149, 150, 151, 152, 190, 231, 252,
    253, 254,
)  # fmt: skip
_FRACTIONS = (0, 1, 2, 0x3F_FFFF, 0x40_0000, 0x40_0001, 0x7F_FFFE, 0x7F_FFFF)
_OTHERS = (0, 1, 2, 0x3F_FFFF, 0x40_0000, 0x7F_FFFE, 0x7F_FFFF, 0x7F80_0000, 0x7F80_0001, 0x7FC0_0000, 0x7FFF_FFFF)


def special_words() -> np.ndarray:
    """Give words at which arithmetic goes wrong: uint32, both signs of each magnitude.

    They are zero, subnormal numbers, infinity, NaNs; and numbers of exponents at both ends, around 1, and a significand
    or two from 1, each with fractions that tie, carry, or nearly do.
    """
    normal = [exponent << exact.MANTISSA | fraction for exponent in _EXPONENTS for fraction in _FRACTIONS]
    magnitudes = np.array([*_OTHERS, *normal], np.uint32)
    return np.concatenate([magnitudes, magnitudes | np.uint32(exact.SIGN)])


def special_pairs() -> tuple[np.ndarray, np.ndarray]:
    """Give every pair of :func:`special_words`, in either order."""
    words = special_words()
    return np.repeat(words, len(words)), np.tile(words, len(words))


def random_pairs(generator: np.random.Generator, unit: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Give pairs of words: uint32, (count,) each.

    A third of them are any words. The exponents of another third are near each other, or, of factors, so that products
    are near the smallest or the largest number. The last third are summands that nearly cancel, or factors of few ones.
    """
    a, b, c = generator.integers(0, 1 << 32, (3, count), np.uint32)
    exponent, near = (a >> 23 & 255).astype(np.int64), (c % 64).astype(np.int64) - 32
    target = exponent + near if unit == "add" else (c >> 31) * 254 + exact.BIAS - exponent + near // 16
    close = (target % 256).astype(np.uint32) << np.uint32(23) | b & np.uint32(0x807F_FFFF)
    if unit == "add":
        hard = (a ^ np.uint32(exact.SIGN)) + (c % np.uint32(64)) - np.uint32(32)
    else:
        hard = b & np.uint32(0xFF80_0000) | np.uint32(1) << c % np.uint32(23)
    return a, np.choose(np.arange(count) % 3, [b, close, hard])


def prove_arithmetic(
    pairs: int, seed: int = 0, progress: Callable[[int], None] = lambda pairs: None, units: Units | None = None
) -> list[dict]:
    """Compare both units, compiled from their Verilog, with :mod:`etalstm_sim.trials.arithmetic.exact`.

    Parameters
    ----------
    pairs : int
        Random pairs of each unit.
    seed : int
    progress : function of an int
        Told how many pairs were compared since its last call.
    units : Units, optional
        Compiled ``multiply`` and ``add``; built if not given.

    Returns
    -------
    list of dict
        Of each unit: ``unit``, ``special_pairs``, ``random_pairs``, ``differ``, ``first`` (None, or a, b, the unit's
        word and the right one), ``seconds``.

    Raises
    ------
    ValueError
        If a number is negative.
    ToolchainError
        If the hardware cannot be compiled.
    """
    if pairs < 0 or seed < 0:
        raise ValueError(f"pairs and seed must not be negative, got {pairs} and {seed}")
    units = units or Units({name: unit(BINARY32) for name, (unit, _) in UNITS.items()})
    return [_compare_unit(name, pairs, np.random.default_rng(seed), progress, units) for name in UNITS]


def _compare_unit(name: str, pairs: int, generator: np.random.Generator, progress, units: Units) -> dict:
    started, differ, first = time.perf_counter(), 0, None
    with ThreadPoolExecutor(1) as pool:  # hardware and reference run side by side
        for a, b in _chunks(name, pairs, generator):
            hardware = pool.submit(units.run, name, a, b)
            right = UNITS[name][1](a, b)
            wrong = np.flatnonzero(hardware.result() != right)
            if len(wrong) and first is None:
                first = tuple(int(words[wrong[0]]) for words in (a, b, hardware.result(), right))
            differ += len(wrong)
            progress(len(a))
    found = {"unit": name, "special_pairs": len(special_words()) ** 2, "random_pairs": pairs}
    return found | {"differ": differ, "first": first, "seconds": time.perf_counter() - started}


def _chunks(name: str, pairs: int, generator: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield special_pairs()
    for done in range(0, pairs, CHUNK):
        yield random_pairs(generator, name, min(CHUNK, pairs - done))
