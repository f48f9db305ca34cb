"""What a configuration takes of a part, by Yosys' count.

``units`` cuts the Verilog, ``synthesis`` maps each unit once, ``count`` and ``packing`` count it, ``depth`` finds the
deepest logic. ``report`` puts this together; begin there. ``limits`` says what is too much.
"""
