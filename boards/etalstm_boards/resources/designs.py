"""The Verilog of what is counted: a machine, alone or with the logic around it on a card."""

from etalstm_boards.dsp import DSP48E2PE
from etalstm_boards.ports import port_map
from etalstm_boards.shell import Shell
from etalstm_hw import generate
from etalstm_hw.config import Config
from etalstm_hw.machine.top import top_signature

MACHINE, SHELL = "top", "shell"  # outermost modules


def machine(config: Config) -> str:
    """Give the Verilog of a machine with the part's primitives; its outermost module is :data:`MACHINE`."""
    return generate.verilog(config, MACHINE, integer_pe=DSP48E2PE)


def on_card(config: Config) -> str:
    """Give the Verilog of a machine and of the shell around it; the outermost module is :data:`SHELL`.

    The vendor's controllers, and what reads their counters and writes to the console, are not in it. ``ValueError`` if
    the machine's memory ports are not those of a card.
    """
    ports = port_map(config)
    stand_in = generate.Instanced(MACHINE, top_signature(config))
    return f"{generate.component_verilog(Shell(ports, stand_in), SHELL)}\n{machine(config)}"
