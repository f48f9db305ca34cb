"""Networks that grow and shrink: masks of weights, structure, and the steps of hardware-guided training.

Needs the extra ``torch``.
"""

from etalstm.research.compress.checkpoint import load_network
from etalstm.research.compress.masks import Mask, mask_of, masks_of, probing, put_masks
from etalstm.research.compress.network import MaskedNetwork, Network, Sizes
from etalstm.research.compress.steps import drop_empty, grow, grow_weights, prune, prune_weights, sparse_seed
from etalstm.research.compress.structure import Compact, Dimension, Side, compact, units_of
from etalstm.research.compress.task import LanguageModel, MaskedLanguageModel, MaskedSpeechModel, SpeechModel

__all__ = [
    "Compact",
    "Dimension",
    "LanguageModel",
    "Mask",
    "MaskedLanguageModel",
    "MaskedNetwork",
    "MaskedSpeechModel",
    "Network",
    "Side",
    "Sizes",
    "SpeechModel",
    "compact",
    "drop_empty",
    "grow",
    "grow_weights",
    "load_network",
    "mask_of",
    "masks_of",
    "probing",
    "prune",
    "prune_weights",
    "put_masks",
    "sparse_seed",
    "units_of",
]
