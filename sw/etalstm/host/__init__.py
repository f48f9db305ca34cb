"""The computer that this runs on: what all packages use of it.

Processors, memory and processes (``computer``), threads (``crew``); atomic writes of files (``durable``), cached builds
(``cached_build``); checked input (``strict``), timing (``turns``), figures (``drawing``), and the processes that
mpiexec started together (``mpi``).
"""
