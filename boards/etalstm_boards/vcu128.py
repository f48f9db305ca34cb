"""AMD VCU128: pins and configuration, from its user guide (UG1302) and board files."""

from amaranth.build import Attrs, Pins, Resource, Subsignal
from amaranth_boards.resources import LEDResources

from etalstm_boards.platform import CardPlatform, clock_resource, pcie_resources


class VCU128Platform(CardPlatform):
    """The VCU128 evaluation kit: XCVU37P, configured from quad SPI flash."""

    name = "vcu128"
    device = "xcvu37p"
    lights = 4
    resources = [
        clock_resource("BH51", "BJ51"),
        Resource("cpu_reset", 0, Pins("BM29", dir="i"), Attrs(IOSTANDARD="LVCMOS12")),
        *LEDResources(pins="BH24 BG24 BG25 BF25 BF26 BF27 BG27 BG28", attrs=Attrs(IOSTANDARD="LVCMOS18")),
        # UART0_TXD of the board: the part drives it, the USB bridge receives. What the bridge sends (BP26) is not used.
        Resource("uart", 0, Subsignal("tx", Pins("BN26", dir="o")), Attrs(IOSTANDARD="LVCMOS18")),
        *pcie_resources("BF41", IOSTANDARD="LVCMOS12"),
    ]
    programming = {
        "CONFIG_VOLTAGE": "1.8",
        "CONFIG_MODE": "SPIx4",
        "BITSTREAM.GENERAL.COMPRESS": "TRUE",
        "BITSTREAM.CONFIG.CONFIGRATE": "85.0",
        "BITSTREAM.CONFIG.EXTMASTERCCLK_EN": "disable",
        "BITSTREAM.CONFIG.SPI_BUSWIDTH": "4",
        "BITSTREAM.CONFIG.SPI_32BIT_ADDR": "Yes",
        "BITSTREAM.CONFIG.SPI_FALL_EDGE": "YES",
        "BITSTREAM.CONFIG.UNUSEDPIN": "Pullup",
    }
    jtag_device = "xcvu37p_0"
    flash = "mt25qu02g-spi-x1_x2_x4"
