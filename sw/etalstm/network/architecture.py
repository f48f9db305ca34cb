"""The machines that η-LSTM is compared with, each a setting of the one machine there is: who may use its PEs when, and
whether zeros are skipped. No setting changes a bit of what is computed.

``swing``
    η-LSTM: every PE does what there is to do, zeros cost nothing.
``dynamic``
    Dyn-Arch: the same without skipping. With dense storage it has no part of η-LSTM but the swinging PEs.
``static``
    Static-Arch: PEs fixed to kinds of work, no skipping.
``inference``
    LSTM-Inf: PEs divided as the forward pass alone wants them, none for outer products; intermediates dense, local
    gradients computed in the backward pass; no skipping.

The names are those of the comparison in "η-LSTM" (ISCA 2021); what exactly they are made of is ours to define.
"""

from dataclasses import dataclass

from etalstm.network.storage import Storage
from etalstm_hw.contract import SHARES, SLOTS


@dataclass(frozen=True)
class Division:
    """PEs fixed to kinds of work: of every 32, how many.

    A machine divided in space runs the two products of the backward pass, Wᵀδ and dW, side by side; our programs run
    one after the other. Both have the same number of MACs, so side by side they end when the one with fewer PEs does,
    and :attr:`backward` slots give the two in turn that very time. It favours the divided machine: each step of Wᵀδ,
    for which the step before waits, has twice its PEs.

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
        parts = (self.matmul, self.outer, self.elementwise)
        if self.matmul < 1 or self.outer < 0 or self.elementwise < 1 or sum(parts) != SLOTS:
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
        """Raise ``ValueError`` if it cannot keep intermediates like this."""
        if storage.compressed and not self.compresses:
            raise ValueError(f"architecture {self.name} keeps its intermediates dense, not as {storage.policy}")


SWING = Architecture("swing", skips=True)
# The divisions are those that `eta-lstm bench shares` finds best (preset bench, H = I = 128, B = 32, 18 steps): fewest
# cycles of an iteration, and of a forward pass. Of the work of the benchmark's TREC-10 shape, which is too large to
# simulate, element-wise operations are 0.2 % and MatMul two thirds of the rest; but since the forward pass leaves the
# PEs for outer products idle, equal halves end first.
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
    """Look up an architecture; ``ValueError`` lists those there are."""
    if name not in ARCHITECTURES:
        raise ValueError(f"unknown architecture {name!r}, expected one of: {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]
