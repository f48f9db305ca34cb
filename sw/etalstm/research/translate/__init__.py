"""Translation of sentences: an encoder LSTM, a decoder LSTM, and attention from the one to the other.

Needs the extra ``translate``, which has PyTorch and sacrebleu.
"""

from etalstm.research.translate.network import Translator
from etalstm.research.translate.search import beam_search
from etalstm.research.translate_settings import Sizes

__all__ = ["Sizes", "Translator", "beam_search"]
