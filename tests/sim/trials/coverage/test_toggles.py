"""Toggles of the control logic are read as they happened, and what cannot toggle is left out."""

from collections import Counter

import pytest

from etalstm.network.architecture import ARCHITECTURES
from etalstm_hw.config import preset
from etalstm_hw.contract import Register, Status
from etalstm_sim.compiled.library import build_library, design
from etalstm_sim.compiled.observed import is_left_out, observed
from etalstm_sim.simulation import Simulation
from etalstm_sim.trials.coverage.cases import Case
from etalstm_sim.trials.coverage.constants import constant_bits
from etalstm_sim.trials.coverage.excuses import excuse
from etalstm_sim.trials.coverage.handmade import Program
from etalstm_sim.trials.coverage.runs import Machine
from etalstm_sim.trials.coverage.toggles import CONSTANT, add_toggles, control_modules, module_toggles, read_toggles

CONFIG = preset("test")
POINT = "C '\x01f\x02top.v\x01t\x02toggle\x01page\x02v_toggle/{}\x01o\x02{}\x01h\x02TOP' {}\n"


@pytest.fixture
def machine():
    opened = Machine("test", build_library(design(CONFIG), coverage=True), "none", Counter(), 1)
    yield opened
    opened.close()


def toggles_of(machine, path):
    machine.transport.simulation.write_coverage(path)
    return read_toggles(path)


def test_a_bit_toggles_when_a_program_makes_it(machine, tmp_path):
    machine.transport.read_register(Register.MAGIC)
    before = toggles_of(machine, tmp_path / "before")
    assert before["top"]["running"] == (0, 0) and before["top"]["control__arvalid"] != (0, 0)
    machine.run_case(Case("whole", Program(CONFIG, 1).words(), Status.DONE), ARCHITECTURES["swing"], 1)
    after = toggles_of(machine, tmp_path / "after")
    assert after["top"]["running"] == (1, 1) and after["top"]["interrupt"] == (1, 0)
    assert all(after["channel.store_queue"]["o__valid"])


def test_the_control_logic_is_counted_and_nothing_else(machine, tmp_path):
    found = toggles_of(machine, tmp_path / "found")
    assert sorted(found) == control_modules("test")
    assert {"top.sequencer.loops", "broadcaster.emitter.walker", "channel.compute.mac"} <= set(found)
    assert not {"adder", "multiplier", "activation", "registered", "channel.compute.pes.pe_0"} & set(found)
    assert not [bit for bits in found.values() for bit in bits if bit.startswith("$")]


def test_only_a_library_for_coverage_counts(echo_library):
    simulation = Simulation(echo_library, 1 << 20)
    with pytest.raises(ValueError, match="counts no coverage"):
        simulation.observed()
    simulation.close()


def test_channels_apart_cannot_be_counted():
    with pytest.raises(ValueError, match="coverage needs a design in one piece, got one with 2 channels apart"):
        build_library(design(CONFIG, apart=True), coverage=True)


def test_counts_of_instances_and_of_machines_are_added_up(tmp_path):
    lines = (POINT.format("top.counters$429", "a___05Fb__02Ec[3]:0->1", rises) for rises in (2, 3))
    (tmp_path / "file").write_text("# SystemC::Coverage-3\n" + "".join(lines) + POINT.format("x", "y:1->0", 1))
    found = read_toggles(tmp_path / "file")
    assert found == {"top.counters": {"a__b.c[3]": (5, 0)}, "x": {"y": (0, 1)}}
    assert add_toggles(found, {"x": {"y": (4, 5), "z": (1, 1)}, "w": {}}) == {
        "top.counters": {"a__b.c[3]": (5, 0)},
        "x": {"y": (4, 6), "z": (1, 1)},
        "w": {},
    }


def test_a_signal_with_fields_is_not_counted_beside_them(tmp_path):
    lines = (POINT.format("m", f"{bit}:0->1", 1) for bit in ("place[0]", "place__02Efirst[0]", "placed"))
    (tmp_path / "file").write_text("#\n" + "".join(lines))
    assert set(read_toggles(tmp_path / "file")["m"]) == {"place.first[0]", "placed"}


