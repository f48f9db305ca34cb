"""BLEU of translations, as sacrebleu computes it: its signature says how, so that others can compute the same."""

from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from etalstm.research.translate.vocabulary import SPACES, Tokens


def bleu(translations: Sequence[str], references: Sequence[str], tokens: Tokens) -> tuple[float, str]:
    """Score translations, one reference each.

    Returns
    -------
    score : float
        0 to 100, of the corpus.
    signature : str
        Of sacrebleu. Texts that white space divides already are not divided again (``tok:none``).
    """
    metric = BLEU(lowercase=tokens.lower, tokenize="none" if tokens.unit == SPACES else "13a", force=True)
    score = metric.corpus_score(list(translations), [list(references)]).score
    return float(score), str(metric.get_signature())
