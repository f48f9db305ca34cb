"""``eta-lstm hw``: Verilog, bitstreams, what they cost, and the self-test of a machine that is there."""
