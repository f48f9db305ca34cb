"""The host's link: the settings of XDMA for each width, and its connections."""

from dataclasses import dataclass

from amaranth.hdl import Instance, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_boards.control import HOST_ADDRESS_BITS
from etalstm_boards.host_bridge import DMA_ADDRESS_BITS, DMA_ID_BITS
from etalstm_boards.shell import INTERRUPTS
from etalstm_hw import contract
from etalstm_hw.axi.axi import AXI4, AXI4Lite

MODULE = "card_xdma"
VENDOR_ID = 0x10EE  # the IP's default


@dataclass(frozen=True)
class Link:
    """A PCIe Gen3 link.

    Members
    -------
    lanes : int
        1 << n, at most 16.
    data_bits, clock_mhz : int
        Of XDMA's bus, which has the bandwidth of the lanes.
    device_id : str
        The card's PCI device ID, one that the vendor's Linux driver knows.
    """

    lanes: int
    data_bits: int
    clock_mhz: int
    device_id: str

    def properties(self) -> dict[str, str]:
        """Give the settings of the XDMA IP (AMD PG195), by the names of its parameters."""
        kilobytes = max(4, contract.BOARD_SPACE_BYTES // 1024)
        return {
            "mode_selection": "Advanced",
            "functional_mode": "DMA",
            "pcie_blk_locn": "PCIE4C_X1Y0",
            "en_gt_selection": "true",
            "select_quad": "GTY_Quad_227",
            "pl_link_cap_max_link_speed": "8.0_GT/s",
            "pl_link_cap_max_link_width": f"X{self.lanes}",
            "axi_data_width": f"{self.data_bits}_bit",
            "axisten_freq": str(self.clock_mhz),
            "xdma_axi_intf_mm": "AXI_Memory_Mapped",
            "xdma_rnum_chnl": "1",
            "xdma_wnum_chnl": "1",
            "axilite_master_en": "true",
            "axilite_master_scale": "Kilobytes",
            "axilite_master_size": str(kilobytes),
            "pciebar2axibar_axil_master": "0x00000000",
            "xdma_num_usr_irq": str(INTERRUPTS),
            "pf0_msix_enabled": "true",
            "pf0_device_id": self.device_id,
            "cfg_mgmt_if": "false",
        }


LINKS = {
    "x16": Link(16, 512, 250, "903F"),
    "x8": Link(8, 256, 250, "9038"),
    "x4": Link(4, 256, 125, "9034"),
}


def link(name: str) -> Link:
    """Look up a link.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if name not in LINKS:
        raise ValueError(f"unknown PCIe width {name!r}, expected one of: {', '.join(LINKS)}")
    return LINKS[name]


class Xdma(wiring.Component):
    """The vendor's DMA engine behind the card's edge connector.

    Parameters
    ----------
    link : Link
    lanes : the four ports of the lanes, of an Amaranth platform's resource: ``rx_p``, ``rx_n``, ``tx_p``, ``tx_n``

    Members
    -------
    refclk, refclk_gt, perst_n : :py:`In(1)`
        Reference clock for logic and for transceivers; the slot's reset.
    clock, resetn : :py:`Out(1)`
        Of everything below.
    dma : :py:`Out(AXI4(64, data_bits, 4))`
    registers : :py:`Out(AXI4Lite(32))`
    requests, acknowledges : :py:`In(2)`, :py:`Out(2)`
    """

    def __init__(self, link: Link, lanes):
        self._lanes = lanes
        super().__init__(
            {
                "refclk": In(1),
                "refclk_gt": In(1),
                "perst_n": In(1),
                "clock": Out(1),
                "resetn": Out(1),
                "dma": Out(AXI4(DMA_ADDRESS_BITS, link.data_bits, DMA_ID_BITS)),
                "registers": Out(AXI4Lite(HOST_ADDRESS_BITS)),
                "requests": In(INTERRUPTS),
                "acknowledges": Out(INTERRUPTS),
            }
        )

    def elaborate(self, platform):
        """The instance; its other signals stay open."""
        m = Module()
        ports = {
            "i_sys_clk": self.refclk,
            "i_sys_clk_gt": self.refclk_gt,
            "i_sys_rst_n": self.perst_n,
            "i_pci_exp_rxp": self._lanes.rx_p.io,
            "i_pci_exp_rxn": self._lanes.rx_n.io,
            "o_pci_exp_txp": self._lanes.tx_p.io,
            "o_pci_exp_txn": self._lanes.tx_n.io,
            "o_axi_aclk": self.clock,
            "o_axi_aresetn": self.resetn,
            "i_usr_irq_req": self.requests,
            "o_usr_irq_ack": self.acknowledges,
        }
        for prefix, bus in (("m_axi", self.dma), ("m_axil", self.registers)):
            for name, member in bus.signature.members.items():
                direction = "o" if member.flow is Out else "i"
                ports[f"{direction}_{prefix}_{name}"] = getattr(bus, name)
        m.submodules.ip = Instance(MODULE, **ports)
        return m
