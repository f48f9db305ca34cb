"""Layouts of a batch's matrix products in PyTorch: ``layout`` chooses by timing, ``choices`` remembers."""
