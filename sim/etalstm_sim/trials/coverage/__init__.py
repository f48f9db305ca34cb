"""What of the machine the simulated programs reach: instructions in every situation, and the control logic's bits.

``measure`` runs everything; begin there. ``runs``, ``handmade`` and ``cases`` are the programs, ``recorder`` and
``toggles`` what is counted, ``bins``, ``constants`` and ``excuses`` what can be reached, ``summary`` the holes.
"""
