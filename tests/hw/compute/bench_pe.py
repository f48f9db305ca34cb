"""cocotb bench of PEArray with the machine's multiplier and adder: random operations against golden, bit for bit."""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import RisingEdge

from etalstm.golden.arithmetic import add, multiply
from etalstm_hw.compute.pe import Operation, Output
from tests.hw.stimulus import bits, words

LANES = int(os.environ["LANES"])
CYCLES, SEED = 400, 11
PRODUCT_CYCLES, SUM_CYCLES = 4, 9  # one for the operands, three for a product, five for a sum
SIGN, MINUS_ZERO = np.uint32(1 << 31), np.uint32(1 << 31)
OPERATIONS = {
    "mac": {"mac": 1},
    "started": {"mac": 1, "begins": 1},
    "biased": {"mac": 1, "begins": 1, "biased": 1},
    "empty": {"mac": 1, "empty": 1},
    "neither": {"mac": 1, "empty": 1, "begins": 1},
    "mul": {"multiply": 1},
    "add": {},
    "sub": {"subtract": 1},
    "passed": {"empty": 1},
}
CODES = {name: Operation().const(control).as_bits() for name, control in OPERATIONS.items()}


def packed(row):
    """The vector of a row of words."""
    return int.from_bytes(row.astype("<u4").tobytes(), "little")


def results(name, w):
    """What golden makes of the words of a cycle, one result per lane."""
    return {
        "mac": lambda: bits(add, bits(multiply, w["weight"], w["scalar"]), w["partial"]),
        "started": lambda: bits(multiply, w["weight"], w["scalar"]),
        "biased": lambda: bits(add, bits(multiply, w["weight"], w["scalar"]), w["bias"]),
        "empty": lambda: bits(add, np.full(LANES, MINUS_ZERO), w["partial"]),
        "neither": lambda: np.zeros(LANES, np.uint32),
        "mul": lambda: bits(multiply, w["a"], w["b"]),
        "add": lambda: bits(add, w["a"], w["b"]),
        "sub": lambda: bits(add, w["a"], w["b"] ^ SIGN),
        "passed": lambda: bits(add, np.full(LANES, MINUS_ZERO), w["b"]),
    }[name]()


def schedule(names, idle, seed):
    """Operands and code of every cycle, and what must be seen when: {(cycle, port): (name, cycle of issue, words)}.

    Operands of idle cycles are random too.
    """
    generator, cycles, due = random.Random(seed), [], {}
    for cycle in range(CYCLES):
        w = {name: words(generator, LANES) for name in ("weight", "partial", "bias", "a", "b")}
        w["scalar"] = words(generator, 1)
        name = None if generator.random() < idle else generator.choice(names)
        cycles.append((CODES[name] if name else 0, {word: packed(row) for word, row in w.items()}))
        if name == "mul":
            due[cycle + PRODUCT_CYCLES, "product"] = name, cycle, results(name, w)
        elif name:
            due[cycle + SUM_CYCLES, "sum"] = name, cycle, results(name, w)
    return cycles, due


@cocotb.test(timeout_time=1, timeout_unit="ms")
@cocotb.parametrize(idle=[0.0, 0.5, 0.9], names=[[name] for name in OPERATIONS] + [list(OPERATIONS)])
async def gives_golden_words_in_their_cycle(dut, idle, names):
    """Every result of every lane is golden's and comes exactly when promised, whatever is issued around it."""
    dut._log.info(f"seed {SEED}")
    cycles, due = schedule(names, idle, SEED)
    checked = 0
    Clock(dut.clk, 4, "ns").start()
    await RisingEdge(dut.clk)
    for cycle in range(CYCLES + SUM_CYCLES):
        if cycle < CYCLES:
            dut.operation.value = cycles[cycle][0]
            for word, value in cycles[cycle][1].items():
                getattr(dut, word).value = value
        dut.output_select.value = (Output.PRODUCT if (cycle, "product") in due else Output.SUM).value
        await RisingEdge(dut.clk)
        for port in ("sum", "product"):
            if (cycle, port) not in due:
                continue
            name, issued, expected = due[cycle, port]
            actual = int((dut.sum if port == "sum" else dut.result).value)
            checked += 1
            if actual != packed(expected):
                got = [actual >> 32 * n & 0xFFFFFFFF for n in range(LANES)]
                lane = next(n for n in range(LANES) if got[n] != expected[n])
                raise AssertionError(
                    f"{name} of cycle {issued}, {port} of lane {lane} in cycle {cycle}: "
                    f"{got[lane]:#010x}, expected {expected[lane]:#010x}"
                )
    assert checked == len(due) > 20
