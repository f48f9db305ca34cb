"""Runs the cocotb bench of a card's shell around small machines."""

from pathlib import Path

import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from etalstm_boards.axi3 import ADDRESS_BITS, AXI3, DATA_BITS, ID_BITS, connect_port
from etalstm_boards.card import ACCELERATOR
from etalstm_boards.shell import Shell
from etalstm_hw import generate
from etalstm_hw.axi.axi import AXI4
from etalstm_hw.generate import Instanced
from etalstm_hw.machine.top import top_signature
from etalstm_sim.benches.bench import run_bench
from tests.boards.machines import MACHINE, MACHINES


class Observed(wiring.Component):
    """A shell whose memory ports have the eight bits of length that the memory model insists on; four are used."""

    def __init__(self, shell):
        self._shell = shell
        super().__init__({name: self._wide(member) for name, member in shell.signature.members.items()})

    @staticmethod
    def _wide(member):
        if not (member.is_signature and isinstance(member.signature, AXI3)):
            return member
        return Out(AXI4(ADDRESS_BITS, DATA_BITS, ID_BITS))

    def elaborate(self, platform):
        m = Module()
        m.submodules.shell = shell = self._shell
        for name, member in self.signature.members.items():
            mine, inner = getattr(self, name), getattr(shell, name)
            if not member.is_signature:
                m.d.comb += mine.eq(inner) if member.flow is Out else inner.eq(mine)
            elif member.flow is In:
                connect(m, flipped(mine), inner)
            else:
                connect_port(m, mine, inner)
        return m


@pytest.mark.parametrize("name", MACHINES)
def test_shell(tmp_path, name):
    config, ports = MACHINES[name]
    shell = Shell(ports, Instanced(ACCELERATOR, top_signature(config)))
    source = generate.component_verilog(Observed(shell), "card") + generate.verilog(config, ACCELERATOR)
    bench = Path(__file__).with_name("bench_shell.py")
    run_bench(source, "card", bench, tmp_path, environment={MACHINE: name})
