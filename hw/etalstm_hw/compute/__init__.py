"""A channel's lanes: ``pe`` (the Omni-PE), ``memory``, the MAC engine (``mac``) and the element-wise one.

``compute`` joins them and gives each cycle to one of the two engines: swing.
"""
