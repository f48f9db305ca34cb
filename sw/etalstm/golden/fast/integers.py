"""The LSTM's training pass with integers, compiled: the bits of :mod:`etalstm.golden.integers`.

The x part of every step's gate sums is added for all steps at once. With delta inputs a sum is of the mantissas that
were last sent: the same integer as all changes added up. dx and dW follow when all δ are there.

Terms are numbered as in :mod:`etalstm.golden.fast.compiled`.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from etalstm.errors import DivergedError
from etalstm.formats.codec import is_kept
from etalstm.golden.arithmetic import plus
from etalstm.golden.fast.compiled import ZERO, _cells_backward, _cells_forward, _terms_of_step
from etalstm.golden.fast.dots import Kind, add_products, addresses, copy, factor_of, kind_of, padded
from etalstm.golden.fast.quantised import IntegerBackward, IntegerPass, powers, scaled
from etalstm.golden.fast.sums import MINUS_ZERO
from etalstm.golden.integers import IntegerProduct
from etalstm.golden.passes import skipped_steps, term_numbers
from etalstm.golden.reference import DENSE
from etalstm.host.crew import CREW
from etalstm.network.arithmetic import most
from etalstm.network.delta_inputs import OFF, least_change

PIECE = 64  # rows whose sums stay in the caches


class Grid(NamedTuple):
    """Quantising: a number times `scale`, rounded, is the mantissa, of at most `most`."""

    scale: np.ndarray  # float64, one for each column
    most: int


@njit(nogil=True, cache=True)
def _quantise(values, grid, numbers):
    """Fill the mantissas of a row of float32."""
    for n in range(values.size):
        exact = np.rint(np.float64(values[n]) * grid.scale[n])
        numbers[n] = np.int16(min(max(exact, -grid.most), grid.most))


@njit(nogil=True, cache=True)
def _hold(numbers, thresholds, first, held):
    """Go over to a step's mantissas, at the first step, or where they have changed by a threshold."""
    for n in range(numbers.size):
        if first or abs(np.int32(numbers[n]) - np.int32(held[n])) >= thresholds[n]:
            held[n] = numbers[n]


@njit(nogil=True, cache=True)
def _hold_inputs(x, grid, thresholds, numbers, held, begin, end):
    """Fill the mantissas that the x of the sequences `begin` to `end` are sent as, one row for each term."""
    of_step, now = np.empty(x.shape[2], np.int16), np.empty(x.shape[2], np.int16)
    for b in range(begin, end):
        for t in range(numbers.shape[0]):
            if numbers[t, b] < 0:
                continue
            _quantise(x[t, b], grid, of_step)
            _hold(of_step, thresholds, t == 0, now)
            held[numbers[t, b], : now.size] = now


@njit(nogil=True, cache=True)
def _rows_times(places, kind, rows, factor, begin, end):
    """Give the sums of the products of some rows, (end - begin, N')."""
    sums = np.full((end - begin, factor.rows.shape[1]), kind.zero)
    add_products(places, kind, rows[begin:end], factor, sums, np.empty(rows.shape[1], np.int64))
    return sums


@njit(nogil=True, cache=True)
def _begin_sums(places, kind, rows, factor, factors, bias, z, begun, begin, end):
    """Fill z of some terms with the bias and the sums of x; if h is summed together with x, `begun` gets these sums."""
    for first in range(begin, end, PIECE):
        stop = min(first + PIECE, end)
        sums = _rows_times(places, kind, rows, factor, first, stop)
        if begun.shape[0]:
            begun[first:stop] = sums
            z[first:stop] = bias
            continue
        for n in range(first, stop):
            for r in range(bias.size):
                z[n, r] = plus(bias[r], scaled(sums[n - first, r], factors[r]))


@njit(nogil=True, cache=True)
def _largest_of(row, largest):
    """Give the largest magnitude of a row and of what was seen before; infinity if one is no number.

    As integers the bits of magnitudes have the same order, and processors have vector instructions for their maximum.
    """
    words, bits = row.view(np.int32), np.int32(0)
    for n in range(row.size):
        bits = max(bits, words[n] & np.int32(0x7FFF_FFFF))
    found = np.int32(bits).view(np.float32)
    return max(largest, found) if found == found else np.float32(np.inf)


