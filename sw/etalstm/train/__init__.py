"""Training on the host: embedding and output layer, loop, checkpoints, metrics; and trained networks.

``loop`` is a run, ``learner`` one network that learns batch by batch; begin there. ``settings`` and ``data_settings``
are a user's choices. ``significance`` and ``control`` decide which cells are skipped and how they are stored.
``checkpoint`` and ``folder`` store a run, ``trained`` uses its network, ``launch`` runs it on several processes.
"""

from etalstm.train.trained import TrainedModel, load

__all__ = ["TrainedModel", "load"]
