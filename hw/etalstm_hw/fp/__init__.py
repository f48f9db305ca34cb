"""Floating-point units over a :class:`~etalstm_hw.fp.format.FloatFormat`.

``multiply``, ``add`` and ``activation`` are the units. ``format`` takes words apart and rounds, ``shift`` and
``normalise`` move significands, ``pipeline`` places the registers.
"""
