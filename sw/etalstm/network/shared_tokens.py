"""Shared tokens: the terms of equal tokens of a batch in the first layer's gate sums are computed once.

If x are the vectors of tokens, equal tokens of a batch have equal x. A gate's sum is its bias, then the terms of x,
then those of h, each addition rounded. So the sum up to the last term of x depends on the token alone. It is computed
once for each distinct token, and each step continues from the sum of its token. The bits are the same.

The backward pass shares nothing: δ differs from step to step.
"""

from dataclasses import dataclass

import numpy as np

from etalstm.network.architecture import SWING, Architecture
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import check_size

OFF = "off"
"""Instead of a number of tokens: none are shared."""


@dataclass(frozen=True)
class SharedTokens:
    """The distinct tokens of a batch.

    `x`, float32, (tokens, I), has the vector of each; `numbers`, int64, (T, B), the number of each step's token, -1 at
    padding.
    """

    x: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray, x: np.ndarray, active: np.ndarray) -> "SharedTokens":
        """Find the distinct tokens of `tokens`, integers, (T, B), where `active`, bool, (T, B), is True.

        `x` is float32, (T, B, I). Raises ``ValueError`` if steps of one token have different x.
        """
        distinct, first, inverse = np.unique(tokens[active], return_index=True, return_inverse=True)
        real = x[active]
        different = np.flatnonzero((real[first][inverse] != real).any(axis=1))
        if different.size:
            step, sequence = (int(axis[different[0]]) for axis in np.nonzero(active))
            token = distinct[inverse[different[0]]]
            raise ValueError(f"equal tokens must have equal x: that of token {token} differs at [{step}, {sequence}]")
        numbers = np.full(active.shape, -1)
        numbers[active] = inverse
        return cls(real[first], numbers)

    @property
    def count(self) -> int:
        """Distinct tokens."""
        return len(self.x)

    @property
    def scalars(self) -> int:
        """Scalars multiplied for x: the nonzero ones of each distinct token, and 1 at each step for its token's sum."""
        return int(np.count_nonzero(self.x) + np.count_nonzero(self.numbers >= 0))

    @property
    def scalars_unshared(self) -> int:
        """Scalars of x that would be broadcast if no token were shared: the nonzero ones of each step."""
        return int(np.count_nonzero(self.x, axis=1)[self.numbers[self.numbers >= 0]].sum())

    def of_sequences(self, sequences: np.ndarray) -> "SharedTokens":
        """Give the distinct tokens of some sequences, by their numbers; -1 is a sequence of padding."""
        numbers = np.where(sequences < 0, -1, self.numbers[:, sequences])
        distinct, inverse = np.unique(numbers[numbers >= 0], return_inverse=True)
        renumbered = np.full(numbers.shape, -1)
        renumbered[numbers >= 0] = inverse
        return SharedTokens(self.x[distinct], renumbered)


def check_shared_tokens(count: int | None, inputs: DeltaInputs, architecture: Architecture = SWING) -> int | None:
    """Give the largest number of distinct tokens that are shared, as a Python int; None for none.

    Raises ``ValueError`` if it is no integer above 0, or tokens are shared with delta inputs or on an architecture that
    skips no zeros.
    """
    if count is None:
        return None
    count = check_size("shared_tokens", count)
    if not inputs.off:
        raise ValueError(
            f"with delta inputs changes of x are sent, which equal tokens do not share: shared_tokens must be off, "
            f"got {count}"
        )
    if not architecture.skips:
        raise ValueError(f"architecture {architecture.name} skips no zeros: shared_tokens must be off, got {count}")
    return count
