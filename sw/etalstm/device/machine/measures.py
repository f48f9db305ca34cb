"""What the last passes have broadcast and kept, read from a machine's memory."""

import numpy as np

from etalstm.device.hooks import Factors
from etalstm.device.machine.deltas import DeltaReader
from etalstm.device.machine.windows import Windows
from etalstm.network.storage import DENSE_TENSORS, KINDS, ProductCounts, Usage
from etalstm.plan.memory.arrays import LayerArrays
from etalstm.plan.memory.network_map import NetworkMap
from etalstm_hw.contract import STREAM_INDEX


class Measures:
    """Measures one iteration.

    Parameters
    ----------
    network : NetworkMap
    windows : Windows
    skipped : array, bool, (L, T)
        Cells that keep nothing, of the T steps of the iteration.
    """

    def __init__(self, network: NetworkMap, windows: Windows, skipped: np.ndarray):
        self._network, self._windows, self._skipped = network, windows, skipped

    def usage(self, active: np.ndarray) -> list[Usage]:
        """Count by layer what was kept and computed.

        Parameters
        ----------
        active : array, bool, (T, B)
            Steps that are no padding.
        """
        return [
            Usage.counted(
                units=self._network.network.hidden_size,
                products=[self._counts(product, active, skipped) for product in arrays.products],
                active=active,
                skipped=skipped,
                **self._kept(arrays, skipped, active.shape[1]),
            )
            for arrays, skipped in zip(self._network.layers, self._skipped, strict=True)
        ]

    def _counts(self, arrays: LayerArrays, active: np.ndarray, skipped: np.ndarray) -> ProductCounts:
        """Count what one product has computed."""
        sent, deltas = self._sent(arrays, skipped)
        broadcast = [arrays.delta_inputs.broadcast(operand) for operand in sent]
        return ProductCounts.of(arrays.tiling.gates, broadcast, active, deltas.kept())

    def factors(self) -> Factors:
        """Read the two factors of each layer's dW."""
        factors = []
        for arrays, skipped in zip(self._network.layers, self._skipped, strict=True):
            sent, deltas = self._sent(arrays, skipped)
            factors.append((deltas.values(), np.concatenate(sent, axis=2)))
        return factors

    def _sent(self, arrays: LayerArrays, skipped: np.ndarray) -> tuple[list[np.ndarray], DeltaReader]:
        """Read what was sent of a product's operands, x first; δ is read by who needs it."""
        steps, operands = len(skipped), [(each, first) for each, first in arrays.factors if each]
        sent = [self._windows.read(each.first(steps + first))[first:] for each, first in operands]
        return sent, DeltaReader(self._network, arrays, skipped, self._windows)

    def _kept(self, arrays: LayerArrays, skipped: np.ndarray, batch: int) -> dict:
        """Count the kept elements of each kind, and the words of beats, that a layer's index tells."""
        if not arrays.storage.compressed:
            elements = int((~skipped).sum()) * batch * self._network.network.hidden_size
            return {"kept": (0,) * len(KINDS), "words": DENSE_TENSORS * elements}
        of_steps = arrays.index.part(0, arrays.index.vectors // self._network.steps * skipped.size)
        words = self._windows.read_words(of_steps).view(np.uint32)[:, :, : len(STREAM_INDEX)]
        index = words.reshape(len(words), skipped.size, -1, len(KINDS), len(STREAM_INDEX))[:, ~skipped]
        kept = index[..., STREAM_INDEX.index("kept")].sum((0, 1, 2))
        beats = index[..., STREAM_INDEX.index("beats")].sum()
        words_of_beat = self._network.config.beat_words
        return {"kept": tuple(int(count) for count in kept), "words": int(beats) * words_of_beat}
