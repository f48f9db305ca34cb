"""Campaigns on the simulated machine: arithmetic, programs, faults, coverage, model, products, speed.

Each has a command.
"""
