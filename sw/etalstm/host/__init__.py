"""The computer that this runs on, and what every room needs of it.

Processors, memory, threads and processes; files that are whole or not there (``durable``), builds that are made once
(``cached_build``); checked input (``strict``, ``toml``), timing (``turns``) and figures (``drawing``). ``mpi`` has the
processes that mpiexec started together.
"""
