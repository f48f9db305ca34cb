"""The accelerator on cards: clocks, memory, host link, and the files that Vivado makes a bitstream of.

``card`` is the whole design; begin there. ``vcu128`` and ``u280`` are the boards. ``shell`` connects the machine with
the vendor's controllers (``host_bridge``, ``hbm``, ``pcie``, ``reset``). ``build`` writes a project, ``run`` starts
Vivado, ``program`` loads a card. ``resources`` counts the FPGA resources that a configuration needs.
"""
