"""Processes that mpiexec has started together.

``process`` leads or serves, ``world`` knows the ranks and sends them what rank 0 asks for, ``messages`` carries objects
and arrays, ``roster`` writes down which process is which rank.
"""
