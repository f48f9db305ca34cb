"""The FPGA resources that a configuration needs, counted after synthesis by Yosys.

``units`` cuts the Verilog, ``synthesis`` maps each unit once, ``count`` and ``packing`` count it, ``depth`` finds the
deepest and the slowest paths. For these ``primitives`` and ``dsp_paths`` put the cells into a ``graph``, ``step`` says
what is a level, ``delays`` and ``nets`` what takes how long. ``report`` combines them; begin there. ``limits`` has the
limits that a design should keep to, and ``verdict`` says where it does not.
"""
