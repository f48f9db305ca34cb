"""Devices around devices: ``paranoid`` compares with golden, ``offload`` leaves the forward passes to the host."""
