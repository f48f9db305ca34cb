"""The clocks of a card: from its 100 MHz to those of accelerator and memory."""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

INPUT_MHZ = 100
VCO_MHZ = (800, 1600)  # of an MMCM in UltraScale+ of speed grade -2 (AMD DS923)
HBM_MHZ = (250, 450)  # of the memory's ports: the least for the host's link, and their largest clock (AMD PG276)
_EIGHTH = Fraction(1, 8)  # step of the multiplier and of the first divider (AMD UG572)
_MAXIMUM_ERROR = Fraction(1, 100)


@dataclass(frozen=True)
class Clocking:
    """Settings of the MMCM.

    Members
    -------
    multiplier, divider : Fraction
        Of the input clock, and from there to the accelerator's; in eighths.
    hbm_divider : int
        From there to the memory's clock.
    """

    multiplier: Fraction
    divider: Fraction
    hbm_divider: int

    @property
    def accelerator_mhz(self) -> float:
        """Frequency of the accelerator's clock."""
        return float(INPUT_MHZ * self.multiplier / self.divider)

    @property
    def hbm_mhz(self) -> float:
        """Frequency of the clock of the memory's ports."""
        return float(INPUT_MHZ * self.multiplier / self.hbm_divider)


def clocking(clock_mhz: float) -> Clocking:
    """Find the fastest clock of the accelerator that is not faster than `clock_mhz`.

    Raises
    ------
    ValueError
        If none is within 1 % of it.
    """
    wanted = Fraction(clock_mhz).limit_denominator(1000)
    best = None
    for eighths in range(VCO_MHZ[0] * 8 // INPUT_MHZ, VCO_MHZ[1] * 8 // INPUT_MHZ + 1):
        multiplier = eighths * _EIGHTH
        vco = INPUT_MHZ * multiplier
        divider = -(-vco / wanted // _EIGHTH) * _EIGHTH
        hbm_divider = vco // HBM_MHZ[0]
        if not 2 <= divider <= 128 or hbm_divider < 1 or vco > HBM_MHZ[1] * hbm_divider:
            continue
        hbm = vco / hbm_divider
        # The fastest; among equals a memory clock of whole MHz, then the lowest memory clock, then the lowest VCO.
        rank = (vco / divider, hbm.denominator == 1, -hbm, -vco)
        if best is None or rank > best[0]:
            best = rank, Clocking(multiplier, divider, int(hbm_divider))
    if best is None or best[0][0] < wanted * (1 - _MAXIMUM_ERROR):
        raise ValueError(f"clock_mhz must be 8 to {VCO_MHZ[1] // 2} on this card, got {clock_mhz}")
    return best[1]


class ClockGenerator(wiring.Component):
    """An MMCM and the buffers of its clocks.

    Parameters
    ----------
    settings : Clocking

    Members
    -------
    i, reset : :py:`In(1)`           100 MHz, already on a clock net
    accelerator, hbm : :py:`Out(1)`  the clocks
    locked : :py:`Out(1)`            both clocks are stable
    """

    def __init__(self, settings: Clocking):
        self._settings = settings
        super().__init__({"i": In(1), "reset": In(1), "accelerator": Out(1), "hbm": Out(1), "locked": Out(1)})

    def elaborate(self, platform):
        """Vendor primitives."""
        m = Module()
        settings = self._settings
        feedback, accelerator, hbm = Signal(), Signal(), Signal()
        m.submodules.mmcm = Instance(
            "MMCME4_BASE",
            p_CLKIN1_PERIOD=1000.0 / INPUT_MHZ,
            p_CLKFBOUT_MULT_F=float(settings.multiplier),
            p_CLKOUT0_DIVIDE_F=float(settings.divider),
            p_CLKOUT1_DIVIDE=settings.hbm_divider,
            i_CLKIN1=self.i,
            i_CLKFBIN=feedback,
            i_RST=self.reset,
            i_PWRDWN=0,
            o_CLKFBOUT=feedback,
            o_CLKOUT0=accelerator,
            o_CLKOUT1=hbm,
            o_LOCKED=self.locked,
        )
        m.submodules.accelerator_buffer = Instance("BUFG", i_I=accelerator, o_O=self.accelerator)
        m.submodules.hbm_buffer = Instance("BUFG", i_I=hbm, o_O=self.hbm)
        return m
