"""Shifters for aligning and normalising significands, and the powers of two that multipliers shift by."""

from amaranth.hdl import C, Cat, Mux


def choose(select, options):
    """Choose by the number ``select``: two bits and four options of one bit each fill a LUT of six inputs."""
    if len(options) == 1:
        return options[0]
    half = 1 << (len(select) - 1)
    return Mux(select[-1], choose(select[:-1], options[half:]), choose(select[:-1], options[:half]))


def _pairs(places):
    """The bits of a number of places in pairs, the most significant ones first, and what the lower of a pair weighs."""
    for low in reversed(range(0, len(places), 2)):
        yield places[low : low + 2], 1 << low


def shift_left(value, places):
    """Shift ``value`` left; the size stays."""
    size = len(value)
    for select, step in _pairs(places):
        moves = [min(n * step, size) for n in range(1 << len(select))]
        value = choose(select, [Cat(C(0, move), value[: size - move]) if move else value for move in moves])
    return value


def leading_zeros(value):
    """Count the zeros above the leading one; of a zero the number is all ones."""
    size = 1 << (len(value) - 1).bit_length()
    return _count(Cat(C(0, size - len(value)), value) if size > len(value) else value)[1]


def _count(value):
    """Give whether there is a one, and the zeros above the first."""
    if len(value) == 2:
        return value.any(), ~value[1]
    half = len(value) // 2
    (below, low), (above, high) = _count(value[:half]), _count(value[half:])
    return above | below, Cat(Mux(above, high, low), ~above)


def signed_power(places, negative):
    """Give two to the power of ``places``, or minus that: all ones from there on."""
    size = (1 << len(places)) + 1
    value = Cat(C(1, 1), negative.replicate(size - 1))
    for low in range(0, len(places), 2):  # by four at a time, for LUTs, but as shifts, which simulate fast
        value = (value << Cat(C(0, low), places[low : low + 2]))[:size]
    return value.as_signed()
