"""Networks that grow and shrink: masks of weights, structure, and the steps of hardware-guided training.

Needs the extra ``torch``.
"""

from etalstm.compress.compaction import Compact, compact
from etalstm.compress.language import LanguageModel, MaskedLanguageModel, Sizes
from etalstm.compress.masks import Mask, mask_of, masks_of, probing, put_masks
from etalstm.compress.steps import drop_empty, grow, grow_weights, prune, prune_weights, sparse_seed
from etalstm.compress.structure import Dimension, Side, units_of

__all__ = [
    "Compact",
    "Dimension",
    "LanguageModel",
    "Mask",
    "MaskedLanguageModel",
    "Side",
    "Sizes",
    "compact",
    "drop_empty",
    "grow",
    "grow_weights",
    "mask_of",
    "masks_of",
    "probing",
    "prune",
    "prune_weights",
    "put_masks",
    "sparse_seed",
    "units_of",
]
