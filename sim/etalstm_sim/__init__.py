"""The generated Verilog as an in-process device, under Verilator."""
