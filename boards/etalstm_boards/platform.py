"""The common base of the cards: an UltraScale+ part with HBM, and the pins of its PCIe lanes."""

from amaranth.build import Attrs, Clock, DiffPairs, Pins, PinsN, Resource, Subsignal
from amaranth.vendor import XilinxPlatform

# Lanes 0 to 3 are in GTY quad 227, 4 to 7 in 226, 8 to 11 in 225, 12 to 15 in 224.
_RX_P = "AL2 AM4 AN6 AN2 AP4 AR2 AT4 AU2 AV4 AW6 AW2 AY4 BA6 BA2 BB4 BC2"
_RX_N = "AL1 AM3 AN5 AN1 AP3 AR1 AT3 AU1 AV3 AW5 AW1 AY3 BA5 BA1 BB3 BC1"
_TX_P = "AL11 AM9 AN11 AP9 AR11 AR7 AT9 AU11 AU7 AV9 AW11 AY9 BA11 BB9 BC11 BC7"
_TX_N = "AL10 AM8 AN10 AP8 AR10 AR6 AT8 AU10 AU6 AV8 AW10 AY8 BA10 BB8 BC10 BC6"


def first(pins: str, count: int) -> str:
    """Give the first `count` of a list of pins."""
    return " ".join(pins.split()[:count])


def clock_resource(p: str, n: str) -> Resource:
    """Describe the card's clock of 100 MHz."""
    return Resource("clk100", 0, DiffPairs(p, n, dir="i"), Clock(100e6), Attrs(IOSTANDARD="DIFF_SSTL12"))


def pcie_resources(perst: str, **attrs: str) -> list[Resource]:
    """Describe the edge connector: reset, reference clock, and a resource for each width, 16, 8 and 4 lanes.

    Transceiver pins have fixed buffers, hence no standard.
    """
    lanes = [
        Resource(
            "pcie_lanes",
            count,
            *(
                Subsignal(name, Pins(first(pins, count), dir=direction))
                for name, pins, direction in (
                    ("rx_p", _RX_P, "i"),
                    ("rx_n", _RX_N, "i"),
                    ("tx_p", _TX_P, "o"),
                    ("tx_n", _TX_N, "o"),
                )
            ),
        )
        for count in (16, 8, 4)
    ]
    return [
        Resource("pcie_perst", 0, PinsN(perst, dir="i"), Attrs(PULLUP="TRUE", **attrs)),
        Resource("pcie_refclk", 0, DiffPairs("AR15", "AR14", dir="i"), Clock(100e6)),
        *lanes,
    ]


class CardPlatform(XilinxPlatform):
    """An UltraScale+ card with 8 GiB of HBM. A card is a subclass with its part, pins and configuration properties.

    Members
    -------
    name : str
        Its name on the command line.
    lights : int
        Number of LEDs for the states of :class:`etalstm_boards.shell.Shell`, at most 4.
    programming : dict
        Configuration properties of the bitstream, by their names in Vivado.
    jtag_device, flash : str
        Names of part and configuration memory in Vivado's hardware manager.
    """

    name: str
    lights: int
    package = "fsvh2892"
    speed = "2L-e"  # timed for a core voltage of 0.85 V; for 0.72 V the name is "2LV-e"
    connectors = ()
    programming: dict[str, str]
    jtag_device: str
    flash: str

    @property
    def part(self) -> str:
        """Vivado's name of the part."""
        return self._part
