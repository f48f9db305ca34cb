"""Coverage by simulated programs: instructions in every situation, and bits of the control logic.

``measure`` runs everything; begin there. ``runs``, ``handmade`` and ``cases`` are the programs, ``recorder`` and
``toggles`` count, ``bins``, ``constants`` and ``excuses`` say what can be reached, ``summary`` finds holes.
"""
