"""The generated Verilog as an in-process device, under Verilator.

``transport`` is what a device opens, ``simulation`` the library behind it, ``compiled`` builds that library
from ``cpp`` and the Verilog. ``benches`` runs cocotb, ``checks`` predicts which programs the machine
refuses, ``trials`` are long campaigns.
"""
