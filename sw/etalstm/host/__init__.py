"""The computer that this runs on, and what every room needs of it.

Processors, memory and processes (``computer``) and threads (``crew``); files that are whole or not there (``durable``),
builds that are made once (``cached_build``); checked input (``strict``), timing (``turns``), figures (``drawing``), and
the processes that mpiexec started together (``mpi``).
"""
