"""Lets tests call the model's inner functions."""

from numba import njit


def from_python(*functions):
    """Give versions that Python can call of compiled functions that only compiled functions can call."""
    return [njit(_nrt=False)(function.py_func) for function in functions]
