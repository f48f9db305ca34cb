"""Floating-point units over a :class:`~etalstm_hw.fp.format.FloatFormat`."""
