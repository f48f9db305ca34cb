"""Floating-point units over a :class:`~etalstm.hw.fp.format.FloatFormat`."""
