"""What is computed, independent of the device.

``cells`` declares the equations of each cell; ``shape`` says which layers a network has. ``storage`` says which
intermediates cells store, ``slices`` in which order gradients are added, ``update_rule`` how the weights change.
``execution`` has all that a run chooses, with ``delta_inputs``, ``shared_tokens`` and ``architecture``. A new cell is a
file beside ``cells/lstm.py``; a new storage policy begins as an entry of ``storage.POLICIES``.
"""

from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.execution import Execution
from etalstm.network.shape import LayerParameters, NetworkShape, initial_parameters
from etalstm.network.storage import Storage

__all__ = ["DeltaInputs", "Execution", "LayerParameters", "NetworkShape", "Storage", "initial_parameters"]
