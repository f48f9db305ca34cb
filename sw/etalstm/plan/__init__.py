"""From a network and a configuration to a memory map and programs.

``memory`` decides where every array lies, ``program`` builds instructions with their waits and loops, ``passes`` writes
the programs of a training step, ``choose`` picks groups, slices and budgets. Begin with ``plan.Plan``, which puts them
together; a step's forward pass is written in ``passes/forward.py``.
"""
