"""Adds the gradients of all ranks in the order of the tree of slices.

Each rank adds a share of every array. All ranks send their pieces of the share to it. It adds them up and sends the sum
to all. MPI's own Allreduce does not keep to an order: the bits of its sums depend on the number of ranks. Integers
have no order, so for them it serves.
"""

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from etalstm.golden.fast.sums import add_arrays, column_norms
from etalstm.network.shape import LayerGradients, LayerParameters, NetworkShape, canonical_rows
from etalstm.network.slices import tree_total


def ordered_total(communicator, array: np.ndarray) -> np.ndarray:
    """Add an array of each rank, float32 (N,), contiguous, with the same N; every rank gets the sum.

    Nobody else may use the communicator meanwhile. The number of ranks divides the tree of slices into nodes of one
    size.

    Exactness: the machine's additions, in the order of :func:`etalstm.network.slices.tree_total`.
    """
    ranks, mine = communicator.size, communicator.rank
    edges = [number * array.size // ranks for number in range(ranks + 1)]
    counts = np.diff(edges)
    pieces = np.empty((ranks, counts[mine]), np.float32)
    of_pieces = np.full(ranks, counts[mine]), np.arange(ranks) * counts[mine]
    communicator.Alltoallv([array, (counts, edges[:-1])], [pieces, of_pieces])
    share, total = tree_total(pieces, ranks, add_arrays), np.empty_like(array)
    communicator.Allgatherv(share, [total, (counts, edges[:-1])])
    return total


class Total(NamedTuple):
    """The sum of all ranks' gradients of a layer, and its column norms: (K,) on rank 0, empty on others.

    See :func:`etalstm.golden.fast.sums.column_norms`.
    """

    gradients: LayerGradients
    column_norms: np.ndarray


class Exchange:
    """Adds the gradients of one session's layers, beside the work of this rank's device.

    All ranks must give their layers in the same order. `thread` is the one that uses the communicator, for all sessions
    of this rank.
    """

    def __init__(self, communicator, thread: ThreadPoolExecutor, network: NetworkShape):
        self._communicator, self._thread, self._network = communicator, thread, network
        self._totals: dict[int, Future] = {}

    def begin(self) -> None:
        """Begin a backward pass."""
        self._totals = {}

    def give(self, layer: int, gradients: LayerGradients) -> None:
        """Give this rank's gradients of a layer, which nobody changes any more."""
        self._totals[layer] = self._thread.submit(self._total, gradients)

    def _total(self, gradients: LayerGradients) -> Total:
        if self._communicator.size == 1:
            return Total(gradients, column_norms(canonical_rows(gradients.weights)))
        mine = np.concatenate([gradients.weights.reshape(-1), gradients.bias])
        flat, rows = ordered_total(self._communicator, mine), self._network.rows
        weights, bias = flat[:-rows].reshape(rows, -1), flat[-rows:]
        norms = np.zeros(0, np.float32) if self._communicator.rank else column_norms(canonical_rows(weights))
        return Total(LayerGradients(weights, bias), norms)

    def add_integers(self, sums: np.ndarray) -> np.ndarray:
        """Give the sum of an array of int64 of every rank: exact, so MPI may add in any order."""
        total = np.empty_like(sums)
        self._thread.submit(self._communicator.Allreduce, np.ascontiguousarray(sums), total).result()
        return total

    def give_rest(self) -> None:
        """Give zeros for all layers that have not been given: other ranks wait for them."""
        for layer in reversed(range(self._network.layers)):
            if layer not in self._totals:
                shape = self._network.rows, self._network.columns_of(layer)
                self.give(layer, LayerGradients(np.zeros(shape, np.float32), np.zeros(shape[0], np.float32)))

    def totals(self) -> list[Total]:
        """Wait for the sums and give them, the first layer's first."""
        return [self._totals[layer].result() for layer in range(self._network.layers)]


def digest(layers: list[LayerParameters]) -> str:
    """Give a digest of the bits of some layers' parameters, or velocities."""
    found = hashlib.blake2b(digest_size=16)
    for layer in layers:
        found.update(layer.weights.tobytes() + layer.bias.tobytes())
    return found.hexdigest()
