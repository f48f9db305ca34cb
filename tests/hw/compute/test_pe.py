"""The PEs: routing, over units that are no arithmetic and so tell every word from every other; then golden words."""

import random
from pathlib import Path

import pytest
from amaranth.sim import Simulator

from etalstm_hw.compute.pe import OmniPE, Operation, Output, PEArray
from etalstm_hw.contract import BINARY32
from etalstm_sim.benches.bench import run_bench
from tests.hw.compute.compute import FORMAT, LANES, SIGN, WORDS, Unit, add, multiply

LATENCIES = {"product": 3, "sum": 7}
CONTROL = {
    "mul": {"multiply": 1},
    "add": {},
    "sub": {"subtract": 1},
    "passed": {"empty": 1},
    "mac": {"mac": 1},
    "empty": {"mac": 1, "empty": 1},
    "biased": {"mac": 1, "begins": 1, "biased": 1},
    "started": {"mac": 1, "begins": 1},
    "neither": {"mac": 1, "begins": 1, "empty": 1},
}


def expected(name, w):
    whole, mac = multiply(w["a"], FORMAT.one), multiply(w["weight"], w["scalar"])
    nothing = multiply(0, FORMAT.one | SIGN)
    return {
        "mul": multiply(w["a"], w["b"]),
        "add": add(whole, w["b"]),
        "sub": add(whole, w["b"] ^ SIGN),
        "passed": add(nothing, w["b"]),
        "mac": add(mac, w["partial"]),
        "empty": add(nothing, w["partial"]),
        "biased": add(mac, w["bias"]),
        "started": add(mac, FORMAT.minus_zero),
        "neither": add(nothing, 0),
    }[name]


def small_pe(format):
    return OmniPE(format, Unit(3, 5, 2), Unit(7, 11, 4))


@pytest.mark.parametrize("names", [[name] for name in CONTROL] + [list(CONTROL)])
def test_each_operation_has_its_operands_and_its_time(names):
    dut = PEArray(FORMAT, LANES, small_pe)
    assert (dut.multiply_latency, dut.add_latency) == (3, 7)
    generator, due = random.Random(7), {}

    async def bench(ctx):
        checked = 0
        for cycle in range(200):
            name = generator.choice(names)
            names_of_words = ("weight", "partial", "bias", "a", "b")
            words = {word: [generator.randrange(WORDS) for _ in range(LANES)] for word in names_of_words}
            scalar = generator.randrange(WORDS)
            ctx.set(dut.operation, dict.fromkeys(Operation().members, 0) | CONTROL[name])
            for word, values in words.items():
                ctx.set(getattr(dut, word), values)
            ctx.set(dut.scalar, scalar)
            lanes = [{word: words[word][n] for word in words} | {"scalar": scalar} for n in range(LANES)]
            port = "product" if name == "mul" else "sum"
            due[cycle + LATENCIES[port], port] = name, [expected(name, lane) for lane in lanes]
            await ctx.tick()
            for port, latency in LATENCIES.items():
                if (cycle + 1, port) in due:
                    name, values = due[cycle + 1, port]
                    ctx.set(dut.output_select, Output[port.upper()])
                    actual, issued = list(ctx.get(dut.result)), cycle + 1 - latency
                    assert actual == values, f"{name} of cycle {issued}: {actual}, expected {values}"
                    if port == "sum":
                        assert list(ctx.get(dut.sum)) == values, "the sums do not get what the output MUX does"
                    checked += 1
        assert checked > 180

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.parametrize("name", ["activated", "outside"])
def test_the_output_mux_passes_words_of_others_in_their_cycle(name):
    dut = PEArray(FORMAT, LANES, small_pe)
    words = [random.Random(8).randrange(WORDS) for _ in range(LANES)]

    async def bench(ctx):
        ctx.set(dut.output_select, {"activated": Output.ACTIVATION, "outside": Output.OUTSIDE}[name])
        ctx.set(getattr(dut, name), words)
        assert list(ctx.get(dut.result)) == words

    simulator = Simulator(dut)
    simulator.add_testbench(bench)
    simulator.run()


def test_gives_golden_words(tmp_path):
    pes = PEArray(BINARY32, LANES, OmniPE.of)
    run_bench(pes, "pes", Path(__file__).with_name("bench_pe.py"), tmp_path, environment={"LANES": str(LANES)})
