"""The whole machine: ``top``, its groups of channels (``groups``, ``channel``), and what connects them.

``tree`` and ``branch`` are the registered ways to and from all channels, ``queue`` the instruction queues,
``registers``, ``counters`` and ``faults`` what the host sees.
"""
