"""Compiles Verilog into a shared library, with Verilator and a C++ compiler, and joins it to the C++ of sim/cpp.

``library`` builds a whole machine; begin there. ``verilated`` compiles one module, ``core``, ``sockets`` and ``glue``
join modules to C++, ``registered`` and ``observed`` wrap them. ``toolchain``, ``guarded`` and ``runtime`` run the
tools.
"""
