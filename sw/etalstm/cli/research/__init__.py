"""``eta-lstm research``: the front ends of :mod:`etalstm.research`."""
