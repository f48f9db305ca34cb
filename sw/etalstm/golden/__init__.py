"""The golden LSTM trainer: the same sums in the same order as the hardware, in NumPy and numba.

``reference`` is one layer's training pass in plain loops, ``cell`` a step's element-wise work, ``product`` its sums and
their order, ``integers`` those that have no order: together they are the definition; begin there. ``arithmetic`` and
``activation`` are the machine's operations. ``fast`` is the compiled engine with the same bits, ``trainer`` runs a
whole network over either, and ``float64`` is the mathematics that both are measured with.
"""
