"""Networks that grow and shrink: masks of weights, structure, and the steps of hardware-guided training.

Needs the extra ``torch``. This package exports what docs/compress.md uses.
"""

from etalstm.research.compress.checkpoint import load_network
from etalstm.research.compress.masks import mask_of, put_masks
from etalstm.research.compress.steps import prune
from etalstm.research.compress.structure import Side, compact, units_of

__all__ = ["Side", "compact", "load_network", "mask_of", "prune", "put_masks", "units_of"]
