"""Additions of a simulator for coverage: outputs that show what is dispatched, and counts of toggles.

Verilator counts the toggles of the control logic only. Left out are the modules of :data:`LEFT_OUT`, the signals that
Yosys has named itself, and signals wider than :data:`MOST_BITS`. These are beats, instructions and structures, and the
fields of a structure are signals too.
"""

import re

from etalstm_sim.compiled.registered import MODULE

MOST_BITS = 64
FLAGS = ("--coverage-toggle", "--coverage-max-width", str(MOST_BITS))
# Arithmetic, lane memories, packing and unpacking of words; and the module around the design, which has its ports.
LEFT_OUT = (
    MODULE,
    "adder",
    "multiplier",
    "pe",
    "activation",
    "integers",
    *(f"array.lane_{number}" for number in range(32)),
    "channel.compute.pes",
    "channel.compute.memories",
    "weights1",
    "weights2",
    "compressor",
    "decompressor",
    "packer",
    "unpacker",
    "selector",
    "transposer",
)
# Outputs that the outermost module gets, with what they show of the sequencer.
OUTPUTS = {
    "dispatched": "top.sequencer.o__valid & top.sequencer.o__ready",
    "halted": "top.sequencer.dispatch.halt",
}
_OFF, _ON = "/*verilator coverage_off*/", "/*verilator coverage_on*/"
MODULE_TEXT = re.compile(r"^module (\S+?) *\(.*?^endmodule", re.M | re.S)
_NAMED_BY_YOSYS = re.compile(r"^ +(?:wire|reg|input|output) [^\n]*\\?\$[^\n]*$", re.M)


def is_left_out(module: str) -> bool:
    """Tell whether toggles of a module, by its name in the Verilog, are not counted."""
    return any(f".{name}." in f".{module}." for name in LEFT_OUT)


def observed(verilog: str) -> str:
    """Give the Verilog with comments by which Verilator does not count some toggles."""

    def marked(match: re.Match) -> str:
        text, name = match[0], match[1].removeprefix("\\")
        if is_left_out(name):
            return f"{_OFF}\n{text}\n{_ON}"
        return _NAMED_BY_YOSYS.sub(lambda line: f"{_OFF} {line[0]} {_ON}", text)

    return MODULE_TEXT.sub(marked, verilog)
