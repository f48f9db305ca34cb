"""Shifting the leading one to the top."""

from amaranth.hdl import Signal

from etalstm_hw.fp.shift import leading_zeros, shift_left


def normalise(m, value):
    """Shift ``value`` left until its top bit is set.

    Parameters
    ----------
    m : Module
        Takes the logic, all combinational: the zeros are counted in a tree, so that the shifter's multiplexers choose
        between four places at a time.
    value : Value
        At least 2 bits.

    Returns
    -------
    The shifted value, of the same size, and the number of places. Of a zero the top bit stays clear.
    """
    zeros = Signal((len(value) - 1).bit_length(), name="zeros")
    shifted = Signal(len(value), name="shifted")
    m.d.comb += [zeros.eq(leading_zeros(value)), shifted.eq(shift_left(value, zeros))]
    return shifted, zeros
