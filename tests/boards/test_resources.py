"""Small designs of which it is known what they take, through Yosys."""

import importlib.util
import os
import threading
from dataclasses import replace
from functools import partial

import pytest
from amaranth.hdl import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from etalstm_boards.axi3 import ADDRESS_BITS, DATA_BITS
from etalstm_boards.part import (
    OF_ACTIVATION,
    OF_COEFFICIENTS,
    OF_INTEGER_PE,
    OF_PE,
    OF_READER,
    XCVU37P,
    Resources,
    check_fit,
    estimate,
    of_channel,
)
from etalstm_boards.resources import synthesis
from etalstm_boards.resources.report import report
from etalstm_boards.resources.units import Hierarchy
from etalstm_hw import contract
from etalstm_hw.axi.reader import Reader
from etalstm_hw.compute.pe import OmniPE, PEArray
from etalstm_hw.config import preset
from etalstm_hw.contract import BINARY32
from etalstm_hw.fp.activation import READERS, Activation, Coefficients
from etalstm_hw.generate import component_verilog
from etalstm_hw.integer.memory import IntegerMemories
from etalstm_hw.machine.channel import make_weights


class Tally(wiring.Component):
    """Counts; a LUT and a carry chain are between its registers."""

    def __init__(self):
        super().__init__({"step": In(1), "count": Out(4)})

    def elaborate(self, platform):
        m = Module()
        with m.If(self.step):
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Mill(wiring.Component):
    """Five counters, a memory of each kind, and a product."""

    def __init__(self):
        super().__init__(
            {
                "address": In(12),
                "where": In(12),
                "data": In(64),
                "write": In(1),
                "a": In(17),
                "b": In(24),
                "counts": Out(20),
            }
            | {"product": Out(41), "small": Out(32), "block": Out(32), "ultra": Out(64)}
        )

    def elaborate(self, platform):
        m = Module()
        for n in range(5):
            m.submodules[f"tally_{n}"] = tally = Tally()
            m.d.comb += [tally.step.eq(self.a[n]), self.counts.word_select(n, 4).eq(tally.count)]
        for name, depth, width in (("small", 32, 32), ("block", 512, 32), ("ultra", 4096, 64)):
            m.submodules[name] = memory = Memory(shape=width, depth=depth, init=[])
            write, read = memory.write_port(), memory.read_port()
            m.d.comb += [write.addr.eq(self.address), write.data.eq(self.data), write.en.eq(self.write)]
            m.d.comb += [read.addr.eq(self.where[: len(read.addr)]), self[name].eq(read.data)]
        product = Signal(41, reset_less=True)
        m.d.sync += product.eq(self.a * self.b)
        m.d.comb += self.product.eq(product)
        return m

    def __getitem__(self, name):
        return getattr(self, name)


def test_counts_what_there_is(yosys):
    result = report(component_verilog(Mill()), "top")
    rows = {row.name: row for row in result.rows}
    assert rows["top.tally"].instances == 5
    assert rows["top.tally"].each.ff == 4
    assert rows["top.tally"].total.ff == 20
    assert rows["top.tally"].each.lut <= 5
    assert rows["top.tally"].deepest.levels == 2
    top = rows["top"].each
    assert (top.dsp, top.bram, top.uram) == (1, 0.5, 1)
    # Behind the asynchronous read of the distributed RAM; the product's are the DSP slice's. Eight LUTs hold 14 bits of
    # 32 words.
    assert top.ff == 32
    assert 16 <= top.lut <= rows["top"].unpaired <= 24
    assert {name.rpartition(".")[2]: kind for name, kind in rows["top"].memories.items()} == {
        "small": "LUTRAM_SDP",
        "block": "BLOCKRAM_SDP",
        "ultra": "URAM",
    }
    assert result.total == rows["top"].total + rows["top.tally"].total
    path = result.deepest.deepest
    assert (path.step.multipliers, path.step.chains, path.step.luts) == (1, 0, 0), "of a and b, up to the register"


class Accumulation(wiring.Component):
    """``c + (a + d) · b`` or ``c + a · b``, with registers before and after."""

    def __init__(self, adds_before: bool):
        self._adds_before = adds_before
        sizes = {"a": signed(24), "b": signed(18), "c": 44, "d": signed(24)}
        super().__init__({name: In(shape) for name, shape in sizes.items()} | {"sum": Out(44)})

    def elaborate(self, platform):
        m = Module()
        ports = self.a, self.b, self.d, self.sum
        a, b, d, total = (Signal.like(port, name=f"{port.name}_", reset_less=True) for port in ports)
        factor = a + d if self._adds_before else a
        m.d.sync += [a.eq(self.a), b.eq(self.b), d.eq(self.d), total.eq(self.c + factor * b)]
        m.d.comb += self.sum.eq(total)
        return m


@pytest.mark.parametrize("adds_before", [False, True])
def test_a_multiplier_takes_in_registers_and_the_adders_around_it(yosys, adds_before):
    assert report(component_verilog(Accumulation(adds_before)), "top").total == Resources(dsp=1)


