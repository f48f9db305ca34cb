"""Batches of sentence pairs of similar length.

Dimensions: B pairs, S tokens of the longest source, T tokens of the longest target with its end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from etalstm.research.translate.vocabulary import END, PADDING, START


@dataclass(frozen=True)
class Batch:
    """Pairs, padded.

    Members
    -------
    source : Tensor, int64, (B, S)
    source_lengths : Tensor, int64, (B,)
    given, wanted : Tensors, int64, (B, T)
        What the decoder reads at each step (the start, then the target), and what it has to answer (the target, then
        the end).
    target_lengths : Tensor, int64, (B,)
        Steps of the decoder.
    """

    source: Tensor
    source_lengths: Tensor
    given: Tensor
    wanted: Tensor
    target_lengths: Tensor

    def to(self, device: str) -> "Batch":
        """Give the batch with its tokens on a device of PyTorch; the lengths stay on the host."""
        return replace(self, **{name: getattr(self, name).to(device) for name in ("source", "given", "wanted")})


def batch_of(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Pad pairs of sentences, at least one; none of the sources is empty."""
    source, source_lengths = padded(sources)
    given, target_lengths = padded([[START, *sentence] for sentence in targets])
    wanted, _ = padded([[*sentence, END] for sentence in targets])
    return Batch(source, source_lengths, given, wanted, target_lengths)


def padded(sentences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Give sentences as one tensor (B, longest), and their lengths (B,)."""
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    tensor = torch.full((len(sentences), int(lengths.max())), PADDING)
    for row, sentence in zip(tensor, sentences, strict=True):
        row[: len(sentence)] = torch.tensor(sentence)
    return tensor, lengths


def grouped(
    lengths: Sequence[tuple[int, ...]], size: int, generator: np.random.Generator | None = None
) -> list[list[int]]:
    """Divide pairs into batches of similar length.

    Parameters
    ----------
    lengths : sequence of tuples of int
        What pairs are sorted by: the first length, where it is equal the next one.
    size : int
        Pairs of a batch; the last one has what is left.
    generator : Generator, optional
        Draws the order of pairs of equal length, then that of the batches. Without it both are in ascending order.

    Returns
    -------
    list of lists of int
        Numbers of the pairs of each batch; each pair is in one batch.
    """
    numbers = np.arange(len(lengths)) if generator is None else generator.permutation(len(lengths))
    order: list[int] = sorted(numbers.tolist(), key=lambda number: lengths[number])
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return batches if generator is None else [batches[number] for number in generator.permutation(len(batches))]
