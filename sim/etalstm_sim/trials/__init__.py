"""Long campaigns on the simulated machine: arithmetic, programs, faults, coverage, model, speed. Each has a command."""