def test_a_unit_is_synthesised_once(yosys, tmp_path, monkeypatch):
    monkeypatch.setenv("ETALSTM_CACHE", str(tmp_path))
    (unit,) = Hierarchy(component_verilog(Tally()), "top").units().values()
    first = synthesis.synthesise(unit)
    version = synthesis.yosys()[1]
    monkeypatch.setattr(synthesis, "yosys", lambda: (("false",), version))
    assert synthesis.synthesise(unit) == first
    monkeypatch.setattr(synthesis, "yosys", lambda: (("false",), "another version"))
    with pytest.raises(synthesis.SynthesisError, match="Yosys failed on top with exit code 1"):
        synthesis.synthesise(unit)


def test_units_are_synthesised_side_by_side(monkeypatch):
    empty = synthesis.Netlist({}, {}, [], {})
    both = threading.Barrier(2, timeout=60)

    def together(_):
        both.wait()
        return empty

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr("etalstm_boards.resources.report.synthesise", together)
    assert {row.name for row in report(component_verilog(Mill()), "top").rows} == {"top", "top.tally"}


def test_the_largest_unit_is_begun_first_and_its_failure_ends_the_report(monkeypatch):
    begun = []

    def fail(unit):
        begun.append(unit.name)
        raise synthesis.SynthesisError(f"Yosys failed over {unit.name}")

    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr("etalstm_boards.resources.report.synthesise", fail)
    with pytest.raises(synthesis.SynthesisError, match=r"Yosys failed over top$"):
        report(component_verilog(Mill()), "top")
    assert begun[0] == "top"


def test_without_yosys_says_what_to_install(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    synthesis.yosys.cache_clear()
    try:
        with pytest.raises(synthesis.SynthesisError, match=r"no Yosys 0\.40 or later on PATH, nor pyosys\. Try: pip"):
            synthesis.yosys()
    finally:
        synthesis.yosys.cache_clear()


def test_shares_are_of_the_part():
    share = Resources(lut=130_368, ff=0, dsp=4_512, bram=504, uram=960).share_of(XCVU37P.whole)
    assert share == {"lut": 0.1, "ff": 0.0, "dsp": 0.5, "bram": 0.25, "uram": 1.0}


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (lambda: PEArray(BINARY32, 4, OmniPE.of), OF_PE * 4),
        (lambda: Activation.sharing(BINARY32), OF_ACTIVATION),
        (lambda: Coefficients(READERS), OF_COEFFICIENTS),
        (lambda: Reader(ADDRESS_BITS, DATA_BITS, contract.ADDRESS_BITS), OF_READER),
    ],
    ids=["pe", "activation", "coefficients", "reader"],
)
def test_the_estimate_has_the_costs_of_units_as_they_are_mapped(yosys, unit, expected):
    found = report(component_verilog(unit()), "top").total
    assert (found.dsp, found.bram, found.uram) == (expected.dsp, expected.bram, expected.uram)
    assert not expected.lut or found.lut == pytest.approx(float(expected.lut), rel=0.02)


def test_a_region_that_its_channels_overfill_is_refused():
    config = preset("vcu128")
    check_fit(config, XCVU37P, [12, 14, 14], "part")
    with pytest.raises(ValueError, match=r"region 2 of the part with 21 channels: .* 336 ultra RAMs of 320"):
        check_fit(config, XCVU37P, [9, 10, 21], "part")


INTEGERS = replace(
    preset("vcu128"), lanes=8, integer_pes=4, weight_depth=8192, queue_depth=1024, integer_streams=3, channels=20,
    channels_per_port=1, broadcasters=1,
)  # fmt: skip


def test_the_memories_of_integers_are_estimated_as_they_are_mapped(yosys):
    """Weights of two vectors of 4,096 rows, and a scratch memory of two banks."""
    one = replace(INTEGERS, integer_streams=1, scratch_depth=2048, scratch_banks=2)
    names = ("weight_depth", "scratch_depth", "scratch_reads", "scratch_banks")
    sizes = {name: getattr(one, name) for name in names}
    memories = IntegerMemories(BINARY32, 8, 8, 4, weights=partial(make_weights, one), **sizes)
    found = report(component_verilog(memories), "top").total
    assert (found.uram, found.bram) == (8, 16)
    assert of_channel(one).uram == found.uram
    sums, coefficients = 2 * 4.5, OF_COEFFICIENTS.bram * one.activation_units // READERS  # sums of 8 lanes of 40 bits
    assert of_channel(one).bram == found.bram + sums + coefficients + OF_READER.bram


def test_integers_are_in_the_estimate():
    float32 = replace(INTEGERS, integer_pes=0, integer_streams=1)
    more = estimate(INTEGERS).dsp - estimate(float32).dsp
    assert more == OF_INTEGER_PE.dsp * 3 * 20 * 8 * 4
    assert of_channel(INTEGERS).uram == 2 * 8, "two copies for three streams"
    with pytest.raises(ValueError, match=r"ultra RAMs of 960"):
        check_fit(replace(INTEGERS, integer_streams=8, channels=36, channels_per_port=2), XCVU37P, [12, 12, 12], "part")
