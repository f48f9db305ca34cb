"""The whole machine: ``top``, its groups of channels (``groups``, ``channel``), and what connects them.

``tree`` and ``branch`` are the registered ways to and from all channels. ``barrier`` counts the STOREs that every
channel has completed. ``registers``, ``counters`` and ``faults`` are what the host sees.
"""
