"""Training on the host: model ends, loop, checkpoints, metrics; and what was trained, to be used.

``loop`` is a run, ``learner`` one network that learns batch by batch; begin there. ``settings`` and ``data_settings``
are what a user chooses. ``significance`` and ``control`` decide what is skipped and stored. ``checkpoint`` and
``folder`` keep a run, ``trained`` uses it, ``launch`` runs it on several processes.
"""

from etalstm.train.trained import TrainedModel, load

__all__ = ["TrainedModel", "load"]
