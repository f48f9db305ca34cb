"""Translations: greedy and by beam search.

Dimensions: B sentences, W width of the beam, V tokens.
"""

import torch
from torch import Tensor

from etalstm.network.shape import check_size
from etalstm.research.translate.corpus import END, PADDING, START
from etalstm.research.translate.network import State, Translator

NEVER = (PADDING, START)  # tokens that no translation has


@torch.no_grad()
def greedy_search(model: Translator, source: Tensor, lengths: Tensor, longest: int) -> list[list[int]]:
    """Take the best token at each step; give the tokens of each sentence before its end.

    Sources are (B, S), of lengths (B,). A translation is cut after `longest` tokens; ``ValueError`` if that is below 1.
    """
    check_size("longest", longest)
    memory, state = model.encode(source, lengths)
    tokens, ended, found = torch.full((len(source),), START), torch.zeros(len(source), dtype=torch.bool), []
    for _ in range(longest):
        scores, state = model.step(tokens, state, memory)
        tokens = _allowed(scores).argmax(1).masked_fill(ended, END)
        found.append(tokens)
        ended |= tokens == END
        if ended.all():
            break
    return [_before_end(row) for row in torch.stack(found, 1).tolist()]


@torch.no_grad()
def beam_search(
    model: Translator, source: Tensor, lengths: Tensor, longest: int, width: int, penalty: float = 1.0
) -> list[list[int]]:
    """Follow the W best beginnings of each sentence, and take the best that ends; parameters as of
    :func:`greedy_search`.

    With a `width` W of 1 the result is that of :func:`greedy_search`. A translation's log-probability is divided by
    its number of tokens, end included, to the power of `penalty`. ``ValueError`` if `longest` or `width` is below 1.
    """
    check_size("longest", longest)
    check_size("width", width)
    memory, state = model.encode(source, lengths)
    beams = _Beams(len(source), width, longest, penalty)
    memory, (h, c) = memory.repeated(width), state
    state = h.repeat_interleave(width, 1), c.repeat_interleave(width, 1)
    for _ in range(longest):
        scores, state = model.step(beams.last, state, memory)
        state = beams.extend(_allowed(scores).log_softmax(1), state)
        if beams.ended.all():
            break
    return beams.best()


class _Beams:
    """The beginnings that a search follows: W for each of B sentences, one sentence after the other.

    `last` has the last token of each, (B·W,). `ended` is bool, (B, W).
    """

    def __init__(self, sentences: int, width: int, longest: int, penalty: float):
        self._penalty = penalty
        self._first = torch.arange(sentences)[:, None] * width  # row of each sentence's first beginning
        self._sums = torch.full((sentences, width), -torch.inf)  # log-probabilities
        self._sums[:, 0] = 0.0  # at first all beginnings are the same one
        self._lengths = torch.zeros(sentences, width)
        self._tokens = torch.empty(sentences, width, 0, dtype=torch.int64)
        self.ended = torch.zeros(sentences, width, dtype=torch.bool)
        self.last = torch.full((sentences * width,), START)

    def extend(self, scores: Tensor, state: State) -> State:
        """Take the best continuations, given log-probabilities (B·W, V); give their states."""
        sentences, width = self._sums.shape
        scores = scores.reshape(sentences, width, -1)
        only_end = torch.full_like(scores[0, 0], -torch.inf)
        only_end[END] = 0.0  # an ended beginning stays as it is
        scores = torch.where(self.ended[:, :, None], only_end, scores)
        sums = self._sums[:, :, None] + scores
        lengths = self._lengths + ~self.ended
        ranks = sums / lengths[:, :, None] ** self._penalty
        chosen = ranks.flatten(1).topk(width, 1).indices
        parents, tokens = chosen // scores.shape[2], chosen % scores.shape[2]
        self._sums, self._lengths = sums.flatten(1).gather(1, chosen), lengths.gather(1, parents)
        kept = self._tokens.gather(1, parents[:, :, None].expand(-1, -1, self._tokens.shape[2]))
        self._tokens = torch.cat([kept, tokens[:, :, None]], 2)
        self.ended, self.last = tokens == END, tokens.flatten()
        rows = (self._first + parents).flatten()
        h, c = state
        return h[:, rows], c[:, rows]

    def best(self) -> list[list[int]]:
        """Give the tokens of each sentence's best translation: of those that have ended, if there are any."""
        ranks = self._sums / self._lengths**self._penalty
        ranks = ranks.masked_fill(~self.ended & self.ended.any(1, keepdim=True), -torch.inf)
        return [_before_end(tokens[best].tolist()) for tokens, best in zip(self._tokens, ranks.argmax(1), strict=True)]


def _allowed(scores: Tensor) -> Tensor:
    scores = scores.clone()
    scores[:, NEVER] = -torch.inf
    return scores


def _before_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(END)] if END in tokens else tokens
