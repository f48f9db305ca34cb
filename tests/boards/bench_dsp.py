"""cocotb bench of a DSP slice beside the portable PE: equal in every cycle, and what Python's integers give."""

import random
from collections import deque

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.widths import CHUNK, FIELD_BITS

CYCLES = 4000
NUMBERS = (-127, 0, 127, None)  # None: any


def number(generator):
    """An operand; often one of the largest."""
    chosen = generator.choice(NUMBERS)
    return generator.randint(-127, 127) if chosen is None else chosen


@cocotb.test(timeout_time=1, timeout_unit="ms")
async def gives_the_sums_of_every_chunk(dut):
    """Chunks of 1 to CHUNK products, one after the other."""
    generator = random.Random(cocotb.RANDOM_SEED)
    Clock(dut.clk, 4, "ns").start()
    await RisingEdge(dut.clk)
    begins = deque([0] * IntegerPE.BEGINS)
    expected = deque([None] * IntegerPE.LATENCY)
    low = high = left = 0
    checked = 0
    for _ in range(CYCLES):
        begins.append(not left)
        if not left:
            low, high, left = 0, 0, generator.randint(1, CHUNK)
        operands = {name: number(generator) for name in ("low", "high", "scalar")}
        left -= 1
        low, high = (total + operands["scalar"] * operands[name] for name, total in (("low", low), ("high", high)))
        expected.append((low + (high << FIELD_BITS)) % (1 << 2 * FIELD_BITS))
        for name, value in operands.items():
            getattr(dut, name).value = value
        dut.begins.value = begins.popleft()
        await RisingEdge(dut.clk)
        wanted = expected.popleft()
        if wanted is not None:
            found = int(dut.sums.value), int(dut.portable.value)
            assert found == (wanted, wanted)
            checked += 1
    assert checked > CYCLES // 2
