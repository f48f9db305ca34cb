"""The programs of a training step.

``forward`` writes the forward pass with the ``sums`` of its gates, ``backward`` and ``propagation`` the backward pass,
``gradient`` dW and db, ``update`` the optimiser. ``send`` is delta inputs, ``accumulate`` adds gradients of parts of a
batch and of groups of channels, ``weights`` brings weights to the lanes.
"""
