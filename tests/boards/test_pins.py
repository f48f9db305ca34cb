"""Pins, as the cards' data give them: typed here once more, independently of the platforms."""

import re

import pytest

from tests.boards import vivado

RX_P = "AL2 AM4 AN6 AN2 AP4 AR2 AT4 AU2 AV4 AW6 AW2 AY4 BA6 BA2 BB4 BC2"
RX_N = "AL1 AM3 AN5 AN1 AP3 AR1 AT3 AU1 AV3 AW5 AW1 AY3 BA5 BA1 BB3 BC1"
TX_P = "AL11 AM9 AN11 AP9 AR11 AR7 AT9 AU11 AU7 AV9 AW11 AY9 BA11 BB9 BC11 BC7"
TX_N = "AL10 AM8 AN10 AP8 AR10 AR6 AT8 AU10 AU6 AV8 AW10 AY8 BA10 BB8 BC10 BC6"
GT = ""  # transceivers have no standard


def lanes(count):
    pairs = {"rx_p": RX_P, "rx_n": RX_N, "tx_p": TX_P, "tx_n": TX_N}
    return {
        f"pcie_lanes_{count}__{name}__io[{lane}]": (pin, GT)
        for name, pins in pairs.items()
        for lane, pin in enumerate(pins.split()[:count])
    }


REFCLK = {"pcie_refclk_0__p": ("AR15", GT), "pcie_refclk_0__n": ("AR14", GT)}
VCU128 = {
    "clk100_0__p": ("BH51", "DIFF_SSTL12"),
    "clk100_0__n": ("BJ51", "DIFF_SSTL12"),
    "cpu_reset_0__io": ("BM29", "LVCMOS12"),
    "led_0__io": ("BH24", "LVCMOS18"),
    "led_1__io": ("BG24", "LVCMOS18"),
    "led_2__io": ("BG25", "LVCMOS18"),
    "led_3__io": ("BF25", "LVCMOS18"),
    "uart_0__tx__io": ("BN26", "LVCMOS18"),
    "pcie_perst_0__io": ("BF41", "LVCMOS12"),
    **REFCLK,
    **lanes(16),
}
U280 = {
    "clk100_0__p": ("BJ43", "DIFF_SSTL12"),
    "clk100_0__n": ("BJ44", "DIFF_SSTL12"),
    "cpu_reset_0__io": ("L30", "LVCMOS18"),
    "hbm_cattrip_0__io": ("D32", "LVCMOS18"),
    "pcie_perst_0__io": ("BH26", "LVCMOS18"),
    **REFCLK,
    **lanes(8),
}
BITSTREAM = """CONFIG_VOLTAGE 1.8; BITSTREAM.GENERAL.COMPRESS TRUE; CONFIG_MODE SPIx4; BITSTREAM.CONFIG.SPI_BUSWIDTH 4;
BITSTREAM.CONFIG.CONFIGRATE 85.0; BITSTREAM.CONFIG.EXTMASTERCCLK_EN disable; BITSTREAM.CONFIG.SPI_FALL_EDGE YES;
BITSTREAM.CONFIG.UNUSEDPIN Pullup; BITSTREAM.CONFIG.SPI_32BIT_ADDR Yes"""


def ports(text, top):
    """Every bit of the ports of a Verilog module."""
    body = text.split(f"\nmodule {top}(")[1].split("endmodule")[0]
    for width, name in re.findall(r"^  (?:input|output|inout) (?:\[(\d+):0\] )?(\w+);", body, re.M):
        yield from [f"{name}[{bit}]" for bit in range(int(width) + 1)] if width else [name]


@pytest.mark.parametrize(("build", "name", "pins"), [("full", "vcu128", VCU128), ("small", "u280", U280)])
def test_every_port_has_its_pin(request, build, name, pins):
    directory = request.getfixturevalue(build)
    calls = vivado.run(directory, f"{name}.xdc")
    placed = {call[3]: call[2] for call in calls if call[:2] == ["set_property", "LOC"]}
    standards = {call[3]: call[2] for call in calls if call[:2] == ["set_property", "IOSTANDARD"]}
    assert {port: (pin, standards.get(port, GT)) for port, pin in placed.items()} == pins
    uncovered = set(ports((directory / f"{name}.v").read_text(), name)) ^ placed.keys()
    assert not uncovered, f"ports without a pin, or pins without a port: {sorted(uncovered)}"
    clocks = {call[-1]: float(call[call.index("-period") + 1]) for call in calls if call[0] == "create_clock"}
    assert clocks == {"clk100_0__p": 10, "pcie_refclk_0__p": 10}
    assert ["set_property", "PULLUP", "TRUE", "pcie_perst_0__io"] in calls
    for key, value in (entry.split() for entry in BITSTREAM.split(";")):
        assert ["set_property", key, value, "design"] in calls
    untimed = {call[2] for call in calls if call[0] == "set_false_path"}
    slow = ("led", "uart", "hbm_cattrip", "cpu_reset", "pcie_perst")
    assert untimed == {port for port in pins if port.startswith(slow)}


def test_a_port_without_a_constraint_is_found(small):
    text = (small / "u280.v").read_text().replace("input cpu_reset_0__io;", "input cpu_reset_0__io;\n  input stray;")
    assert "stray" in set(ports(text, "u280"))
