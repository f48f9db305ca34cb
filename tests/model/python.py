"""Lets tests call the model's inner functions."""

from numba import njit


def from_python(*functions):
    """Give compiled functions that Python can call, of those that only compiled ones can."""
    return [njit(_nrt=False)(function.py_func) for function in functions]
