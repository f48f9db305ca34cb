"""The vendor's controller of the memory in the package: its settings and its connections."""

from typing import Any

from amaranth.hdl import ClockSignal, Const, Instance, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_boards.apb import APB
from etalstm_boards.axi3 import AXI3, DATA_BITS
from etalstm_boards.ports import MEMORY_BYTES, PORTS
from etalstm_boards.shell import hbm_name

MODULE = "card_hbm"
STACKS = 2
_TEMPERATURE_BITS = 7
_ECC = {
    "ENABLE_ECC_CORRECTION": "true",
    "ENABLE_ECC_SCRUBBING": "true",  # reads all memory again and again, and writes corrected words back
    "INITILIZE_MEM_USING_ECC_SCRUB": "true",  # the IP's own spelling; without it unwritten words read as errors
    "EN_DATA_MASK": "false",  # its pins carry the check bits, so beats are written whole, whatever their strobes
}
"""Settings of each memory controller. It corrects a wrong bit of a word, and answers two with SLVERR."""


def properties(used: tuple[int, ...], hbm_mhz: float) -> dict[str, str]:
    """Give the settings of the HBM IP (AMD PG276), by the names of its parameters.

    Parameters
    ----------
    used : tuple of int
        Ports that are connected.
    hbm_mhz : float
        Their clock.
    """
    of_stack = PORTS // STACKS
    clock_ports = [min(port for port in used if port // of_stack == stack) for stack in range(STACKS)]
    settings = {
        "USER_HBM_DENSITY": f"{MEMORY_BYTES >> 30}GB",
        "USER_HBM_STACK": str(STACKS),
        "USER_MEMORY_DISPLAY": str(MEMORY_BYTES >> 20),
        "USER_APB_EN": "true",
        "USER_XSDB_INTF_EN": "FALSE",
        "USER_SWITCH_ENABLE_00": "TRUE",
        "USER_SWITCH_ENABLE_01": "TRUE",
        "USER_AXI_CLK_FREQ": f"{hbm_mhz:g}",
        "USER_AXI_CLK1_FREQ": f"{hbm_mhz:g}",
    }
    for stack, port in enumerate(clock_ports):
        settings[f"USER_HBM_REF_CLK_{stack}"] = "100"
        settings[f"USER_CLK_SEL_LIST{stack}"] = f"AXI_{port:02}_ACLK"
    for controller in range(PORTS // 2):
        settings[f"USER_MC_ENABLE_{controller:02}"] = "TRUE"
        settings |= {f"USER_MC{controller}_{name}": value for name, value in _ECC.items()}
    for port in range(PORTS):
        settings[f"USER_SAXI_{port:02}"] = "true" if port in used else "false"
    return settings


class Hbm(wiring.Component):
    """The memory: ports in domain ``hbm``, its management in domain ``board``.

    Parameters
    ----------
    used : tuple of int
        Ports that are connected; the IP is made with these.

    Members
    -------
    hbm00 … hbm31 : :py:`In(AXI3())`
    calibrated, trip : :py:`Out(1)`
        Both stacks are ready; at least one is too hot.
    temperature : :py:`Out(15)`
        In degrees Celsius, the first stack in bits 6:0, the second in bits 14:8.
    stack0, stack1 : :py:`In(APB())`
        Registers of each stack's controllers, once `calibrated`.
    """

    def __init__(self, used: tuple[int, ...]):
        self._used = used
        super().__init__(
            {
                **{hbm_name(port): In(AXI3()) for port in used},
                "calibrated": Out(1),
                "trip": Out(1),
                "temperature": Out(15),
                **{f"stack{number}": In(APB()) for number in range(STACKS)},
            }
        )

    def elaborate(self, platform):
        """The instance; the parity of data is not used."""
        m = Module()
        complete, trips = Signal(STACKS), Signal(STACKS)
        ports: dict[str, Any] = {}
        for stack in range(STACKS):
            bits = slice(8 * stack, 8 * stack + _TEMPERATURE_BITS)
            ports |= self._registers(stack)
            ports |= {
                f"i_HBM_REF_CLK_{stack}": ClockSignal("board"),
                f"i_APB_{stack}_PCLK": ClockSignal("board"),
                f"i_APB_{stack}_PRESET_N": ~ResetSignal("board"),
                f"o_apb_complete_{stack}": complete[stack],
                f"o_DRAM_{stack}_STAT_CATTRIP": trips[stack],
                f"o_DRAM_{stack}_STAT_TEMP": self.temperature[bits],
            }
        for port in self._used:
            ports |= self._port(port)
        m.submodules.ip = Instance(MODULE, **ports)
        m.d.comb += [self.calibrated.eq(complete.all()), self.trip.eq(trips.any())]
        return m

    def _registers(self, stack: int) -> dict:
        bus = getattr(self, f"stack{stack}")
        return {
            f"{'i' if member.flow is Out else 'o'}_APB_{stack}_{name.upper()}": getattr(bus, name)
            for name, member in APB().members.items()
        }

    def _port(self, port: int) -> dict:
        prefix, bus = f"AXI_{port:02}", getattr(self, hbm_name(port))
        signals = {
            f"i_{prefix}_ACLK": ClockSignal("hbm"),
            f"i_{prefix}_ARESET_N": ~ResetSignal("hbm"),
            f"i_{prefix}_WDATA_PARITY": Const(0, DATA_BITS // 8),
        }
        for name, member in AXI3().members.items():
            direction = "i" if member.flow is Out else "o"
            signals[f"{direction}_{prefix}_{name.upper()}"] = getattr(bus, name)
        return signals
