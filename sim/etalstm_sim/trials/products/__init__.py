"""Parts of an iteration as programs of their own: what zeros of δ save, what the codec costs, how to divide the PEs.

``side`` runs programs behind a session. ``delta`` are the products of δ, ``streams`` those beside the codec, ``shares``
looks for the best fixed division of the PEs.
"""
