"""Surroundings of designs that run under cocotb: memories, stalls, checkers.

``bench`` builds a design and runs its tests; begin there. ``axi_memory`` and ``unkindness`` are the other ends of its
ports, ``watch`` binds AXI checkers, ``cocotb_transport`` lets the driver train on the design.
"""
