"""Sums and comparisons of a few bits, over all their operands."""

import pytest
from amaranth.hdl import C, Module, Signal
from amaranth.sim import Simulator

from etalstm_hw.narrow import narrow_at_most, narrow_sum, ones


def _results(result, *widths):
    """Give the results of a function of signals for all values of these, the last operand fastest."""
    m, found = Module(), []
    operands = [Signal(width) for width in widths]
    outcome = result(m, *operands)

    async def drive(ctx):
        for number in range(1 << sum(widths)):
            for operand in reversed(operands):
                ctx.set(operand, number & ((1 << len(operand)) - 1))
                number >>= len(operand)
            found.append(ctx.get(outcome))

    simulator = Simulator(m)
    simulator.add_testbench(drive)
    simulator.run()
    return found


@pytest.mark.parametrize("widths", [(1, 1), (3, 3), (2, 4), (4, 1)])
def test_adds_any_two_numbers(widths):
    found = _results(lambda m, a, b: narrow_sum(m, a, b, name="sum"), *widths)
    assert found == [a + b for a in range(1 << widths[0]) for b in range(1 << widths[1])]


@pytest.mark.parametrize("widths", [(1, 1), (3, 3), (2, 4), (4, 1)])
def test_compares_any_two_numbers(widths):
    found = _results(lambda m, a, b: narrow_at_most(m, a, b, name="compared") & C(1), *widths)
    assert found == [a <= b for a in range(1 << widths[0]) for b in range(1 << widths[1])]


@pytest.mark.parametrize("width", [1, 2, 5, 8])
def test_counts_the_bits_that_are_set(width):
    found = _results(lambda m, bits: ones(m, bits, name="count"), width)
    assert found == [number.bit_count() for number in range(1 << width)]
