"""A model of the machine's checks: it executes a program's control, computes no value, and tells how the program ends.

It is written from docs/contract/contract.md, and shares no code with the hardware.
"""
