"""AMD Alveo U280: pins and configuration, from its user guide (UG1314) and board files."""

from amaranth.build import Attrs, Pins, PinsN, Resource

from etalstm_boards.platform import CardPlatform, clock_resource, pcie_resources
from etalstm_boards.vcu128 import VCU128Platform


class U280Platform(CardPlatform):
    """The Alveo U280: the die and the PCIe lanes of the VCU128, without its lights.

    Its satellite controller cuts the power when ``hbm_cattrip`` is high or not driven. There is no console, as it is
    not confirmed which pin of the serial port the part drives.
    """

    name = "u280"
    device = "xcu280"
    lights = 0
    resources = [
        clock_resource("BJ43", "BJ44"),
        Resource("cpu_reset", 0, PinsN("L30", dir="i"), Attrs(IOSTANDARD="LVCMOS18")),
        Resource("hbm_cattrip", 0, Pins("D32", dir="o"), Attrs(IOSTANDARD="LVCMOS18", PULLDOWN="TRUE")),
        *pcie_resources("BH26", IOSTANDARD="LVCMOS18"),
    ]
    programming = VCU128Platform.programming
    jtag_device = "xcu280_0"
    flash = "mt25qu01g-spi-x1_x2_x4"
