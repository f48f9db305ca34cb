"""The machines that η-LSTM is compared with, as settings of our machine: which work may use a PE, are zeros skipped.

No setting changes a bit of the results.

``swing``
    η-LSTM: every PE does any kind of work, zeros cost nothing.
``dynamic``
    Dyn-Arch: the same without skipping. With dense storage, of η-LSTM only the swinging PEs are left.
``static``
    Static-Arch: PEs fixed to kinds of work, no skipping.
``inference``
    LSTM-Inf: PEs divided as the forward pass alone wants them, none for outer products; intermediates dense, local
    gradients computed in the backward pass; no skipping.

The names are those of the comparison in "η-LSTM" (ISCA 2021); the exact definitions are ours.
"""

from dataclasses import dataclass

from etalstm.network.storage import Storage
from etalstm_hw.contract import SHARES, SLOTS


@dataclass(frozen=True)
class Division:
    """How many of every 32 PEs are fixed to each kind of work.

    A machine divided in space runs the two products of the backward pass, Wᵀδ and dW, in parallel; our programs run one
    after the other. Both have the same number of MACs, so in parallel they end when the one with fewer PEs does. With
    :attr:`backward` slots for each, one after the other takes the same time. This favours the divided machine: each
    step of Wᵀδ, for which the step before waits, has twice its PEs.

    Members
    -------
    matmul : int         for the matrix products of the forward pass, and Wᵀδ
    outer : int          for dW; with 0 it is done by the PEs of the matrix products
    elementwise : int

    Raises ``ValueError`` unless they are 32 in all, with at least one for matrix products and one for element-wise
    work.
    """

    matmul: int
    outer: int
    elementwise: int

    def __post_init__(self) -> None:
        total = self.matmul + self.outer + self.elementwise
        if self.matmul < 1 or self.outer < 0 or self.elementwise < 1 or total != SLOTS:
            raise ValueError(
                f"a division must be {SLOTS} PEs in all, at least 1 for MatMul and 1 for element-wise work, "
                f"got {self.matmul} for MatMul, {self.outer} for outer products, {self.elementwise} for element-wise"
            )

    @property
    def forward(self) -> int:
        """Slots that MACs of the forward pass may use."""
        return self.matmul

    @property
    def backward(self) -> int:
        """Slots that MACs of the backward pass may use."""
        return 2 * min(self.matmul, self.outer) if self.outer else self.matmul

    @property
    def register(self) -> int:
        """The word for ``Register.SHARES``."""
        return sum(getattr(self, name) << 8 * n for n, name in enumerate(SHARES))


@dataclass(frozen=True)
class Architecture:
    """How the machine runs.

    Members
    -------
    division : Division or None    None: PEs swing
    skips : bool                   zero scalars cost nothing
    compresses : bool              intermediates may be kept as compressed local gradients
    """

    name: str
    division: Division | None = None
    skips: bool = False
    compresses: bool = True

    def check_storage(self, storage: Storage) -> None:
        """Raise ``ValueError`` if the machine cannot store intermediates as `storage` says."""
        if storage.compressed and not self.compresses:
            raise ValueError(f"architecture {self.name} keeps its intermediates dense, not as {storage.policy}")


SWING = Architecture("swing", skips=True)
# The divisions are those that `eta-lstm bench shares` finds best (preset bench, H = I = 128, B = 32, 18 steps): fewest
# cycles of an iteration, and of a forward pass. The benchmark's TREC-10 shape is too large to simulate. Of its work,
# element-wise operations are 0.2 % and MatMul two thirds of the rest. But the forward pass leaves the PEs for outer
# products idle, so equal halves take the fewest cycles.
ARCHITECTURES = {
    entry.name: entry
    for entry in (
        SWING,
        Architecture("dynamic"),
        Architecture("static", Division(matmul=15, outer=15, elementwise=2)),
        Architecture("inference", Division(matmul=31, outer=0, elementwise=1), compresses=False),
    )
}


def architecture(name: str) -> Architecture:
    """Look up an architecture; ``ValueError`` lists the known names."""
    if name not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {name!r}, expected one of: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]
