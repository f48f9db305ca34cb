"""Training on the host: model ends, loop, checkpoints, metrics."""
