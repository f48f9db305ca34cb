"""Translation of sentences: an encoder LSTM, a decoder LSTM, and attention from the one to the other.

Needs the extra ``translate``, which has PyTorch and sacrebleu.
"""

from etalstm.research.translate.attention import AdditiveAttention, DotAttention
from etalstm.research.translate.corpus import Pairs, read_pairs
from etalstm.research.translate.network import Translator
from etalstm.research.translate.search import beam_search, greedy_search
from etalstm.research.translate_settings import Sizes

__all__ = [
    "AdditiveAttention",
    "DotAttention",
    "Pairs",
    "Sizes",
    "Translator",
    "beam_search",
    "greedy_search",
    "read_pairs",
]
