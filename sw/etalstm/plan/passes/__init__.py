"""The programs of a training step.

``forward`` and ``forward_stage`` write the forward pass, ``backward`` and ``propagation`` the backward pass,
``gradient`` dW, ``update`` and ``refresh`` the optimiser. ``send``, ``needed`` and ``collect`` belong to delta inputs,
``token_sums`` to shared tokens, ``accumulate``, ``norms`` and ``spread`` to groups of channels.
"""
