"""What is computed, whatever computes it.

``cells`` declares the equations of each cell; ``shape`` says which layers a network has. ``storage`` is what cells keep
for the backward pass, ``slices`` the order in which gradients are added, ``update_rule`` what follows from them.
``delta_inputs``, ``shared_tokens`` and ``weight_format`` are further choices of a run, ``architecture`` how the machine
runs. A new cell is a file beside ``cells/lstm.py``; a new storage policy an entry of ``storage.POLICIES``.
"""
