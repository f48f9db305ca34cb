"""Training on the host: model ends, loop, checkpoints, metrics; and what was trained, to be used."""

from etalstm.train.trained import TrainedModel, load

__all__ = ["TrainedModel", "load"]
