"""Registers between the stages of a free-running pipeline."""

from amaranth.hdl import Signal, Value


def register(m, name, value, shape=None):
    """Hold ``value`` for a cycle.

    Parameters
    ----------
    m : Module
        Takes the register, in the ``sync`` domain. It has no reset: what precedes the first operands is never used.
    name : str
        Name in waveforms and Verilog.
    value : ValueLike
        What it holds.
    shape : ShapeLike, optional
        Shape of the register; without it that of ``value``.

    Returns
    -------
    Signal or View
    """
    stage = Signal(Value.cast(value).shape() if shape is None else shape, name=name, reset_less=True)
    m.d.sync += stage.eq(value)
    return stage


def registers(m, name, value, count):
    """Hold ``value`` for ``count`` cycles, as :func:`register` does for one."""
    for n in range(count):
        value = register(m, f"{name}_{n}", value)
    return value
