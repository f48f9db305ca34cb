"""Element-wise operations on named vectors, written as equations."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from etalstm_hw.contract import VectorOp

CONSTANTS = ("0", "-0", "1")
"""Operands that are numbers; every other name is a vector."""

CONDITIONAL = (VectorOp.SELECT, VectorOp.ADD_POSITIVE)
"""Operations that write only some elements; the others are +0."""

_BINARY = {"*": VectorOp.MULTIPLY, "+": VectorOp.ADD, "-": VectorOp.SUBTRACT}
_UNARY = {"sigmoid": VectorOp.SIGMOID, "tanh": VectorOp.TANH}
_RELU = "relu"
_NAME = r"([a-z_]\w*|[01])"
_EQUATION = re.compile(
    rf"([a-z_]\w*) = (?:{_NAME} ([*+-]) {_NAME}|(\w+)\({_NAME}\)|{_NAME} where {_NAME})", re.IGNORECASE
)


@dataclass(frozen=True)
class Operation:
    """One operation on every element of one or two operands, vectors by name or ``CONSTANTS``.

    The result `d` is rounded once. Elements that ``SELECT`` and ``ADD_POSITIVE`` do not write are +0.
    """

    op: VectorOp
    d: str
    operands: tuple[str, ...]


def equations(text: str) -> tuple[Operation, ...]:
    """Read operations, one on each line.

    They are ``d = a * b`` (or +, -), ``d = sigmoid(a)``, ``d = tanh(a)``, ``d = relu(a)``, and ``d = b where a``: b
    where a is not 0, else +0. The ``ValueError`` gives the line that is no such equation.
    """
    return tuple(_equation(line.strip()) for line in text.splitlines() if line.strip())


def _equation(line: str) -> Operation:
    match = _EQUATION.fullmatch(line)
    if not match or (match[5] and match[5] not in (*_UNARY, _RELU)):
        raise ValueError(f"expected an equation such as 'd = a * b' or 'd = tanh(a)', got {line!r}")
    d, a, sign, b, function, x, chosen, condition = match.groups()
    if chosen:
        return Operation(VectorOp.SELECT, d, (condition, chosen))
    if function == _RELU:
        return Operation(VectorOp.ADD_POSITIVE, d, (x, "-0"))
    return Operation(_UNARY[function], d, (x,)) if function else Operation(_BINARY[sign], d, (a, b))


def reads(operations: tuple[Operation, ...]) -> frozenset[str]:
    """Give the inputs of operations: the vectors that are read before they are written."""
    written, found = set(CONSTANTS), set()
    for operation in operations:
        found |= set(operation.operands) - written
        written.add(operation.d)
    return frozenset(found)


Bounds = tuple[float, float]
ANY: Bounds = (-math.inf, math.inf)
_OF_FUNCTION: dict[VectorOp, Bounds] = {VectorOp.SIGMOID: (0.0, 1.0), VectorOp.TANH: (-1.0, 1.0)}


def bounds(operations: tuple[Operation, ...]) -> dict[str, Bounds]:
    """Give bounds of the last result of each name, for any inputs. The same element may be anything in two operands."""
    found: dict[str, Bounds] = {"0": (0.0, 0.0), "-0": (0.0, 0.0), "1": (1.0, 1.0)}
    for operation in operations:
        found[operation.d] = _bounds(operation.op, [found.get(name, ANY) for name in operation.operands])
    return found


def _bounds(op: VectorOp, operands: list[Bounds]) -> Bounds:
    if op in _OF_FUNCTION:
        return _OF_FUNCTION[op]
    (a, b), (c, d) = operands
    if op == VectorOp.MULTIPLY:
        products = [0.0 if 0 in pair else math.prod(pair) for pair in ((a, c), (a, d), (b, c), (b, d))]
        return min(products), max(products)
    if op == VectorOp.SUBTRACT:
        return a - d, b - c
    if op == VectorOp.SELECT:
        return min(0.0, c), max(0.0, d)
    if op == VectorOp.ADD:
        return a + c, b + d
    return min(0.0, max(0.0, a) + c), max(0.0, b + d)  # the sum where the first operand is above 0, else 0


def split_after(
    operations: tuple[Operation, ...], names: Collection[str]
) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """Split operations after the last one that writes one of `names`."""
    last = max((n for n, operation in enumerate(operations) if operation.d in names), default=-1)
    return operations[: last + 1], operations[last + 1 :]
