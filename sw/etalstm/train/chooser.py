"""The storages ``auto`` and ``auto-fastest``: each layer keeps what was the better in the epoch before.

``auto`` takes the smaller: ``dense`` keeps five words for each element of a cell, ``ms1`` a mask bit and the kept word
for each of six local gradients. The smaller of the two also moves fewer bytes: either goes to memory once and comes
back once. ``auto-fastest`` takes the one with fewer cycles. The element-wise work of both is the same and their bytes
move beside it, so what counts is what ``ms1`` has made zero of δ, which no product is spent on: ``ms1``, be it the
larger, unless nearly all of δ is left. Then its streams cost a hundredth of the cycles and save nothing.

Numbers decide that are the same on every device: counts of kept elements, no cycles, no sizes of beats or logs.
``ms1-bf16`` is no candidate, as it would always win: at most 3.2 words. What it costs is accuracy, which no planner
sees, so a user must ask for it.
"""

from etalstm.network.storage import DENSE_TENSORS, KINDS, Usage
from etalstm_hw.contract import STREAM_BLOCK

SMALLEST, FASTEST = CHOOSING = ("auto", "auto-fastest")
PROBE_EPOCHS = 4  # a dense layer is kept as streams again, and so measured, after so many epochs
DELTA_BAR = 0.95  # nonzero share of δ above which ms1 saves nothing; some of δ is zero in dense layers too


class Chooser:
    """Chooses every layer's policy, ``dense`` or ``ms1``, epoch by epoch; the first one is ``ms1``, which measures.

    Parameters
    ----------
    layers : int
    storage : str
        One of ``CHOOSING``.

    Members
    -------
    policies : tuple of str
        Of the epoch at hand.
    state : dict of lists of numbers
        All of it, for a checkpoint; may be set.
    """

    def __init__(self, layers: int, storage: str = SMALLEST):
        self._fastest = storage == FASTEST
        self.state = {
            "dense_for": [0] * layers, "words": [0.0] * layers, "deltas": [0.0] * layers, "iterations": 0
        }  # fmt: skip

    @property
    def state(self) -> dict:
        """Epochs for which each layer has been dense, and the epoch's sums."""
        sums = {"words": [*self._words], "deltas": [*self._deltas], "iterations": self._iterations}
        return {"dense_for": [*self._dense_for]} | sums

    @state.setter
    def state(self, state: dict) -> None:
        self._dense_for, self._words = [*state["dense_for"]], [*state["words"]]
        deltas = state.get("deltas", [0.0] * len(self._words))  # checkpoints made before ``auto-fastest`` have none
        self._deltas, self._iterations = [*deltas], state["iterations"]

    @property
    def policies(self) -> tuple[str, ...]:
        """What each layer keeps in the epoch at hand."""
        return tuple("dense" if epochs else "ms1" for epochs in self._dense_for)

    def measure(self, usages: list[Usage]) -> None:
        """Take in what the layers kept in an iteration; of a dense one not every device knows what it would."""
        for layer, (usage, dense) in enumerate(zip(usages, self._dense_for, strict=True)):
            self._words[layer] += 0.0 if dense else words_per_element(usage)
            self._deltas[layer] += 0.0 if dense else usage.delta_density
        self._iterations += 1

    def end_epoch(self) -> None:
        """Choose anew."""
        sums, bar = (self._deltas, DELTA_BAR) if self._fastest else (self._words, DENSE_TENSORS)
        for layer, (total, dense) in enumerate(zip(sums, self._dense_for, strict=True)):
            stays = 0 < dense < PROBE_EPOCHS
            loses = not dense and total > bar * self._iterations
            self._dense_for[layer] = dense + 1 if stays or loses else 0
        nothing = [0.0] * len(self._dense_for)
        self._words, self._deltas, self._iterations = nothing, [*nothing], 0


def words_per_element(usage: Usage) -> float:
    """Give the words that a layer's streams had for each element of the cells that were not skipped, masks included."""
    elements = usage.elements * (usage.cells - usage.skipped) // max(usage.cells, 1)
    return sum(usage.kept) / max(elements, 1) + len(KINDS) / STREAM_BLOCK
