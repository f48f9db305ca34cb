"""Ends for designs that run under cocotb: memories, AXI checkers, unkind models, the driver's transport."""
