"""Sums and comparisons of a few bits, made of LUTs alone.

A carry chain is entered and left by a LUT, and takes time of its own. Below about six bits, logic is faster.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value


def narrow_sum(m: Module, a: Value, b: Value, *, name: str) -> Signal:
    """Add two unsigned numbers.

    Returns
    -------
    Signal, one bit wider than the wider one
    """
    total, carry = [], Const(0)
    for n, (one, other) in enumerate(_bits(a, b)):
        total.append(one ^ other ^ carry)
        following = Signal(name=f"{name}_carry{n}")  # a signal for each bit: simulators see no loop then
        m.d.comb += following.eq((one & other) | ((one | other) & carry))
        carry = following
    result = Signal(len(total) + 1, name=name)
    m.d.comb += result.eq(Cat(*total, carry))
    return result


def narrow_at_most(m: Module, a: Value, b: Value, *, name: str) -> Value:
    """Tell whether unsigned `a` is at most `b`."""
    above = Const(0)  # by the bits so far, from the lowest on
    for n, (one, other) in enumerate(_bits(a, b)):
        so_far = Signal(name=f"{name}_above{n}")
        m.d.comb += so_far.eq(Mux(one ^ other, one, above))
        above = so_far
    return ~above


def ones(m: Module, bits: Value, *, name: str) -> Value:
    """Count the bits that are set, in halves."""
    if len(bits) <= 1:
        return bits if len(bits) else Const(0, 1)
    half = len(bits) // 2
    lower, upper = (ones(m, part, name=f"{name}_{n}") for n, part in enumerate((bits[:half], bits[half:])))
    return narrow_sum(m, lower, upper, name=name)


def _bits(a: Value, b: Value):
    """Pair the bits of two numbers; zeros extend the narrower one."""
    width = max(len(a), len(b))
    return zip(Cat(a, Const(0, width - len(a))), Cat(b, Const(0, width - len(b))), strict=True)
