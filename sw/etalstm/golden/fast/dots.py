"""Sums of products of int16: ``dots.c`` where there is a compiler, else loops with the same integers.

The functions are for compiled loops, which run without the interpreter's lock.
"""

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from etalstm.host.crew import CREW
from etalstm.host.native import library

COLUMNS = 16  # of a panel
WIDTH = 4 * COLUMNS  # columns of a matrix are filled up to a multiple
SPARSE = 0.25  # at a smaller share of nonzero numbers the zeros are left out one by one
COPIED = 2  # copying a number takes as long as so many products, see Crew.run
FEW = 16  # pairs in an int32, as of numbers of 16 bits: with fewer a number's two bytes are multiplied one by one
OF_BYTES = (1 << 31) // (2 << 7 + 15) - 1  # pairs of products of a byte with a number of 16 bits in an int32
_INT32 = 1 << 31


class Factor(NamedTuple):
    """A matrix (K, N) of int16 as products read it: K filled up to a multiple of 2, N to one of ``WIDTH``.

    `rows` is the matrix, (K', N'), and `panels` the same in panels, (N'/16, K'/2, 16, 2).
    """

    rows: np.ndarray
    panels: np.ndarray


def factor_of(*parts: np.ndarray) -> Factor:
    """Copy a matrix (K, N) of int16, or several beside each other."""
    terms, columns = padded(len(parts[0])), -(-sum(part.shape[1] for part in parts) // WIDTH) * WIDTH
    rows, first = np.zeros((terms, columns), np.int16), 0
    for part in parts:
        copy(part, rows[: len(part), first : first + part.shape[1]])
        first += part.shape[1]
    panels = np.empty((columns // COLUMNS, terms // 2, COLUMNS, 2), np.int16)
    compiled = _library()
    if compiled is None:
        panels[:] = rows.reshape(terms // 2, 2, -1, COLUMNS).transpose(2, 0, 3, 1)
    else:
        CREW.run(len(panels), rows.size * COPIED, lambda begin, end: compiled.fill_panels(
            _at(rows, 0, COLUMNS * begin), columns, terms, COLUMNS * (end - begin), _at(panels, begin)))  # fmt: skip
    return Factor(rows, panels)


def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy a matrix of int16, which may be a transposed one, into rows in C order."""
    compiled = _library()
    if compiled is None or source.strides[1] == source.itemsize:
        target[:] = source
        return
    from_row, to_row = source.strides[1] // source.itemsize, target.strides[0] // target.itemsize
    CREW.run(source.shape[1], source.size * COPIED, lambda begin, end: compiled.turn(
        _at(source, 0, begin), from_row, end - begin, len(source), _at(target, 0, begin), to_row))  # fmt: skip


def _at(array: np.ndarray, *index: int) -> int:
    """Give the address of an element."""
    return array.ctypes.data + sum(n * stride for n, stride in zip(index, array.strides, strict=False))


def padded(count: int) -> int:
    """Give the even number that a count of terms is filled up to."""
    return count + (count & 1)


class Kind(NamedTuple):
    """How sums are added: in integers of the type of `zero`, int32 or, if it is `wide`, int64.

    `limit` is the number of pairs of products that an int32 holds.
    """

    zero: np.signedinteger
    wide: bool
    limit: int


def kind_of(terms: int, largest_product: int) -> Kind:
    """Give the kind of sums of so many terms."""
    wide = terms * largest_product >= _INT32
    return Kind(np.int64(0) if wide else np.int32(0), wide, max(1, (_INT32 - 1) // (2 * largest_product)))


class Addresses(NamedTuple):
    """Where the functions of ``dots.c`` are; zeros where there is no compiler."""

    dense: int = 0
    sparse: int = 0


@cache
def _library() -> ctypes.CDLL | None:
    """Compile ``dots.c`` at its first use; None if it cannot be compiled."""
    found = library(Path(__file__).with_name("dots.c"))
    if found is not None:
        found.turn.argtypes, found.fill_panels.argtypes = [ctypes.c_long] * 6, [ctypes.c_long] * 5
    return found


@cache
def addresses() -> Addresses:
    """Give the addresses of what compiled loops call."""
    found = _library()
    return (
        Addresses(0, 0) if found is None else Addresses(*map(_address, (found.add_products, found.add_sparse_products)))
    )


def _address(function) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _calling(typingctx, address, arguments):
    """Call a C function without a result at an address; all arguments are of 64 bits."""

    def generate(context, builder, signature, given):
        word = ir.IntType(64)
        words = [builder.extract_value(given[1], n) for n in range(len(signature.args[1]))]
        function = ir.FunctionType(ir.VoidType(), [word] * len(words))
        builder.call(builder.inttoptr(given[0], function.as_pointer()), words)
        return context.get_dummy_value()

    return types.void(address, arguments), generate


_call: Any = intrinsic(_calling)


@njit(nogil=True, cache=True)
def add_products(places, kind, a, factor, sums, numbers):
    """Add ``a @ factor`` to sums: a (M, K') of int16, C order, sums (M, N') of int32, or of int64 if the kind is wide.

    `numbers`, int64, has room for K' numbers.
    """
    if not places.dense:
        _add_in_loops(a, factor, sums)
    elif kind.limit < FEW:  # a = 256 * high + low, with both from -128 to 128
        low = ((a + np.int16(128)) & np.int16(255)) - np.int16(128)
        high = (a.astype(np.int32) - low) >> 8
        of_high = np.zeros_like(sums)
        _add(places, kind.wide, OF_BYTES, high.astype(np.int16), factor, of_high, numbers)
        sums += of_high << 8
        _add(places, kind.wide, OF_BYTES, low.astype(np.int16), factor, sums, numbers)
    else:
        _add(places, kind.wide, kind.limit, a, factor, sums, numbers)


@njit(nogil=True, cache=True)
def _add_in_loops(a, factor, sums):
    for m in range(a.shape[0]):
        for k in range(a.shape[1]):
            if a[m, k]:
                for n in range(factor.rows.shape[1]):
                    sums[m, n] += np.int64(a[m, k]) * np.int64(factor.rows[k, n])


@njit(nogil=True, cache=True)
def _add(places, is_wide, limit, a, factor, sums, numbers):
    (rows, terms), columns = a.shape, factor.rows.shape[1]
    place = np.int64(sums.ctypes.data)
    wide, narrow = (place, np.int64(0)) if is_wide else (np.int64(0), place)
    if np.count_nonzero(a) < SPARSE * a.size:
        _call(
            places.sparse,
            (a.ctypes.data, terms, rows, factor.rows.ctypes.data, terms, columns, limit, wide, narrow, columns,
             numbers.ctypes.data),
        )  # fmt: skip
    else:
        _call(
            places.dense,
            (a.ctypes.data, terms, rows, factor.panels.ctypes.data, terms // 2, columns // COLUMNS, limit, wide,
             narrow, columns),
        )  # fmt: skip
