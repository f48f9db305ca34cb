import hashlib
import json
from pathlib import Path

import pytest

from etalstm_boards import tcl
from etalstm_boards.build import Options, build_id, prepare
from etalstm_hw import contract
from tests.boards import vivado
from tests.boards.vivado import Answers

# Typed from AMD PG195 and PG276 and from the card's data, not from the generator.
XDMA = """mode_selection Advanced; functional_mode DMA; pcie_blk_locn PCIE4C_X1Y0; en_gt_selection true;
select_quad GTY_Quad_227; pl_link_cap_max_link_speed 8.0_GT/s; pl_link_cap_max_link_width X16; axi_data_width 512_bit;
axisten_freq 250; xdma_axi_intf_mm AXI_Memory_Mapped; xdma_rnum_chnl 1; xdma_wnum_chnl 1; axilite_master_en true;
axilite_master_scale Kilobytes; axilite_master_size 8; pciebar2axibar_axil_master 0x00000000; xdma_num_usr_irq 2;
pf0_msix_enabled true; pf0_device_id 903F; cfg_mgmt_if false"""
HBM = """USER_HBM_DENSITY 8GB; USER_HBM_STACK 2; USER_MEMORY_DISPLAY 8192; USER_APB_EN true; USER_XSDB_INTF_EN FALSE;
USER_SWITCH_ENABLE_00 TRUE; USER_SWITCH_ENABLE_01 TRUE; USER_AXI_CLK_FREQ 250; USER_AXI_CLK1_FREQ 250;
USER_HBM_REF_CLK_0 100; USER_HBM_REF_CLK_1 100; USER_CLK_SEL_LIST0 AXI_00_ACLK; USER_CLK_SEL_LIST1 AXI_16_ACLK"""
ECC = (
    """ENABLE_ECC_CORRECTION true; ENABLE_ECC_SCRUBBING true; INITILIZE_MEM_USING_ECC_SCRUB true; EN_DATA_MASK false"""
)
CHANNEL_PORTS = set(range(20))
OTHER_PORTS = {*range(20, 26), 31}
REGIONS = [range(0, 12), range(12, 26), range(26, 40)]  # channels
BRANCHES = [8, 2, 6, 4, 4, 6, 2, 8]  # channels of each: those that are in one group, be there 1, 2, 4 or 5
CHANNELS = [f"branch{branch}/channel{n}" for branch, size in enumerate(BRANCHES) for n in range(size)]


def properties(text):
    return dict(entry.split() for entry in text.split(";"))


def created(calls):
    """Settings of each IP that is created and generated, by its kind."""
    found = {}
    for call in calls:
        if call[0] == "create_ip":
            options = dict(zip(call[1::2], call[2::2], strict=True))
            assert (options["-vendor"], options["-library"]) == ("xilinx.com", "ip")
            module = options["-module_name"]
            whole = ["set_property", "generate_synth_checkpoint", "false", f"{module}.xci"]
            assert calls.index(whole) < calls.index(["generate_target", "all", module])
            [listed] = [c[2] for c in calls if c[:2] == ["set_property", "-dict"] and c[-1] == module]
            words = listed.split()
            found[options["-name"]] = {
                k.removeprefix("CONFIG."): v for k, v in zip(words[::2], words[1::2], strict=True)
            }
    return found


@pytest.fixture(scope="module")
def calls(full):
    return vivado.run(full, "vcu128.tcl")


def test_the_dry_run_goes_from_project_to_bitstream(calls):
    order = [call[0] for call in calls]
    steps = ("create_project", "create_ip", "synth_design", "place_design", "route_design", "write_bitstream")
    places = [order.index(step) for step in steps]
    assert places == sorted(places), dict(zip(steps, places, strict=True))
    assert ["create_project", "-force", "-name", "vcu128", "-part", "xcvu37p-fsvh2892-2L-e"] in calls
    assert order.index("route_design") < order.index("get_timing_paths") < order.index("write_bitstream")


def test_the_tool_tries_harder_than_by_itself_and_optimises_before_it_routes(calls):
    steps = [call for call in calls if call[0] in ("opt_design", "place_design", "phys_opt_design", "route_design")]
    assert [call[0] for call in steps] == [
        "opt_design", "place_design", "phys_opt_design", "route_design", "phys_opt_design",
    ]  # fmt: skip
    assert all(call[1] == "-directive" for call in steps[:-1])


