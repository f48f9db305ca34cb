"""The storage ``auto``: each epoch, each layer keeps what was the smaller in the epoch before.

``dense`` keeps five words for each element of a cell, ``ms1`` a mask bit and the kept word for each of six local
gradients. The smaller of the two also moves fewer bytes: either goes to memory once and comes back once. Numbers decide
that are the same on every device: counts of kept elements, no sizes of beats or logs. ``ms1-bf16`` is no candidate, as
it would always win: at most 3.2 words. What it costs is accuracy, which no planner sees, so a user must ask for it.
"""

from etalstm.hw.contract import STREAM_BLOCK
from etalstm.storage import DENSE_TENSORS, KINDS, Usage

AUTO = "auto"
PROBE_EPOCHS = 4  # a dense layer is kept as streams again, and so measured, after so many epochs


class Chooser:
    """Chooses every layer's policy, ``dense`` or ``ms1``, epoch by epoch; the first one is ``ms1``, which measures.

    Parameters
    ----------
    layers : int

    Members
    -------
    policies : tuple of str
        Of the epoch at hand.
    state : dict of lists of numbers
        All of it, for a checkpoint; may be set.
    """

    def __init__(self, layers: int):
        self.state = {"dense_for": [0] * layers, "words": [0.0] * layers, "iterations": 0}

    @property
    def state(self) -> dict:
        """Epochs for which each layer has been dense, and the epoch's sums."""
        return {"dense_for": [*self._dense_for], "words": [*self._words], "iterations": self._iterations}

    @state.setter
    def state(self, state: dict) -> None:
        self._dense_for, self._words = [*state["dense_for"]], [*state["words"]]
        self._iterations = state["iterations"]

    @property
    def policies(self) -> tuple[str, ...]:
        """What each layer keeps in the epoch at hand."""
        return tuple("dense" if epochs else "ms1" for epochs in self._dense_for)

    def measure(self, usages: list[Usage]) -> None:
        """Take in what the layers kept in an iteration; of a dense one not every device knows what it would."""
        for layer, (usage, dense) in enumerate(zip(usages, self._dense_for, strict=True)):
            self._words[layer] += 0.0 if dense else words_per_element(usage)
        self._iterations += 1

    def end_epoch(self) -> None:
        """Choose anew."""
        for layer, (words, dense) in enumerate(zip(self._words, self._dense_for, strict=True)):
            stays = 0 < dense < PROBE_EPOCHS
            grows = not dense and words > DENSE_TENSORS * self._iterations
            self._dense_for[layer] = dense + 1 if stays or grows else 0
        self._words, self._iterations = [0.0] * len(self._words), 0


def words_per_element(usage: Usage) -> float:
    """Give the words that a layer's streams had for each element of the cells that were not skipped, masks included."""
    elements = usage.elements * (usage.cells - usage.skipped) // max(usage.cells, 1)
    return sum(usage.kept) / max(elements, 1) + len(KINDS) / STREAM_BLOCK
