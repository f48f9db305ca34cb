"""The golden LSTM trainer: the same sums in the same order as the hardware, in NumPy and numba.

``reference`` is the definition: one layer in plain loops; begin there. ``cell`` has a step's element-wise work,
``arithmetic`` and ``activation`` the machine's operations. ``fast`` is the compiled engine with the same bits,
``trainer`` runs a whole network over either, and ``float64`` is the mathematics that both are measured with.
"""
