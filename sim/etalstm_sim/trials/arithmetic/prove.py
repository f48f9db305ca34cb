"""Proves an activation function: hardware against golden, and golden against the function itself."""

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit

from etalstm.golden import activation
from etalstm.golden.activation import BOUND_ABSOLUTE, BOUND_RELATIVE_TANH, BOUND_ULP, activation_of
from etalstm_hw.contract import BINARY32
from etalstm_hw.contract.activation_tables import SIGMOID, TANH
from etalstm_hw.fp.activation import Activation
from etalstm_sim.trials.arithmetic.units import Units

FUNCTIONS = {"sigmoid": SIGMOID, "tanh": TANH}
ALL_WORDS = 1 << 32
STRIDE = np.uint32(0x9E3779B1)  # odd, so that its multiples are all words; near 2^32 over the golden ratio
_SMALLEST = 2.0**-126
_BOUND_SYMMETRY = 2.0**-24  # an ulp of the larger of the two sigmoids, which is in [1/2, 1]


@njit(nogil=True)
def _check_bounds(words, results, function, worst):
    """Raise the errors in ``worst`` to those of ``results``; return how many results break a bound."""
    violations = 0
    for n in range(len(words)):
        x: float = np.float64(np.uint32(words[n]).view(np.float32))
        z = np.float64(np.uint32(results[n]).view(np.float32))
        if x != x:
            violations += results[n] != 0x7FC00000
            continue
        x = math.copysign(0.0, x) if abs(x) < _SMALLEST else x
        exact = math.tanh(x) if function == TANH else 1 / (1 + math.exp(-x))
        error = abs(z - exact)
        ulp = math.ldexp(1.0, max(math.frexp(exact)[1], -125) - 24)
        relative = error / abs(exact) if exact != 0 else 0.0
        share: float = error / max(BOUND_ULP * ulp, BOUND_ABSOLUTE)
        opposite = activation_of(np.uint32(words[n] ^ 0x80000000).view(np.float32), function == TANH)
        if function == TANH:
            share = max(share, relative / BOUND_RELATIVE_TANH)
            symmetry: float = 0.0 if np.float32(opposite).view(np.uint32) == results[n] ^ 0x80000000 else math.inf
        else:
            symmetry = abs(np.float64(opposite) - (1 - z))
        if share > 1 or symmetry > _BOUND_SYMMETRY:
            violations += 1
        # Ulps count only where they are the bound: that of a small sigmoid is absolute.
        errors = (error / ulp if BOUND_ULP * ulp >= BOUND_ABSOLUTE else 0.0, error, relative, share, symmetry)
        for k in range(len(errors)):
            worst[k] = max(worst[k], errors[k])
    return violations


def prove_activation(
    function: str,
    chunk: int = 1 << 22,
    limit: int = ALL_WORDS,
    progress: Callable[[int, int], None] = lambda done, total: None,
    units: Units | None = None,
) -> dict:
    """Evaluate every binary32 word, or an even selection, in the compiled hardware and in the golden model.

    Hardware and golden model run side by side, on a core each.

    Parameters
    ----------
    function : "sigmoid" or "tanh"
    chunk : int
        Words between two calls of ``progress``.
    limit : int
        How many words. They come in an order that visits each once and is even over the whole range at any time, so a
        short run sees all of it coarsely.
    progress : function of two ints
        Told the words done and the words in all.
    units : Units, optional
        Compiled units with an ``activation``, which is proven; built if not given.

    Returns
    -------
    dict
        ``function``, ``words``; ``mismatches``, the words of which hardware and golden differ, and ``first_mismatch``
        (None, or word, hardware, golden); ``violations``, the results that break a bound of
        :mod:`etalstm.golden.activation`, tanh(-x) = -tanh(x), or sigmoid(-x) = 1 - sigmoid(x) to an ulp; the largest
        errors ``max_ulp`` (where ulps are the bound, that is from 1/2), ``max_absolute``, ``max_relative``,
        ``max_of_bound`` and ``max_asymmetry``; ``proven``; ``seconds``, and ``full_seconds`` that all words would take.

    Raises
    ------
    ValueError
        If the function is unknown or a number is not positive.
    ToolchainError
        If the hardware cannot be compiled.
    """
    if function not in FUNCTIONS:
        raise ValueError(f"function must be one of {', '.join(FUNCTIONS)}, got {function!r}")
    if chunk < 1 or not 1 <= limit <= ALL_WORDS:
        raise ValueError(f"chunk and limit must be positive and limit at most 2^32, got {chunk} and {limit}")
    number, golden = FUNCTIONS[function], getattr(activation, function)
    units = units or Units({"activation": Activation(BINARY32)}, operands={"activation": ("a", "function")})
    worst = np.zeros(5)
    mismatches, violations, first_mismatch = 0, 0, None
    _check_bounds(np.zeros(1, np.uint32), golden(np.zeros(1, np.float32)).view(np.uint32), number, worst)  # compile
    start = time.perf_counter()
    with ThreadPoolExecutor(1) as pool:
        for done in range(0, limit, chunk):
            words = np.arange(done, min(done + chunk, limit), dtype=np.uint64).astype(np.uint32) * STRIDE
            hardware = pool.submit(units.run, "activation", words, number)
            expected = golden(words.view(np.float32)).view(np.uint32)
            violations += _check_bounds(words, expected, number, worst)
            wrong = np.flatnonzero(hardware.result() != expected)
            if len(wrong) and first_mismatch is None:
                first_mismatch = tuple(int(v[wrong[0]]) for v in (words, hardware.result(), expected))
            mismatches += len(wrong)
            progress(done + len(words), limit)
    seconds = time.perf_counter() - start
    names = ("max_ulp", "max_absolute", "max_relative", "max_of_bound", "max_asymmetry")
    return {
        "function": function,
        "words": limit,
        "mismatches": mismatches,
        "first_mismatch": first_mismatch,
        "violations": int(violations),
        **dict(zip(names, worst.tolist(), strict=True)),
        "proven": mismatches == violations == 0 and limit == ALL_WORDS,
        "seconds": seconds,
        "full_seconds": seconds * ALL_WORDS / limit,
    }
