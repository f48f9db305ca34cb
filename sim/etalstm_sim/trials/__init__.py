"""Long campaigns on the simulated machine: arithmetic, programs, faults, coverage, speed. Each has a command."""
