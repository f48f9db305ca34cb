"""``eta-lstm bench``: cycles of iterations and of parts of the machine, speed of simulators, boards and trainers."""