@njit(nogil=True, cache=True)
def _steps_forward(places, kind, recurrent, grid, thresholds, factors, z, begun, numbers, skipped, storage, h, c, kept,
                   held, begin, end):  # fmt: skip
    """Take the sequences `begin` to `end` through all steps; z has the bias and the x part, and gets the rest.

    If h is summed together with x, z has the bias alone, and `begun` the sums of x.

    `held`, (N, H'), gets the mantissas of h that the terms have acted on. Gives the largest |h|.
    """
    units, largest = h.shape[2], ZERO
    of_step, now = np.empty(units, np.int16), np.empty((end - begin, units), np.int16)
    sums = np.full((end - begin, recurrent.rows.shape[1]), kind.zero)
    room = np.empty(held.shape[1], np.int64)
    for t in range(numbers.shape[0]):
        first, stop = _terms_of_step(numbers[t], begin, end)
        for b in range(begin, end):
            if numbers[t, b] >= 0:
                largest = _largest_of(h[t, b], largest)
                _quantise(h[t, b], grid, of_step)
                _hold(of_step, thresholds, t == 0, now[b - begin])
                held[numbers[t, b], :units] = now[b - begin]
        if begun.shape[0]:
            sums[: stop - first] = begun[first:stop]
        else:
            sums[: stop - first] = 0
        add_products(places, kind, held[first:stop], recurrent, sums, room)
        for n in range(first, stop):
            for r in range(z.shape[1]):
                z[n, r] = plus(z[n, r], scaled(sums[n - first, r], factors[r]))
        _cells_forward(z, t, numbers, skipped, storage, h, c, kept, begin, end)
    for b in range(begin, end):
        largest = _largest_of(h[-1, b], largest)
    return largest


@njit(nogil=True, cache=True)
def _quantise_delta(whole, threshold, grid, to_peak, numbers, bias_sums, counts):
    """Fill the mantissas of a term's δ, add all of it to the bias's sums; gives the largest |δ·2^e_r|.

    `counts` gets how many saturate.
    """
    bits, saturated, limit = np.int64(0), 0, np.float64(grid.most)
    for r in range(whole.size):
        bits = max(bits, np.float64(abs(np.float64(whole[r])) * to_peak[r]).view(np.int64))  # as in _largest_of
    for r in range(whole.size):
        exact = np.rint(np.float64(whole[r]) * grid.scale[r])
        saturated += abs(exact) > limit
        number = np.int32(min(max(exact, -limit), limit) if exact == exact else 0.0)
        bias_sums[r] += number
        numbers[r] = np.int16(number) if is_kept(whole[r], threshold) else np.int16(0)
    counts[0] += saturated
    largest = np.int64(bits).view(np.float64)
    return largest if largest == largest else np.inf


@njit(nogil=True, cache=True)
def _collect(sums, own, collected, factor, gradients):
    """Add sums to what has been collected; an element of its own mantissa gets all of that as its gradient."""
    for n in range(gradients.size):
        total = plus(collected[n], scaled(sums[n], factor))
        gradients[n] = total if own[n] else ZERO
        collected[n] = MINUS_ZERO if own[n] else total


@njit(nogil=True, cache=True)
def _own(values, grid, held, own):
    """Tell which elements have their own mantissa, and not one that was sent before."""
    numbers = np.empty(values.size, np.int16)
    _quantise(values, grid, numbers)
    for n in range(values.size):
        own[n] = numbers[n] == held[n]


