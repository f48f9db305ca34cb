"""The whole design on a card: pins, clocks, the vendor's controllers, and the shell that connects them."""

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Elaboratable, Instance, Module, ResetSignal, Signal
from amaranth.lib import io
from amaranth.lib.cdc import FFSynchronizer, ResetSynchronizer
from amaranth.lib.wiring import connect

from etalstm_boards.bit_errors import BitErrors
from etalstm_boards.clocking import ClockGenerator, clocking
from etalstm_boards.console import Console
from etalstm_boards.hbm import STACKS, Hbm
from etalstm_boards.pcie import Link, Xdma
from etalstm_boards.ports import port_map
from etalstm_boards.shell import Shell, hbm_name
from etalstm_hw.config import Config
from etalstm_hw.generate import Instanced
from etalstm_hw.machine.top import top_signature

BOARD_HZ = 100_000_000  # of the domain `board`
BAUD = 115_200  # of the console: eight bits, no parity, one stop bit
ACCELERATOR = "accelerator"  # the Verilog module of the machine, which is in a file of its own
_TRANSCEIVERS = ("rx_p", "rx_n", "tx_p", "tx_n")


class Card(Elaboratable):
    """The design that a :class:`etalstm_boards.platform.CardPlatform` builds.

    Parameters
    ----------
    config : Config
    link : Link
    build : int
        Its number, which the console shows.
    """

    def __init__(self, config: Config, link: Link, build: int):
        self._config, self._link, self._build = config, link, build

    def elaborate(self, platform):
        """Clocks first, then host and memory, then what connects them."""
        m = Module()
        ports = port_map(self._config)
        self._clocks(m, platform)
        m.submodules.xdma = xdma = self._xdma(m, platform)
        m.submodules.hbm = hbm = Hbm(ports.used)
        machine = Instanced(ACCELERATOR, top_signature(self._config))
        m.submodules.shell = shell = Shell(ports, machine, self._link.data_bits)
        connect(m, xdma.dma, shell.dma)
        connect(m, xdma.registers, shell.host)
        for port in ports.used:
            connect(m, getattr(shell, hbm_name(port)), getattr(hbm, hbm_name(port)))
        m.d.comb += [
            xdma.requests.eq(shell.requests),
            shell.acknowledges.eq(xdma.acknowledges),
            shell.locked.eq(self._locked),
            shell.calibrated.eq(hbm.calibrated),
            shell.trip.eq(hbm.trip),
            shell.temperature.eq(hbm.temperature),
        ]
        self._bit_errors(m, shell, hbm)
        lights = (shell.alive, shell.ready, shell.running, shell.error)
        for number, light in enumerate(lights[: platform.lights]):
            self._output(m, platform, "led", number, light)
        if ("hbm_cattrip", 0) in platform.resources:
            self._output(m, platform, "hbm_cattrip", 0, hbm.trip)
        if ("uart", 0) in platform.resources:
            self._console(m, platform, shell, hbm)
        return m

    @staticmethod
    def _bit_errors(m, shell, hbm):
        """Read the memory controllers' counters."""
        m.submodules.bit_errors = bit_errors = DomainRenamer("board")(BitErrors())
        for number in range(STACKS):
            connect(m, getattr(bit_errors, f"stack{number}"), getattr(hbm, f"stack{number}"))
        ready = Signal()
        m.submodules.calibrated_sync = FFSynchronizer(hbm.calibrated, ready, o_domain="board")
        m.d.comb += [bit_errors.calibrated.eq(ready), shell.bit_errors.eq(bit_errors.found)]

    def _console(self, m, platform, shell, hbm):
        """Send the state of the card on the serial port."""
        console = Console(self._build, bit_cycles=round(BOARD_HZ / BAUD), interval_cycles=BOARD_HZ)
        m.submodules.console = DomainRenamer("board")(console)
        m.submodules.uart_tx = pin = io.Buffer("o", platform.request("uart", 0, dir={"tx": "-"}).tx)
        m.d.comb += [
            *(getattr(console, name).eq(getattr(shell, name)) for name in ("ready", "running", "error")),
            console.temperature.eq(hbm.temperature),
            pin.o.eq(console.o),
        ]

    @staticmethod
    def _input(m, platform, name):
        """Give a pin's level, high when it is asserted."""
        m.submodules[name] = buffer = io.Buffer("i", platform.request(name, dir="-"))
        return buffer.i

    @staticmethod
    def _output(m, platform, name, number, value):
        """Drive a pin."""
        m.submodules[f"{name}{number}"] = buffer = io.Buffer("o", platform.request(name, number, dir="-"))
        m.d.comb += buffer.o.eq(value)

    def _clocks(self, m, platform):
        """Make the domains ``board``, ``accelerator`` and ``hbm``."""
        m.domains.board = ClockDomain()
        m.domains.accelerator = ClockDomain(reset_less=True)
        m.domains.hbm = ClockDomain()
        pin = self._input(m, platform, "clk100")
        m.submodules.board_buffer = Instance("BUFG", i_I=pin, o_O=ClockSignal("board"))
        button = self._input(m, platform, "cpu_reset")
        m.submodules.board_reset = ResetSynchronizer(button, domain="board")
        m.submodules.clocks = clocks = ClockGenerator(clocking(self._config))
        m.d.comb += [
            clocks.i.eq(ClockSignal("board")),
            clocks.reset.eq(button),
            ClockSignal("accelerator").eq(clocks.accelerator),
            ClockSignal("hbm").eq(clocks.hbm),
        ]
        m.submodules.hbm_reset = ResetSynchronizer(~clocks.locked, domain="hbm")
        self._locked = clocks.locked

    def _xdma(self, m, platform):
        """Make the host's link and the domain ``pcie``."""
        lanes = platform.request("pcie_lanes", self._link.lanes, dir=dict.fromkeys(_TRANSCEIVERS, "-"))
        refclk = platform.request("pcie_refclk", dir="-")
        xdma = Xdma(self._link, lanes)
        half, full = Signal(), Signal()
        m.submodules.refclk_buffer = Instance(
            "IBUFDS_GTE4", i_I=refclk.p, i_IB=refclk.n, i_CEB=0, o_O=full, o_ODIV2=half
        )
        m.domains.pcie = ClockDomain()
        m.d.comb += [
            xdma.refclk.eq(half),
            xdma.refclk_gt.eq(full),
            xdma.perst_n.eq(~self._input(m, platform, "pcie_perst")),
            ClockSignal("pcie").eq(xdma.clock),
            ResetSignal("pcie").eq(~xdma.resetn),
        ]
        return xdma
