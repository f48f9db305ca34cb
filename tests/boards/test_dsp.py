"""The PE of integers as a DSP slice against the portable one, the slice by a model of its own."""

from pathlib import Path

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from etalstm_boards.dsp import DSP48E2PE
from etalstm_hw.generate import component_verilog
from etalstm_hw.integer.pe import IntegerPE
from etalstm_sim.benches.bench import run_bench


class Both(wiring.Component):
    """A portable PE and a slice with the same operands."""

    def __init__(self):
        members = IntegerPE().signature.members
        super().__init__(dict(members) | {"portable": Out(members["sums"].shape)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.slice, m.submodules.portable = DSP48E2PE(), IntegerPE()
        for name in ("low", "high", "scalar", "begins"):
            for pe in (m.submodules.slice, m.submodules.portable):
                m.d.comb += getattr(pe, name).eq(getattr(self, name))
        m.d.comb += [self.sums.eq(m.submodules.slice.sums), self.portable.eq(m.submodules.portable.sums)]
        return m


def test_a_slice_has_the_sums_of_the_portable_pe(tmp_path):
    folder = Path(__file__).parent
    model = (folder / "dsp48e2.v").read_text(encoding="utf-8")
    run_bench(component_verilog(Both(), "both") + model, "both", folder / "bench_dsp.py", tmp_path)
