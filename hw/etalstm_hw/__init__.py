"""The accelerator, described in Amaranth.

``config`` has the presets, ``contract`` what software must know, ``machine/top.py`` the whole. ``program`` fetches and
dispatches instructions, ``broadcast`` sends scalars to all channels, ``compute`` is a channel's lanes with their PEs,
``dma``, ``axi`` and ``codec`` move data, ``fp`` is the arithmetic. Begin with ``compute/pe.py``, the Omni-PE.
"""
