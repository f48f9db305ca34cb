"""The delays of the part's primitives and nets, each with its source.

They hold for speed grade -2 at 0.85 V, the slow corner, without place and route. A net's delay is an estimate: it
depends on the placement, which nobody knows before the vendor's tool has run.
"""

from enum import Enum, unique
from math import log2

_RAPIDWRIGHT = "RapidWright, timing/ultrascaleplus/intrasite_delay_terms.txt (delays by Vivado for an XCVU3P-2): "
_DSP_DUMP = "RapidWright, tcl/rwroute/test_data/dump_all_dsp_delay (DSP slices by Vivado, same part): "
_FLOPOCO = "FloPoCo, Targets/VirtexUltrascalePlus.hpp (from Vivado's reports for an XCVU3P-2): "
_DS923 = "AMD DS923 1.20, -2 at 0.85 V: "


@unique
class Delay(Enum):
    """A delay.

    Members
    -------
    ps : picoseconds
    source : where the number is from, or that it is an estimate
    """

    CLOCK = (
        135,
        "uncertainty 35, as Vivado takes it for a jitter of 71; skew between two slices 100, estimate",
    )
    FLIP_FLOP_OUT = 77, _RAPIDWRIGHT + "AFF, CLK to Q"
    FLIP_FLOP_DATA = -25, _RAPIDWRIGHT + "AFF, setup of D"
    FLIP_FLOP_CONTROL = 60, "estimate: setup of enable and reset; no public source found"
    LUT = 92, _RAPIDWRIGHT + "A6LUT, mean of the six inputs (35 to 150)"
    MUX = 102, _RAPIDWRIGHT + "F7MUX_AB with its wire to the pin, 70 + 32; taken for MUXF8 and MUXF9, too"
    CARRY_ENTRY = 186, _RAPIDWRIGHT + "CARRY8, S0 to CO3, the slowest within four bits"
    CARRY_PASS = (
        25,
        "four bits: half of CARRY8, CIN to CO7, 23 (RapidWright), and of the wire behind, 26 (FloPoCo)",
    )
    CARRY_EXIT = 116, _FLOPOCO + "CARRY8, CIN to O; RapidWright has the same"
    LUT_RAM_OUT = 312, _RAPIDWRIGHT + "A6LUT, CLK to O6: a distributed RAM's written word, a shift register's bit"
    LUT_RAM_SETUP = 180, _RAPIDWRIGHT + "A6LUT, setup of WE; address 117, data 81"
    BLOCK_RAM_OUT = 1003, _RAPIDWRIGHT + "RAMB36E2, CLK to DOUT, without output register"
    BLOCK_RAM_REGISTER_OUT = 229, _RAPIDWRIGHT + "RAMB36E2, CLK to DOUT, with output register"
    BLOCK_RAM_SETUP = 394, _RAPIDWRIGHT + "RAMB36E2, setup of WE; address 383, enable 342, data 313"
    ULTRA_RAM_OUT = 1292, _RAPIDWRIGHT + "URAM288, CLK to DOUT, without output register"
    ULTRA_RAM_REGISTER_OUT = 767, _RAPIDWRIGHT + "URAM288, CLK to DOUT, with OREG"
    ULTRA_RAM_SETUP = 536, _RAPIDWRIGHT + "URAM288, setup of DIN; address 522, enable 458"
    DSP_SETUP = 280, _DSP_DUMP + "setup of the registers of A and B; taken for C, D and enables, too"
    DSP_REGISTER_OUT = 280, _DSP_DUMP + "CLK to P from the register of P"
    DSP_PREADD = 601, _DS923 + "period without pipeline registers less period without MREG, 1 / 410 MHz - 1 / 544 MHz"
    DSP_MULTIPLY = 900, _DSP_DUMP + "B to the register of P, 1450, less what PCIN takes, 550"
    DSP_ADD = 550, _DSP_DUMP + "PCIN to the register of P"
    DSP_OUT = 170, _DSP_DUMP + "CLK to P from the register of A, 1620, less B to the register of P, 1450"
    SLICE_NET = 50, _RAPIDWRIGHT + "A6LUT/O6 to AFF/D; to a multiplexer 25, to CARRY8's S 15"
    NET = (
        300,
        "estimate for one reader; in public reports of Vivado 100 to 350 on a small part, 150 to 570 on a large one",
    )
    NET_DOUBLING = 50, "estimate for twice the readers; in the same reports nets with 50 to 130 readers take 150 to 600"

    def __init__(self, ps: int, source: str):
        self.ps = ps
        self.source = source


def net_ps(readers: int) -> int:
    """Estimate the delay of a routed net with so many readers, in ps."""
    return Delay.NET.ps + round(Delay.NET_DOUBLING.ps * log2(max(readers, 1)))
