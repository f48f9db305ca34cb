"""The inner loop of the MAC sums, as vector instructions: a block of sums stays in registers over all of its terms.

Every sum has a place of its own in a vector, and its terms come one after the other. Multiply and add are separate
instructions. LLVM must not fuse or reorder them: no instruction has a fast-math flag. A vector of ``WIDTH`` elements is
one register of AVX-512, two of AVX2, or four of SSE and NEON.
"""

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 16  # sums of a panel
_AVX512 = get_host_cpu_features().get("avx512f")
ROWS, SIDE = (8, 2) if _AVX512 else (6, 1)  # rows and panels of a tile: registers are left for the operands
PANELS = 4  # of a strip: enough independent sums to hide the latency of an addition

_FLOAT, _INDEX = ir.FloatType(), ir.IntType(64)
_WORDS = ir.VectorType(ir.IntType(32), WIDTH)
_VECTOR = ir.VectorType(_FLOAT, WIDTH)
_NAN_WORD, _SIGN, _SMALLEST = 0x7FC0_0000, 0x8000_0000, float(np.float32(2.0**-126))


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
    small = builder.fcmp_ordered("<", size, _constant(_SMALLEST))
    flushed = builder.select(small, builder.bitcast(sign, _VECTOR), z)
    nan = builder.bitcast(ir.Constant(_WORDS, [_NAN_WORD] * WIDTH), _VECTOR)
    return builder.select(builder.fcmp_unordered("uno", z, z), nan, flushed)


def _kernel(rows: int, panels: int, flushing: bool):
    """Make a function of compiled code that adds terms to `rows` × `panels` vectors of sums.

    It takes ``(total, n, matrix, panel, scalars, picks, count)``. For each s of ``picks[:count]``, in this order, it
    adds ``matrix[panel + p, s] * scalars[n + r, s]`` to ``total[n + r, panel + p]``.

    total : array, float32, (N, panels of it, WIDTH)
    matrix : array, float32, (panels of it, terms, WIDTH)
    scalars : array, float32, (N, terms)
    picks : array, int64
    """

    @intrinsic
    def kernel(typing_context, total, n, matrix, panel, scalars, picks, count):
        signature = types.void(total, types.intp, matrix, types.intp, scalars, picks, types.intp)

        def generate(context, builder, signature, values):
            views = {
                name: cgutils.create_struct_proxy(signature.args[place])(context, builder, values[place])
                for name, place in (("total", 0), ("matrix", 2), ("scalars", 4), ("picks", 5))
            }

            def pointer(name, *indices):
                """Address an element of an array by its first indices."""
                view, address = views[name], builder.ptrtoint(views[name].data, _INDEX)
                strides = cgutils.unpack_tuple(builder, view.strides)
                for index, stride in zip(indices, strides, strict=False):
                    address = builder.add(address, builder.mul(index, stride))
                return address

            def load(address, kind):
                value = builder.load(builder.inttoptr(address, kind.as_pointer()))
                value.align = 4
                return value

            number = lambda value: ir.Constant(_INDEX, value)  # noqa: E731
            row = [builder.add(values[1], number(r)) for r in range(rows)]
            column = [builder.add(values[3], number(p)) for p in range(panels)]
            places = [pointer("total", r, p) for r in row for p in column]
            terms, factors = [pointer("matrix", p) for p in column], [pointer("scalars", r) for r in row]
            sums = [cgutils.alloca_once_value(builder, load(place, _VECTOR)) for place in places]
            with cgutils.for_range(builder, values[6]) as loop:
                pick = builder.load(builder.gep(views["picks"].data, [loop.index]))
                ahead = builder.mul(pick, number(4 * WIDTH))
                vectors = [load(builder.add(term, ahead), _VECTOR) for term in terms]
                for r, factor in enumerate(factors):
                    x = _splat(builder, load(builder.add(factor, builder.mul(pick, number(4))), _FLOAT))
                    for p, vector in enumerate(vectors):
                        place, product = sums[r * panels + p], builder.fmul(vector, x)
                        product = _flushed(builder, product) if flushing else product
                        result = builder.fadd(builder.load(place), product)
                        builder.store(_flushed(builder, result) if flushing else result, place)
            for place, held in zip(places, sums, strict=True):
                builder.store(builder.load(held), builder.inttoptr(place, _VECTOR.as_pointer())).align = 4
            return context.get_dummy_value()

        return signature, generate

    return kernel


add_tile = _kernel(ROWS, SIDE, False)
"""Add to the sums of ``ROWS`` rows in ``SIDE`` panels."""
add_column = _kernel(ROWS, 1, False)
"""Add to the sums of ``ROWS`` rows in one panel."""
add_strip = _kernel(1, PANELS, False)
"""Add to the sums of one row in ``PANELS`` panels."""
add_vector = _kernel(1, 1, False)
"""Add to the sums of one row in one panel."""
add_flushing = _kernel(1, 1, True)
"""Do the same with every product and every sum flushed."""
