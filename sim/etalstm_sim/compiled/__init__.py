"""Verilog made into a shared library: Verilator, a C++ compiler, and what joins the design to the C++ of sim/cpp."""