@njit(nogil=True, cache=True)
def _steps_backward(places, kind, recurrent, grid, to_peak, below, h, h_grid, held, kept, numbers, skipped, threshold,
                    dy, dh, dc, whole, delta, bias_sums, counts, begin, end):  # fmt: skip
    """Take the sequences `begin` to `end` back through all steps; dh and dc become those of the initial state.

    `delta`, (N, R'), gets the mantissas of δ. Gives the largest |δ·2^e_r|.
    """
    units, largest = dh.shape[1], 0.0
    collected, own = np.full((end - begin, units), MINUS_ZERO), np.empty(units, np.bool_)
    sums = np.full((end - begin, recurrent.rows.shape[1]), kind.zero)
    room = np.empty(delta.shape[1], np.int64)
    for t in range(numbers.shape[0] - 1, -1, -1):
        first, stop = _terms_of_step(numbers[t], begin, end)
        if skipped[t]:
            dh[begin:end], dc[begin:end], whole[first:stop], delta[first:stop] = ZERO, ZERO, ZERO, 0
            collected[:] = MINUS_ZERO
            continue
        _cells_backward(kept, numbers[t], dy[t], dh, dc, whole, begin, end)
        for n in range(first, stop):
            found = _quantise_delta(whole[n], threshold, grid, to_peak, delta[n], bias_sums, counts)
            largest = max(largest, found)
        sums[: stop - first] = 0
        add_products(places, kind, delta[first:stop], recurrent, sums, room)
        for b in range(begin, end):
            n = numbers[t, b]
            if n >= 0:
                _own(h[t, b], h_grid, held[n], own)
                _collect(sums[n - first], own, collected[b - begin], below, dh[b])
    return largest


@njit(nogil=True, cache=True)
def _collect_inputs(sums, x, grid, held, numbers, skipped, below, dx, begin, end):
    """Fill the gradients of the x of some sequences from the sums over δ of each term."""
    own = np.empty(x.shape[2], np.bool_)
    for b in range(begin, end):
        collected = np.full(x.shape[2], MINUS_ZERO)
        for t in range(numbers.shape[0] - 1, -1, -1):
            n = numbers[t, b]
            if skipped[t]:
                collected[:] = MINUS_ZERO
            if n >= 0 and not skipped[t]:
                _own(x[t, b], grid, held[n], own)
                _collect(sums[n], own, collected, below, dx[t, b])


class _Operands:
    """The grid of each operand of a product, x and h, and its thresholds of delta inputs."""

    def __init__(self, product: IntegerProduct, delta_inputs):
        unit, self.most = product.arithmetic.bits - 1, most(product.arithmetic.bits)
        self.grids, self.thresholds = [], []
        for width, exponent, threshold in zip(
            product.widths, product.operand_exponents, (delta_inputs.x, delta_inputs.h), strict=True
        ):
            self.grids.append(Grid(np.full(width, powers(unit - exponent)), self.most))
            steps = 0.0 if delta_inputs.off else least_change(threshold, product.arithmetic.bits, exponent)
            self.thresholds.append(np.full(width, steps))


def layer_forward(product, x, h0, c0, active, storage=DENSE, skipped=None, delta_inputs=OFF) -> IntegerPass:
    """Do what :func:`etalstm.golden.reference.layer_forward` does, with integers.

    `product`: an :class:`IntegerProduct` of x and h. Raises :class:`DivergedError` if an h is not finite.
    """
    (steps, batch, width), units = x.shape, h0.shape[1]
    matrix, arithmetic = product.matrix, product.arithmetic
    h, c = (np.empty((steps + 1, *h0.shape), np.float32) for _ in range(2))
    h[0], c[0] = h0, c0
    skipped, numbers = skipped_steps(skipped, steps), term_numbers(active)
    rule = storage.compressed, storage.bf16, np.array(storage.thresholds, np.float32)
    operands, terms = _Operands(product, delta_inputs), int(active.sum())
    held_x = np.zeros((terms, padded(width)), np.int16)
    held_h = np.zeros((terms, padded(units)), np.int16)
    x = np.ascontiguousarray(x)
    CREW.run(batch, x.size, lambda *piece: _hold_inputs(
        x, operands.grids[0], operands.thresholds[0], numbers, held_x, *piece))  # fmt: skip
    kind, places = kind_of(max(product.of_sums[0]), operands.most**2), addresses()
    factors = [
        powers(matrix.exponents + exponent - 2 * (arithmetic.bits - 1)) for exponent in product.operand_exponents
    ]
    of_x, recurrent = (factor_of(part.T) for part in (matrix.numbers[:, :width], matrix.numbers[:, width:]))
    z = np.empty((terms, product.rows), np.float32)
    begun = np.full((terms if product.together else 0, of_x.rows.shape[1]), kind.zero)
    CREW.run(terms, z.size * width, lambda *piece: _begin_sums(
        places, kind, held_x, of_x, factors[0], matrix.bias, z, begun, *piece))  # fmt: skip
    kept, largest = np.empty((6, terms, units), np.float32), []

    def piece(begin, end):
        largest.append(_steps_forward(
            places, kind, recurrent, operands.grids[1], operands.thresholds[1], factors[1], z, begun, numbers, skipped,
            rule, h, c, kept, held_h, begin, end,
        ))  # fmt: skip

    CREW.run(batch, z.size * units, piece, active.sum(axis=0))
    if not np.isfinite(max(largest)):
        raise DivergedError("a state h is not finite: training has diverged")
    return IntegerPass(x, h, c, kept, active, skipped, delta_inputs, product, held_x[:, :width], held_h[:, :units])


