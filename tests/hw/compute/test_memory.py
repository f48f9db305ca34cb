"""Deep memories say what RAM they are; those of ultra RAM have a form that it has."""

import re
from dataclasses import replace

import pytest
from amaranth.sim import Simulator

from etalstm_hw import generate
from etalstm_hw.compute.memory import DEEPEST_BLOCK_RAM, BeatMemory
from etalstm_hw.config import preset
from etalstm_hw.contract import BINARY32
from etalstm_hw.stream import vector_layout

DECLARED = re.compile(r"^((?:  \(\*.*\*\)\n)*)  reg \[\d+:0\] (\S+) \[(\d+):0\];", re.MULTILINE)
# As deep as the board's, but smaller; and its sums are as deep as they may be.
BOARD = replace(preset("vcu128"), channels=2, lanes=8, broadcasters=1, queue_depth=4096)
INTEGERS = replace(preset("slice-int8"), channels=2, integer_streams=2)


def modules(config):
    """The Verilog of everything that has memories, by module."""
    text = generate.verilog(config)
    return re.findall(r"^module .*?^endmodule", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("config", [BOARD, INTEGERS], ids=["float32", "int8"])
def test_every_deep_memory_asks_for_a_kind_of_ram_and_ultra_ram_is_written_in_whole_words(config):
    deep = 0
    for module in modules(config):
        for attributes, name, last in DECLARED.findall(module):
            ultra = 'ram_style = "ultra"' in attributes
            asks = "ram_style = " in attributes
            assert asks or int(last) < DEEPEST_BLOCK_RAM, f"{module[:40]}: {name} of {int(last) + 1} words"
            parts = re.findall(rf"{re.escape(name)}\[[^<]*\]\[\d+:\d+\] <=", module)
            assert not (ultra and parts), f"{module[:40]}: {name} is written in parts: {parts[:2]}"
            deep += ultra
    assert deep > 0


def test_the_port_that_writes_keeps_what_it_has_read():
    dut = BeatMemory(vector_layout(BINARY32, 4), 2, 64, reads=2)

    async def bench(context):
        context.set(dut.write.en, 0b11)
        for side, value in enumerate((5, 6)):
            context.set(dut.taken, 1 << side)
            context.set(dut.write.addr, side)
            context.set(dut.write.data, [value] * 4)
            await context.tick()
        context.set(dut.write.en, 0)
        context.set(dut.taken, 0)
        for port, address in ((dut.read, 0), (dut.second, 1)):
            context.set(port.addr, address)
            context.set(port.en, 1)
        await context.tick()
        context.set(dut.write.en, 0b01)
        context.set(dut.taken, 0b01)
        context.set(dut.read.addr, 1)
        await context.tick()
        assert (context.get(dut.read.data[3]), context.get(dut.second.data[3])) == (5, 6)

    simulator = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
