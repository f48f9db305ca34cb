"""The inner loop of the MAC sums, as vector instructions: a block of sums stays in registers over all of its terms.

Every sum has a lane of its own in a vector, and its terms come one after the other. Multiply and add are separate
instructions. LLVM must not fuse or reorder them: no instruction has a fast-math flag. A vector of ``WIDTH`` elements is
one register of AVX-512, two of AVX2, or four of SSE and NEON.
"""

from functools import reduce

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from etalstm.golden.arithmetic import NAN, SMALLEST

WIDTH = 16  # sums of a panel
# Rows and panels of the largest tile, and of those of 4, 2 and 1 rows. So many vectors of sums hide the latency of an
# addition, and leave registers for the operands: there are 32 with AVX-512, else 16 of half the size. With AVX2, 6 rows
# need one register too many: they have half the speed of 5.
ROWS, SIDE, SIDES = (8, 2, (4, 4, 8)) if get_host_cpu_features().get("avx512f") else (5, 1, (1, 2, 6))

_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_WORDS = ir.VectorType(ir.IntType(32), WIDTH)
_VECTOR = ir.VectorType(_FLOAT, WIDTH)
_SIGN = 0x8000_0000


def _splat(builder, value):
    """Fill a vector with one value."""
    start = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(start, start, ir.Constant(_WORDS, [0] * WIDTH))


def _constant(value: float) -> ir.Constant:
    return ir.Constant(_VECTOR, [value] * WIDTH)


def _flushed_number(builder, z):
    """Flush results of which none is a NaN."""
    words = builder.bitcast(z, _WORDS)
    sign = builder.and_(words, ir.Constant(_WORDS, [_SIGN] * WIDTH))
    size = builder.bitcast(builder.xor(words, sign), _VECTOR)
    small = builder.fcmp_ordered("<", size, _constant(float(SMALLEST)))
    return builder.select(small, builder.bitcast(sign, _VECTOR), z)


def _flushed(builder, z):
    """Flush results: :func:`etalstm.golden.arithmetic.flush` of a vector."""
    flushed = _flushed_number(builder, z)
    nan = builder.bitcast(ir.Constant(_WORDS, [int(NAN.view(np.uint32))] * WIDTH), _VECTOR)
    return builder.select(builder.fcmp_unordered("uno", z, z), nan, flushed)


_ARGUMENTS = ("total", "chosen", "at", "matrix", "panel", "scalars", "picks", "begin", "end", "mixed")


def _number(value: int) -> ir.Constant:
    return ir.Constant(_INDEX, value)


class _Arguments:
    """The arguments of a kernel: numbers as attributes, arrays through their elements' addresses."""

    def __init__(self, context, builder, signature, values):
        self._builder, self._views = builder, {}
        for name, kind, value in zip(_ARGUMENTS, signature.args, values, strict=True):
            if isinstance(kind, types.Array):
                self._views[name] = cgutils.create_struct_proxy(kind)(context, builder, value)
            else:
                setattr(self, name, value)

    def address(self, name, *indices):
        """Address an element of an array by its first indices."""
        address, strides = self._builder.ptrtoint(self._views[name].data, _INDEX), self._views[name].strides
        for index, stride in zip(indices, cgutils.unpack_tuple(self._builder, strides), strict=False):
            address = self._builder.add(address, self._builder.mul(index, stride))
        return address

    def load(self, address, kind):
        """Load from an address."""
        value = self._builder.load(self._builder.inttoptr(address, kind.as_pointer()))
        value.align = 4
        return value


def _add_term(builder, given, pick, terms, factors, sums, finish):
    """Add term `pick` to the sums, a list of panels for each row, given the addresses of terms and factors."""
    ahead = builder.mul(pick, _number(4 * WIDTH))
    vectors = [given.load(builder.add(term, ahead), _VECTOR) for term in terms]
    for factor, of_row in zip(factors, sums, strict=True):
        x = _splat(builder, given.load(builder.add(factor, builder.mul(pick, _number(4))), _FLOAT))
        for total, vector in zip(of_row, vectors, strict=True):
            product = finish(builder, builder.fmul(vector, x))
            builder.store(finish(builder, builder.fadd(builder.load(total), product)), total)


def _store_row(builder, addresses, sums, mixed):
    """Store the sums of a row, unless `mixed` and one of them is zero; tell whether they were left out, an i64."""
    values = [builder.load(total) for total in sums]
    zeros = [builder.fcmp_ordered("==", value, _constant(0)) for value in values]
    lanes = builder.bitcast(reduce(builder.or_, zeros), ir.IntType(WIDTH))
    left = builder.and_(mixed, builder.icmp_unsigned("!=", lanes, ir.Constant(lanes.type, 0)))
    with builder.if_then(builder.not_(left)):
        for value, address in zip(values, addresses, strict=True):
            builder.store(value, builder.inttoptr(address, _VECTOR.as_pointer())).align = 4
    return builder.zext(left, _INDEX)


