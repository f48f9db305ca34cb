"""The four steps that change a network: grow weights, prune units, grow units, prune weights.

The source is Yin et al., "Hardware-Guided Symbiotic Training for Compact, Accurate, yet Execution-Efficient LSTM".
docs/compress.md says how we read its listings.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from etalstm.network.storage import check_share
from etalstm.nn import HLSTM
from etalstm.research.compress.masks import Mask
from etalstm.research.compress.structure import Dimension, Side, total


def sparse_seed(masks: Iterable[Mask], density: float, generator: torch.Generator) -> None:
    """Keep a random share of the elements of every matrix; biases are left as they are.

    ``ValueError`` if the share is not above 0 and at most 1.
    """
    check_share("density", density)
    for mask in masks:
        if mask.elements.dim() == 2:
            order = torch.rand(mask.elements.shape, generator=generator).flatten().argsort()
            kept = torch.zeros(order.shape, dtype=torch.bool)
            kept[order[: max(1, round(density * len(order)))]] = True
            mask.set(elements=kept.reshape(mask.elements.shape))


def grow_weights(masks: Iterable[tuple[Mask, nn.Parameter]], ratio: float) -> int:
    """Wake the masked weights with the largest gradients of their matrix, beginning as zero; give how many there are.

    A masked element is woken if its row and column are kept, its gradient is not zero, and the gradient's magnitude is
    at least that of number ``ratio · R · C`` of all R · C gradients of the matrix, the largest first. The gradients are
    of a pass under :func:`etalstm.research.compress.masks.probing`.

    ``ValueError`` if the ratio is not above 0 and at most 1, or a weight has no gradient.
    """
    check_share("growth ratio", ratio)
    grown = 0
    for mask, weight in masks:
        if weight.grad is None:
            raise ValueError(f"growing needs gradients, a weight of shape {tuple(weight.shape)} has none")
        sizes = weight.grad.abs()
        limit = sizes.flatten().sort(descending=True).values[max(1, round(ratio * sizes.numel())) - 1]
        woken = (sizes >= limit) & (sizes > 0) & mask.structure & ~mask.elements
        with torch.no_grad():
            weight[woken] = 0.0
        mask.set(elements=mask.elements | woken)
        grown += int(woken.sum())
    return grown


def prune_weights(masks: Iterable[tuple[Mask, Tensor]], ratio: float) -> int:
    """Mask the smallest kept weights of each matrix, and give their number.

    Of n kept weights ``ratio · n`` go, rounded down: those with the smallest magnitudes. Of equal ones the first go.
    ``ValueError`` if the ratio is not above 0 and below 1.
    """
    if not 0 < ratio < 1:
        raise ValueError(f"pruning ratio must be above 0 and below 1, got {ratio!r}")
    pruned = 0
    for mask, weight in masks:
        positions = mask.kept.flatten().nonzero()[:, 0]
        smallest = weight.detach().flatten()[positions].abs().argsort(stable=True)[: int(ratio * len(positions))]
        elements = mask.elements.flatten().clone()
        elements[positions[smallest]] = False
        mask.set(elements=elements.reshape(mask.elements.shape))
        pruned += len(smallest)
    return pruned


def prune(dimension: Dimension, count: int) -> None:
    """Remove the elements with the smallest sums of magnitudes until `count` are left; of equal ones the first go.

    The weights that make a removed element are set to zero. The weights that read the element stay stored: see
    :func:`grow`. ``ValueError`` if `count` is not from 1 to the number that is kept.
    """
    if not 1 <= count <= dimension.count:
        raise ValueError(f"{dimension.name}: pruning must leave 1 to {dimension.count}, got {count}")
    magnitudes = dimension.magnitudes().masked_fill(~dimension.kept, -1.0)
    removed = magnitudes.argsort(stable=True)[: len(magnitudes) - count]
    kept = torch.ones_like(dimension.kept)
    kept[removed] = False
    with torch.no_grad():
        for side in dimension.makers:
            side.stored[side.whole(~kept)] = 0.0
    dimension.keep(kept)


def grow(dimension: Dimension, count: int, learning_rate: float) -> None:
    """Wake the removed elements with the largest sums of gradients until `count` are kept.

    All weights that make a woken element are kept, whichever were masked before. They begin as a step of descent from
    zero, ``-learning_rate · gradient``. The weights that read the element are those from before it was removed. The
    gradients are of a pass under :func:`etalstm.research.compress.masks.probing` and :meth:`Dimension.readers_open`.

    ``ValueError`` if there are fewer elements than `count`, or more than that are kept already, there are no gradients,
    or the dimension is of an H-LSTM.
    """
    size = len(dimension.kept)
    if any(isinstance(side.module, HLSTM) for side in dimension.makers):
        raise ValueError(f"{dimension.name}: units of an H-LSTM cannot grow, as ReLU has no gradient at 0")
    if not dimension.count <= count <= size:
        raise ValueError(f"{dimension.name}: growth must lead to {dimension.count} to {size}, got {count}")
    slopes = [side.stored.grad for side in dimension.makers]
    gradients = [slope for slope in slopes if slope is not None]
    if len(gradients) < len(slopes):
        raise ValueError(f"{dimension.name}: growing needs gradients, there are none")
    pairs = list(zip(dimension.makers, gradients, strict=True))
    sums = total(side.sums(gradient) for side, gradient in pairs).masked_fill(dimension.kept, -1.0)
    woken = torch.zeros_like(dimension.kept)
    woken[sums.argsort(descending=True, stable=True)[: count - dimension.count]] = True
    with torch.no_grad():
        for side, gradient in pairs:
            of_woken = side.whole(woken)
            side.stored[of_woken] = -learning_rate * gradient[of_woken]
            side.mask.set(elements=side.mask.elements | of_woken)
    dimension.keep(dimension.kept | woken)


def drop_empty(dimension: Dimension) -> int:
    """Remove elements that no weight makes any more, or that no weight reads; give how many.

    An element goes if all its weights in the matrices that make it are masked, or all in those that read it. Biases do
    not count. One element always stays.
    """
    made, read = (_count_weights(sides) for sides in (dimension.makers, dimension.readers))
    kept = dimension.kept & (made > 0) & (read > 0)
    if not kept.any():
        kept = torch.zeros_like(kept).scatter(0, (made + read).argmax()[None], True)
    dropped = dimension.count - int(kept.sum())
    if dropped:
        dimension.keep(kept)
    return dropped


def _count_weights(sides: Iterable[Side]) -> Tensor:
    """Count the kept weights of each element in matrices: (n,)."""
    return total(side.sums(side.mask.kept.float()) for side in sides if side.mask.elements.dim() == 2)
