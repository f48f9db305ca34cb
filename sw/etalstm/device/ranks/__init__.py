"""Several processes with a device each, as one device.

The processes share the batch (:mod:`etalstm.device.ranks.device`), or the layers
(:mod:`etalstm.device.ranks.pipeline`).

MPI starts the processes and names them *ranks*: ``mpiexec -n 4 eta-lstm train …``. Rank 0 runs the command. The other
ranks do what rank 0 asks of them, see :mod:`etalstm.device.ranks.team`. They read no settings and write no file.
"""