def test_a_script_without_a_step_is_refused():
    with pytest.raises(ValueError, match="0 lines 'place_design'"):
        tcl.directed("opt_design\nroute_design\n")


def test_the_ips_get_their_settings(calls):
    ips = created(calls)
    assert ips["xdma"] == properties(XDMA)
    used = CHANNEL_PORTS | OTHER_PORTS
    expected = properties(HBM)
    expected |= {f"USER_MC_ENABLE_{n:02}": "TRUE" for n in range(16)}
    expected |= {f"USER_MC{n}_{name}": value for n in range(16) for name, value in properties(ECC).items()}
    expected |= {f"USER_SAXI_{n:02}": "true" if n in used else "false" for n in range(32)}
    assert ips["hbm"] == expected
    assert len(used) == 27


def test_a_memory_with_shared_ports_has_its_largest_clock(integers):
    manifest = json.loads((integers / "manifest.json").read_text())
    assert manifest["clocks_mhz"] == {"accelerator": 250, "hbm": 450}
    assert manifest["memory"]["ports"] == {
        "channels": list(range(32)), "broadcasters": [9, 15, 20, 25], "sequencer": 4, "host": 31,
    }  # fmt: skip
    hbm = created(vivado.run(integers, "setup.tcl"))["hbm"]
    assert hbm["USER_AXI_CLK_FREQ"] == hbm["USER_AXI_CLK1_FREQ"] == "450"
    assert {hbm[f"USER_SAXI_{port:02}"] for port in range(32)} == {"true"}


def test_channels_are_placed_by_ports_in_three_regions(calls):
    placed = {call[1]: call[2].split() for call in calls if call[0] == "add_cells_to_pblock"}
    for region, channels in enumerate(REGIONS):
        assert placed[f"region{region}"] == [f"shell/accelerator/{CHANNELS[n]}" for n in channels]
        assert ["resize_pblock", f"region{region}", "-add", f"SLR{region}"] in calls


def test_every_share_is_told_and_a_large_one_is_a_warning(full):
    told = vivado.told(full, "vcu128.tcl")
    assert "eta-lstm: the part: DSPs: 2880 of 9024, 32 %" in told
    assert "eta-lstm: SLR2, its channels: URAM: 224 of 320, 70 %" in told
    assert "eta-lstm: SLR2: CLB LUTs: 321000 of 432000, 74 %" in told
    warnings = [line for line in told if line.startswith("CRITICAL WARNING")]
    assert warnings == [
        "CRITICAL WARNING: eta-lstm: the part: Block RAM Tile: 90 %, more than 80% may not route",
        "CRITICAL WARNING: eta-lstm: SLR0: CLB LUTs: 82 %, more than 80% may not route",
    ]


def test_reports_and_regions_are_looked_at_between_place_and_route(calls):
    steps = [call[0] for call in calls]
    between = calls[steps.index("place_design") : steps.index("route_design")]
    for report in ("utilization_slr", "qor_assessment", "cdc"):
        assert [call[-2:] for call in between].count(["-file", f"vcu128_{report}.rpt"]) == 1, report
    assert ["report_utilization", "-slr", "-return_string"] in between


def test_a_report_that_fails_does_not_stop_the_build(full):
    told = vivado.told(full, "vcu128.tcl", Answers(broken="report_qor_assessment"))
    assert "WARNING: eta-lstm: vcu128_qor_assessment.rpt: report_qor_assessment is broken" in told


def test_settings_have_more_than_a_cycle(calls):
    cycles = [call[1:] for call in calls if call[0] == "set_multicycle_path"]
    assert cycles == [["2", "-setup", "-from", "setting"], ["1", "-hold", "-from", "setting"]]


def test_the_machine_has_the_attribute_that_the_constraints_look_for(small, calls):
    [asked] = {call[-1] for call in calls if call[0] == "get_cells" and "quasi_static" in call[-1]}
    attribute, value = asked.split(" == ")
    assert f"(* {attribute} = {value} *)" in (small / "accelerator.v").read_text()


