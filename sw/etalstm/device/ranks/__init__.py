"""Several processes with a device each, as one device: they share the batch (``device``), or the layers (``pipeline``).

MPI starts the processes and names them *ranks*: ``mpiexec -n 4 eta-lstm train …``. Rank 0 runs the command. The other
ranks do what rank 0 asks of them, see :func:`etalstm.device.ranks.team.serve`. They read no settings and write no file.
"""