@pytest.mark.parametrize("line", ["nonsense", POINT.format("m", "a:2", 1).strip()])
def test_what_is_no_count_of_a_toggle_is_refused(tmp_path, line):
    (tmp_path / "file").write_text(f"# SystemC::Coverage-3\n{line}\n")
    with pytest.raises(ValueError, match="line 2: expected"):
        read_toggles(tmp_path / "file")


def test_a_bit_must_go_both_ways():
    found = module_toggles({"top.stored": {"both": (2, 1), "up": (1, 0), "still": (0, 0)}}, "test")
    assert [(module.bits, module.untoggled, module.share) for module in found] == [
        (3, ("up", "still"), pytest.approx(1 / 3))
    ]


def test_bits_that_cannot_toggle_are_excused_and_those_that_have_toggled_count():
    bits = {"windows.base[3]": (0, 0), "windows.base[13]": (0, 0), "windows.stride[2]": (1, 1)}
    (found,) = module_toggles({"channel.load": bits}, "test")
    assert found.bits == 2 and found.untoggled == ("windows.base[13]",)
    assert found.excused == {"windows.base[3]": "windows begin at multiples of 4,096 bytes"}
    (tied,) = module_toggles({"channel.load.reader": {"axi__rresp[0]": (0, 0), "axi__arsize[0]": (0, 0)}}, "test")
    assert tied.excused == {"axi__arsize[0]": CONSTANT}


def test_excuses_follow_the_configuration():
    assert excuse(preset("test"), "channel", "group.count[2]") == "there are no more channels"
    assert excuse(preset("slice"), "channel", "group.count[2]") is None
    assert excuse(preset("test"), "channel.store", "size[7]") == "windows have multiples of 4,096 bytes"
    assert excuse(preset("test"), "channel.store", "size[8]") is None
    assert excuse(preset("test"), "channel.store", "group.size[0]") is None
    assert excuse(preset("test"), "top.registers", "bus__araddr[1]") == "registers are words"
    assert excuse(preset("test"), "broadcaster.queue", "waits") and not excuse(preset("test"), "x.queue", "waits")
    sends = "broadcaster.fetcher.requests", "plans__payload.block.first_sum[3]"
    assert excuse(preset("test-int8"), *sends) == "a SEND has no such field: it sends whole blocks"
    assert excuse(preset("test"), *sends) is None and excuse(preset("test-int8"), "top.rows", "here.outer") is None
    assert excuse(preset("test-int8"), "channel", "group.first[0]") == "all channels are one group"
    assert excuse(preset("test"), "channel", "group.first[0]") is None


def test_constants_are_followed_through_assignments():
    text = """module \\a.b (x, y);
  output [3:0] x;
  wire [3:0] x;
  output \\y.z ;
  wire [1:0] tied;
  wire free;
  assign x = { tied, 1'h1, free };
  assign tied = 2'h2;
  assign \\y.z  = tied[1];
endmodule
"""
    assert constant_bits(text) == {"a.b": {"x[1]", "x[2]", "x[3]", "y.z", "tied[0]", "tied[1]"}}


def test_verilog_is_only_commented():
    text = "module \\m.adder (a);\n  wire a;\nendmodule\nmodule n (b);\n  wire \\$1 ;\n  wire b;\nendmodule\n"
    found = observed(text)
    assert found.count("coverage_off") == found.count("coverage_on") == 2
    for comment in ("/*verilator coverage_off*/", "/*verilator coverage_on*/"):
        found = found.replace(comment, "")
    assert "".join(found.split()) == "".join(text.split())
    assert is_left_out("m.adder.x") and not is_left_out("m.adders")
    assert is_left_out("m.array.lane_3") and not is_left_out("m.array")
    assert is_left_out("weights1.beat0") and not is_left_out("products")