def test_every_crossing_of_clocks_is_bounded(calls):
    delays = [call for call in calls if call[0] == "set_max_delay"]
    pins = ("board_buffer/O", "clocks/accelerator_buffer/O", "clocks/hbm_buffer/O", "xdma/ip/axi_aclk")
    clocks = {f"clock-of-{pin}" for pin in pins}
    assert {(call[3], call[5]) for call in delays} == {(a, b) for a in clocks for b in clocks if a != b}
    assert all(call[1] == "-datapath_only" and call[6] == "4.0" for call in delays)
    untimed = calls.index(["set_false_path", "-to", "synchroniser"])
    assert untimed < calls.index(["reset_path", "-to", "synchroniser"]) < calls.index(delays[0])


def test_every_file_is_used_and_described(full, calls):
    files = {path.name for path in full.iterdir()}
    scripts = {"vcu128.tcl", "build_vcu128.sh"}
    sourced = {name for path in full.glob("*.tcl") for name in files if f"source {name}" in path.read_text()}
    read = {call[1] for call in calls if call[0] in ("add_files", "read_xdc")}
    assert files == scripts | sourced | read | {"manifest.json"}
    manifest = json.loads((full / "manifest.json").read_text())
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in full.iterdir()}
    del digests["manifest.json"]
    assert manifest["sha256"] == digests
    assert manifest["memory"] == {
        "host_address": 0,
        "bytes": 8 << 30,
        "ports": {"channels": sorted(CHANNEL_PORTS), "broadcasters": [21, 22, 23, 24, 25], "sequencer": 20, "host": 31},
    }
    assert manifest["clocks_mhz"] == {"accelerator": 250, "hbm": 250}
    assert manifest["build"] == f"{build_id(Options('vcu128', 'vcu128')):#010x}"
    assert manifest["accelerator"]["contract_version"] == contract.VERSION


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (Answers(version="2019.2"), "Vivado 2020.2 or later is needed, this is 2019.2"),
        (Answers(wns="-0.001"), "timing is not met: WNS is -0.001 ns"),
        (Answers(whs="-0.2"), "timing is not met: WHS is -0.2 ns"),
        (Answers(bram="1915.5"), "the part: Block RAM Tile: 1915.5 are needed, at most 95% of 2016 can be used"),
        (Answers(region_uram="305"), "SLR0, its channels: URAM: 305 are needed, at most 95% of 320 can be used"),
        (Answers(region_uram="191"), "SLR0, its channels: 191 ultra RAMs, 192 are needed"),
        (Answers(slr0_lut="418000"), "SLR0: CLB LUTs: 418000 are needed, at most 95% of 439680 can be used"),
        (Answers(slr0_lut="none"), "the utilisation report has no row CLB LUTs with three regions"),
        (Answers(settings=""), "the design has no register with the attribute quasi_static"),
        (
            Answers(missing=f"shell/accelerator/{CHANNELS[13]}"),
            f"the design has no cell shell/accelerator/{CHANNELS[13]}",
        ),
        (Answers(clocks=""), "carries 0 clocks, not 1"),
    ],
)
def test_a_build_that_is_not_good_stops(full, answers, message):
    with pytest.raises(RuntimeError, match=message):
        vivado.run(full, "vcu128.tcl", answers)


def test_the_guide_explains_every_file(full):
    guide = (Path(__file__).parents[2] / "docs" / "vcu128.md").read_text()
    missing = [path.name for path in full.iterdir() if f"| `{path.name}` |" not in guide]
    assert not missing, missing


def test_messages_that_matter_are_errors(calls):
    promoted = {call[2] for call in calls if call[0] == "set_msg_config" and call[3:] == ["-new_severity", "ERROR"]}
    assert {"Synth 8-3352", "Vivado 12-4739", "DRC UCIO-1"} <= promoted


def test_equal_options_give_equal_files(small, small_preset):
    options = Options("u280", small_preset, "x8")
    again = prepare(options)
    for path in small.iterdir():
        assert path.read_text() == again.files[path.name], path.name
    assert build_id(options) != build_id(Options("u280", small_preset, "x4"))
    assert f"32'd{build_id(options)}" in again.files["accelerator.v"]
