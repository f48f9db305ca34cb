"""The accelerator on cards: clocks, memory, host link, and the files that Vivado makes a bitstream of.

``card`` is the whole design; begin there. ``vcu128`` and ``u280`` are the boards, ``shell`` is what lies between
machine and vendor's controllers (``dma``, ``hbm``, ``pcie``, ``reset``). ``build`` writes a project, ``run`` starts
Vivado, ``program`` loads a card. ``resources`` counts what a configuration takes of a part.
"""
