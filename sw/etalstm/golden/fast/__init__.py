"""The compiled engine: the reference's bits, fast enough to train with.

``sums`` and ``tile`` compute the MAC sums, ``packing`` lays out their operands. ``compiled`` is the LSTM's pass,
``declared`` that of any other cell, ``delta`` that of delta inputs.
"""
