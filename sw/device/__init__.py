"""Devices that train: golden, simulated, and (with a transport) a board."""
