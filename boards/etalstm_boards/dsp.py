"""The PE of integers as one DSP slice of UltraScale+ (AMD UG579)."""

from amaranth.hdl import C, Cat, ClockSignal, Instance, Module, Signal

from etalstm_hw.integer.pe import IntegerPE
from etalstm_hw.integer.widths import FIELD_BITS

A_BITS, B_BITS, C_BITS, D_BITS, P_BITS = 30, 18, 48, 27, 48
"""Bits of the ports of a DSP48E2."""

_INMODE = 0b00100  # D + A2 and B2
_M = 0b0101  # OPMODE: the multiplexers X and Y take the product
_Z_OF_P = 0b010
_REGISTERS = {
    "AREG": 1, "ACASCREG": 1, "BREG": 2, "BCASCREG": 2, "DREG": 1, "ADREG": 1, "MREG": 1, "PREG": 1, "OPMODEREG": 1,
    "CREG": 0, "INMODEREG": 0, "ALUMODEREG": 0, "CARRYINREG": 0, "CARRYINSELREG": 0,
}  # fmt: skip
_ENABLED = ("CEA2", "CEB1", "CEB2", "CED", "CEAD", "CEM", "CEP", "CECTRL")
_UNUSED = ("CEA1", "CEC", "CEINMODE", "CEALUMODE", "CECARRYIN", "CARRYIN")
_RESETS = ("A", "B", "C", "D", "M", "P", "CTRL", "INMODE", "ALUMODE", "ALLCARRYIN")


class DSP48E2PE(IntegerPE):
    """What :class:`~etalstm_hw.integer.pe.IntegerPE` is, as an instance of the primitive, register by register."""

    def elaborate(self, platform):
        """Connect the slice: the lower weight to A, the upper one to D, the scalar to B."""
        m = Module()
        upper = Signal(D_BITS)
        sums = Signal(P_BITS)
        opmode = Cat(C(_M, 4), (C(_Z_OF_P, 3) & (~self.begins).replicate(3)), C(0, 2))
        ports = {"A": _extended(self.low, A_BITS), "B": _extended(self.scalar, B_BITS), "C": C(0, C_BITS), "D": upper}
        ports |= {"INMODE": C(_INMODE, 5), "OPMODE": opmode, "ALUMODE": C(0, 4), "CARRYINSEL": C(0, 3)}
        ports |= dict.fromkeys(_ENABLED, C(1, 1)) | dict.fromkeys(_UNUSED, C(0, 1))
        ports |= {f"RST{name}": C(0, 1) for name in _RESETS}
        m.submodules.slice = Instance(
            "DSP48E2",
            **{f"p_{name}": value for name, value in _REGISTERS.items()},
            p_AMULTSEL="AD",
            p_BMULTSEL="B",
            p_PREADDINSEL="A",
            p_USE_MULT="MULTIPLY",
            i_CLK=ClockSignal(),
            **{f"i_{name}": value for name, value in ports.items()},
            o_P=sums,
        )
        m.d.comb += [upper.eq(self.high << FIELD_BITS), self.sums.eq(sums)]
        return m


def _extended(value, bits):
    """Repeat the sign."""
    return Cat(value, value[-1].replicate(bits - len(value)))
