"""Shifting the leading one to the top."""

from amaranth.hdl import C, Cat, Mux, Signal


def normalise(m, value):
    """Shift ``value`` left until its top bit is set, in halving steps.

    Parameters
    ----------
    m : Module
        Takes the logic, all combinational: one OR and one 2:1 multiplexer per step.
    value : Value
        At least 2 bits.

    Returns
    -------
    The shifted value, of the same size, and the number of places. Of a zero the top bit stays clear.
    """
    size = len(value)
    cleared = []
    for step in reversed(range((size - 1).bit_length())):
        places = 1 << step
        clear = Signal(name=f"clear_{places}")
        shifted = Signal(size, name=f"shifted_{places}")
        m.d.comb += [
            clear.eq(~value[-places:].any()),
            shifted.eq(Mux(clear, Cat(C(0, places), value[:-places]), value)),
        ]
        cleared.insert(0, clear)
        value = shifted
    return value, Cat(cleared)
