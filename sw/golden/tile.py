"""The inner loop of the MAC sums, as vector instructions: a block of sums stays in registers over all of its terms.

Every sum has a place of its own in a vector, and its terms come one after the other. Multiply and add are separate
instructions. LLVM must not fuse or reorder them: no instruction has a fast-math flag. A vector of ``WIDTH`` elements is
one register of AVX-512, two of AVX2, or four of SSE and NEON.
"""

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from etalstm.golden.arithmetic import NAN, SMALLEST

WIDTH = 16  # sums of a panel
# Rows and panels of the largest tile, and of those of 4, 2 and 1 rows. So many vectors of sums hide the latency of an
# addition, and leave registers for the operands: there are 32 with AVX-512, else 16 of half the size.
ROWS, SIDE, SIDES = (8, 2, (4, 4, 8)) if get_host_cpu_features().get("avx512f") else (6, 1, (1, 3, 6))

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


def _flushed(builder, z):
    """Flush results: :func:`etalstm.golden.arithmetic.flush` of a vector."""
    words = builder.bitcast(z, _WORDS)
    sign = builder.and_(words, ir.Constant(_WORDS, [_SIGN] * WIDTH))
    size = builder.bitcast(builder.xor(words, sign), _VECTOR)
    small = builder.fcmp_ordered("<", size, _constant(float(SMALLEST)))
    flushed = builder.select(small, builder.bitcast(sign, _VECTOR), z)
    nan = builder.bitcast(ir.Constant(_WORDS, [int(NAN.view(np.uint32))] * WIDTH), _VECTOR)
    return builder.select(builder.fcmp_unordered("uno", z, z), nan, flushed)


def _kernel(rows: int, panels: int, flushing: bool = False):
    """Make a function of compiled code that adds terms to `rows` × `panels` vectors of sums.

    It takes ``(total, chosen, at, matrix, panel, scalars, picks, count)``. For each s of ``picks[:count]``, in this
    order, and each row n of ``chosen[at : at + rows]``, it adds ``matrix[panel + p, s] * scalars[n, s]`` to
    ``total[n, panel + p]``.

    total : array, float32, (N, panels of it, WIDTH)
    chosen, picks : arrays, int64
    matrix : array, float32, (panels of it, terms, WIDTH)
    scalars : array, float32, (N, terms)
    """

    @intrinsic
    def kernel(typing_context, total, chosen, at, matrix, panel, scalars, picks, count):
        signature = types.void(total, chosen, types.intp, matrix, types.intp, scalars, picks, types.intp)

        def generate(context, builder, signature, values):
            names = ("total", "chosen", "at", "matrix", "panel", "scalars", "picks", "count")
            given = dict(zip(names, values, strict=True))
            views = {
                name: cgutils.create_struct_proxy(kind)(context, builder, given[name])
                for name, kind in zip(names, signature.args, strict=True)
                if kind != types.intp
            }

            def address(name, *indices):
                """Address an element of an array by its first indices."""
                place = builder.ptrtoint(views[name].data, _INDEX)
                for index, stride in zip(indices, cgutils.unpack_tuple(builder, views[name].strides), strict=False):
                    place = builder.add(place, builder.mul(index, stride))
                return place

            def load(place, kind):
                value = builder.load(builder.inttoptr(place, kind.as_pointer()))
                value.align = 4
                return value

            number = lambda value: ir.Constant(_INDEX, value)  # noqa: E731
            row = [load(address("chosen", builder.add(given["at"], number(r))), _INDEX) for r in range(rows)]
            column = [builder.add(given["panel"], number(p)) for p in range(panels)]
            places = [address("total", r, p) for r in row for p in column]
            terms, factors = [address("matrix", p) for p in column], [address("scalars", r) for r in row]
            sums = [cgutils.alloca_once_value(builder, load(place, _VECTOR)) for place in places]
            with cgutils.for_range(builder, given["count"]) as loop:
                pick = load(address("picks", loop.index), _INDEX)
                ahead = builder.mul(pick, number(4 * WIDTH))
                vectors = [load(builder.add(term, ahead), _VECTOR) for term in terms]
                for r, factor in enumerate(factors):
                    x = _splat(builder, load(builder.add(factor, builder.mul(pick, number(4))), _FLOAT))
                    for place, vector in zip(sums[r * panels : (r + 1) * panels], vectors, strict=True):
                        product = builder.fmul(vector, x)
                        product = _flushed(builder, product) if flushing else product
                        result = builder.fadd(builder.load(place), product)
                        builder.store(_flushed(builder, result) if flushing else result, place)
            for place, held in zip(places, sums, strict=True):
                builder.store(builder.load(held), builder.inttoptr(place, _VECTOR.as_pointer())).align = 4
            return context.get_dummy_value()

        return signature, generate

    return kernel


add_flushing = _kernel(1, 1, flushing=True)
"""Add to the sums of one row in one panel, every product and every sum flushed."""
_wide = {rows: _kernel(rows, side) for rows, side in zip((ROWS, 4, 2, 1), (SIDE, *SIDES), strict=True)}
_narrow = {rows: _kernel(rows, 1) for rows in _wide}
_most, _most_narrow = _wide[ROWS], _narrow[ROWS]
_four, _four_narrow, _two, _two_narrow, _one, _one_narrow = (
    kernels[rows] for rows in (4, 2, 1) for kernels in (_wide, _narrow)
)
_OF_FOUR, _OF_TWO, _OF_ONE = SIDES


@njit(nogil=True)
def add_tile(total, chosen, at, matrix, scalars, picks, count):
    """Add to the sums of ``ROWS`` rows in all of at most ``SIDE`` panels."""
    if len(matrix) == SIDE:
        _most(total, chosen, at, matrix, 0, scalars, picks, count)
    else:
        _most_narrow(total, chosen, at, matrix, 0, scalars, picks, count)


@njit(nogil=True)
def add_rows(total, chosen, at, rows, matrix, scalars, picks, count):
    """Add to the sums of 4, 2 or 1 rows in all panels."""
    side = _OF_FOUR if rows == 4 else (_OF_TWO if rows == 2 else _OF_ONE)
    panel, panels = 0, len(matrix)
    while panel < panels:
        wide = panel + side <= panels
        if rows == 4:
            if wide:
                _four(total, chosen, at, matrix, panel, scalars, picks, count)
            else:
                _four_narrow(total, chosen, at, matrix, panel, scalars, picks, count)
        elif rows == 2:
            if wide:
                _two(total, chosen, at, matrix, panel, scalars, picks, count)
            else:
                _two_narrow(total, chosen, at, matrix, panel, scalars, picks, count)
        elif wide:
            _one(total, chosen, at, matrix, panel, scalars, picks, count)
        else:
            _one_narrow(total, chosen, at, matrix, panel, scalars, picks, count)
        panel += side if wide else 1