def layer_backward(forward: IntegerPass, dy, dh, dc, delta_threshold=0.0) -> IntegerBackward:
    """Do what :func:`etalstm.golden.reference.layer_backward` does, with integers."""
    product, (batch, width) = forward.product, forward.x.shape[1:]
    matrix, arithmetic, numbers = product.matrix, product.arithmetic, term_numbers(forward.active)
    operands, places, terms = _Operands(product, forward.delta_inputs), addresses(), len(forward.x_numbers)
    unit, largest_delta = product.delta_exponent - (arithmetic.delta_bits - 1), most(arithmetic.delta_bits)
    grid = Grid(powers(matrix.exponents - unit), largest_delta)
    to_peak, below = powers(matrix.exponents), float(powers(product.below))
    kind = kind_of(product.rows, largest_delta * operands.most)
    whole = np.empty((terms, product.rows), np.float32)
    delta = np.zeros((terms, padded(product.rows)), np.int16)
    of_x, recurrent = (factor_of(part) for part in (matrix.numbers[:, :width], matrix.numbers[:, width:]))
    dy, dh, dc = np.ascontiguousarray(dy), np.array(dh, order="C"), np.array(dc, order="C")
    threshold, found = np.float32(delta_threshold), []

    def piece(begin, end):
        bias_sums, counts = np.zeros(product.rows, np.int64), np.zeros(1, np.int64)
        largest = _steps_backward(
            places, kind, recurrent, grid, to_peak, below, forward.h, operands.grids[1], forward.h_numbers,
            forward.kept, numbers, forward.skipped, threshold, dy, dh, dc, whole, delta, bias_sums, counts, begin, end,
        )  # fmt: skip
        found.append((bias_sums, int(counts[0]), largest))

    CREW.run(batch, delta.size * dh.shape[1], piece, forward.active.sum(axis=0))
    for _, saturated, largest in found:
        product.delta_peak.take(largest, saturated)
    dx = np.zeros_like(forward.x)
    dx_sums = np.full((terms, of_x.rows.shape[1]), kind.zero)

    def inputs(begin, end):
        for first in range(begin, end, PIECE):
            stop = min(first + PIECE, end)
            dx_sums[first:stop] = _rows_times(places, kind, delta, of_x, first, stop)

    CREW.run(terms, delta.size * width, inputs)
    skipped, grid = forward.skipped, operands.grids[0]
    CREW.run(batch, dx.size, lambda *part: _collect_inputs(
        dx_sums, forward.x, grid, forward.x_numbers, numbers, skipped, below, dx, *part))  # fmt: skip
    weight_sums = _weight_sums(forward, delta[:, : product.rows], kind_of(terms, largest_delta * operands.most))
    bias_sums = np.sum([sums for sums, *_ in found], axis=0)
    return IntegerBackward(dx, dh, dc, product, delta[:, : product.rows], forward.active, weight_sums, bias_sums)


def _weight_sums(forward: IntegerPass, delta, kind: Kind) -> np.ndarray:
    """Give Σ D·m over all terms, int64, (R, K)."""
    places, (terms, rows) = addresses(), delta.shape
    turned = np.zeros((rows, padded(terms)), np.int16)
    copy(delta.T, turned[:, :terms])
    operands = factor_of(forward.x_numbers, forward.h_numbers)
    sums = np.zeros((rows, operands.rows.shape[1]), np.int64)

    def piece(begin, end):
        sums[begin:end] = _rows_times(places, kind, turned, operands, begin, end)

    CREW.run(rows, sums.size * terms, piece)
    return sums[:, : forward.x.shape[2] + forward.h.shape[2]]
