"""The golden LSTM trainer: the same sums in the same order as the hardware, in NumPy and numba."""
