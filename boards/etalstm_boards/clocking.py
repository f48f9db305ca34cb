"""The clocks of a card: from its 100 MHz to those of accelerator and memory."""

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Cat, Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from etalstm_boards.ports import port_map
from etalstm_hw.config import Config

INPUT_MHZ = 100
VCO_MHZ = (800, 1600)  # of an MMCM in UltraScale+ of speed grade -2 (AMD DS923)
# Of the memory's ports. One user moves at most what the host's link does; two need the largest clock (AMD PG276).
OWN_PORT_MHZ, SHARED_PORT_MHZ = 250, 450
_EIGHTH = Fraction(1, 8)  # step of the multiplier and of the divider (AMD UG572)
_MAXIMUM_ERROR = Fraction(1, 100)


@dataclass(frozen=True)
class Ratio:
    """Settings of an MMCM.

    Members
    -------
    multiplier, divider : Fraction
        Of the input clock, and from there to the output; in eighths.
    """

    multiplier: Fraction
    divider: Fraction

    @property
    def mhz(self) -> float:
        """Frequency of the output."""
        return float(INPUT_MHZ * self.multiplier / self.divider)


@dataclass(frozen=True)
class Clocking:
    """Settings of the MMCMs of accelerator and memory.

    Members
    -------
    accelerator, hbm : Ratio
    """

    accelerator: Ratio
    hbm: Ratio


def clocking(config: Config) -> Clocking:
    """Find the fastest clock of the accelerator that is not faster than `clock_mhz`, and the clock of the memory.

    The memory's is of whole MHz, as in public designs of its controller.

    Raises
    ------
    ValueError
        If the accelerator's would not be within 1 % of `clock_mhz`.
    """
    return Clocking(_ratio(config.clock_mhz), _ratio(SHARED_PORT_MHZ if port_map(config).shared else OWN_PORT_MHZ))


def _ratio(clock_mhz: float) -> Ratio:
    """Find the fastest clock that is not faster than `clock_mhz`."""
    wanted = Fraction(clock_mhz).limit_denominator(1000)
    best = None
    for eighths in range(VCO_MHZ[0] * 8 // INPUT_MHZ, VCO_MHZ[1] * 8 // INPUT_MHZ + 1):
        multiplier = eighths * _EIGHTH
        vco = INPUT_MHZ * multiplier
        divider = -(-vco / wanted // _EIGHTH) * _EIGHTH
        if not 2 <= divider <= 128:
            continue
        rank = (vco / divider, divider.denominator == 1, -vco)  # the fastest; a whole divider; the lowest VCO
        if best is None or rank > best[0]:
            best = rank, Ratio(multiplier, divider)
    if best is None or best[0][0] < wanted * (1 - _MAXIMUM_ERROR):
        raise ValueError(f"clock_mhz must be 8 to {VCO_MHZ[1] // 2} on this card, got {clock_mhz}")
    return best[1]


class ClockGenerator(wiring.Component):
    """An MMCM for each of two clocks, and their buffers.

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
        locked = [self._clock(m, name, getattr(self._settings, name)) for name in ("accelerator", "hbm")]
        m.d.comb += self.locked.eq(Cat(locked).all())
        return m

    def _clock(self, m, name, settings):
        """Make a clock; tell when it is stable."""
        feedback, clock, locked = (Signal(name=f"{name}_{signal}") for signal in ("feedback", "clock", "locked"))
        m.submodules[f"{name}_mmcm"] = Instance(
            "MMCME4_BASE",
            p_CLKIN1_PERIOD=1000.0 / INPUT_MHZ,
            p_CLKFBOUT_MULT_F=float(settings.multiplier),
            p_CLKOUT0_DIVIDE_F=float(settings.divider),
            i_CLKIN1=self.i,
            i_CLKFBIN=feedback,
            i_RST=self.reset,
            i_PWRDWN=0,
            o_CLKFBOUT=feedback,
            o_CLKOUT0=clock,
            o_LOCKED=locked,
        )
        m.submodules[f"{name}_buffer"] = Instance("BUFG", i_I=clock, o_O=getattr(self, name))
        return locked