def _add_terms(builder, given, rows, panels, finish):
    """Write the instructions of :func:`_kernel`; the sums stay in registers from the first term to the last."""
    row = [given.load(given.address("chosen", builder.add(given.at, _number(r))), _INDEX) for r in range(rows)]
    column = [builder.add(given.panel, _number(p)) for p in range(panels)]
    terms, factors = [given.address("matrix", p) for p in column], [given.address("scalars", r) for r in row]
    totals = [[given.address("total", r, p) for p in column] for r in row]
    sums = [[cgutils.alloca_once_value(builder, given.load(total, _VECTOR)) for total in of_row] for of_row in totals]
    with cgutils.for_range(builder, given.end, given.begin) as loop:
        pick = given.load(given.address("picks", loop.index), _INDEX)
        _add_term(builder, given, pick, terms, factors, sums, finish)
    left = [_store_row(builder, *of_row, given.mixed) for of_row in zip(totals, sums, strict=True)]
    return reduce(builder.or_, (builder.shl(bit, _number(r)) for r, bit in enumerate(left)))


def _kernel(rows: int, panels: int, finish=lambda builder, z: z):
    """Make a function of compiled code that adds terms to `rows` × `panels` vectors of sums.

    It takes ``(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)``. For each s of
    ``picks[begin:end]``, in this order, and each n of ``chosen[at : at + rows]``, it adds
    ``matrix[panel + p, s] * scalars[n, s]`` to ``total[n, panel + p]``. Products and sums pass through `finish`.

    total : array, float32, (N, panels of it, WIDTH)
    chosen, picks : arrays, int64
    matrix : array, float32, (panels of it, terms, WIDTH)
    scalars : array, float32, (N, terms)
    mixed : bool            whether some of these scalars are zeros, whose products must not be added

    A product with zero changes nothing but the sign of a sum that is zero. So where `mixed`, a row in which a sum ends
    as zero keeps the sums that it had. The result tells which rows do: bit r is row ``chosen[at + r]``.
    """

    @intrinsic
    def kernel(typing_context, total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed):
        index = types.intp
        signature = index(total, chosen, index, matrix, index, scalars, picks, index, index, types.boolean)

        def generate(context, builder, signature, values):
            given = _Arguments(context, builder, signature, values)
            return _add_terms(builder, given, rows, panels, finish)

        return signature, generate

    return kernel


add_any = _kernel(1, 1, _flushed)
"""Add to the sums of one row in one panel, every product and every sum flushed, infinities and NaNs as they come."""
_most_flushing = _kernel(ROWS, 1, _flushed_number)
_wide = {rows: _kernel(rows, side) for rows, side in zip((ROWS, 4, 2, 1), (SIDE, *SIDES), strict=True)}
_narrow = {rows: _kernel(rows, 1) for rows in _wide}
_most, _most_narrow = _wide[ROWS], _narrow[ROWS]
_four, _four_narrow, _two, _two_narrow, _one, _one_narrow = (
    kernels[rows] for rows in (4, 2, 1) for kernels in (_wide, _narrow)
)
_OF_FOUR, _OF_TWO, _OF_ONE = SIDES


@njit(nogil=True)
def side_of(rows):
    """Give how many panels :func:`add_tile` adds to if `wide`; `rows` is ``ROWS``, 4, 2 or 1."""
    if rows == ROWS:
        return SIDE
    return _OF_FOUR if rows == 4 else (_OF_TWO if rows == 2 else _OF_ONE)


@njit(nogil=True)
def add_tile(total, chosen, at, rows, matrix, panel, wide, scalars, picks, begin, end, mixed):
    """Add to the sums of ``ROWS``, 4, 2 or 1 rows, in one panel or, if `wide`, several: see :func:`_kernel`."""
    if rows == ROWS:
        if wide:
            return _most(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
        return _most_narrow(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
    if rows == 4:
        if wide:
            return _four(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
        return _four_narrow(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
    if rows == 2:
        if wide:
            return _two(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
        return _two_narrow(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
    if wide:
        return _one(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
    return _one_narrow(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)


@njit(nogil=True)
def add_flushing(total, chosen, at, rows, matrix, panel, scalars, picks, begin, end, mixed):
    """Do what :func:`add_tile` does in one panel, every product and every sum flushed. None may be a NaN."""
    if rows == ROWS:
        return _most_flushing(total, chosen, at, matrix, panel, scalars, picks, begin, end, mixed)
    left = 0
    for r in range(rows):
        left |= add_any(total, chosen, at + r, matrix, panel, scalars, picks, begin, end, mixed) << r
    return left
