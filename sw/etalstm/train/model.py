"""The model around the LSTM on the host: embedding, output layer, loss; passes by slices of a batch, and evaluation.

Float32 NumPy, the same code for every device, so two devices with equal bits give equal runs. Products are BLAS's
(``@``), whose bits may depend on its number of threads; the loop therefore gives it one. Products, and exponentials of
the loss, may differ between processors and versions of NumPy: a run has the same bits on every device of one host.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import overload

import numpy as np

from etalstm.data import DataSet
from etalstm.data.dataset import REGRESS, Batch
from etalstm.device import Outputs
from etalstm.errors import DivergedError
from etalstm.network.slices import slice_ranges, tree_total
from etalstm.train.checkpoint import Identity
from etalstm.train.dropout import AnySession
from etalstm.train.loss import Loss, softmax_cross_entropy, squared_error

OUTPUT, BIAS, EMBEDDING = "output.weights", "output.bias", "embedding"


class HostModel:
    """Embedding (for tokens) and output layer around an LSTM.

    `identity`: task and sizes: C outputs, H units of the top LSTM layer, tokens and the size E of their vectors.
    `seed`: draws the first parameters. `parameters`, `gradients`: float32, ``output.weights`` (C, H) unless they are
    tied to the embedding, ``output.bias`` (C,), and ``embedding`` (tokens, E) if there is one.
    """

    def __init__(self, identity: Identity, seed: int):
        generator = np.random.Generator(np.random.PCG64([seed, 1]))  # [seed]'s own stream belongs to the LSTM
        outputs, units = identity.outputs, identity.hidden_size
        bound = np.float32(1.0 / np.sqrt(units))

        def draw(*size: int) -> np.ndarray:
            return (generator.random(size, np.float32) * np.float32(2) - np.float32(1)) * bound

        self.identity, self._tied = identity, identity.tied
        self.parameters = {} if identity.tied else {OUTPUT: draw(outputs, units)}
        self.parameters[BIAS] = draw(outputs)
        if identity.tokens:
            self.parameters[EMBEDDING] = generator.standard_normal((identity.tokens, identity.input_size), np.float32)
            if identity.tied:
                self.parameters[EMBEDDING] *= bound  # as output weights: unscaled, the first loss is far too large
        self.gradients: dict[str, np.ndarray] = {}
        self._buffers: dict[int, np.ndarray] = {}  # by slice: for 10,000 classes new pages cost more than the product

    @property
    def output_weights(self) -> np.ndarray:
        """Weights of the output layer, float32, (C, H)."""
        return self.parameters[EMBEDDING if self._tied else OUTPUT]

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Give the LSTM's input, float32, (T, B, I), for vectors or tokens."""
        return self.parameters[EMBEDDING][x] if self.identity.tokens else x

    def outputs(self, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Give logits or numbers, float32: (T, B, C) if the network answers at every step, else (B, C)."""
        outputs = self._features(y, lengths) @ self.output_weights.T + self.parameters[BIAS]
        return outputs.reshape(*y.shape[:2], -1) if self.identity.per_step else outputs

    def evaluate(self, batch: Batch, y: np.ndarray) -> Loss:
        """Compare the LSTM's outputs y (T, B, H) with the batch's targets."""
        return self.compare(batch, y)[0]

    def set_output_gradients(self, gradients: dict[str, np.ndarray]) -> None:
        """Set the output layer's gradients of a whole batch."""
        self.gradients = {EMBEDDING if self._tied and name == OUTPUT else name: g for name, g in gradients.items()}

    def embed_backward(self, batch: Batch, dx: np.ndarray) -> None:
        """Add up the embedding's gradient from that of the LSTM's input, (T, B, E)."""
        gradient = np.zeros_like(self.parameters[EMBEDDING])
        np.add.at(gradient, batch.x.reshape(-1), dx.reshape(-1, gradient.shape[1]))
        self.gradients[EMBEDDING] = gradient + self.gradients[EMBEDDING] if self._tied else gradient

    def _features(self, y: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Give the output layer's inputs, float32 (N, H): h of every step, or of each sequence's last step."""
        return y.reshape(-1, y.shape[2]) if self.identity.per_step else y[lengths - 1, np.arange(y.shape[1])]

    def compare(
        self, batch: Batch, y: np.ndarray, total_weight: float | None = None, number: int = 0
    ) -> tuple[Loss, np.ndarray, np.ndarray]:
        """Compare the outputs for y, float32 (T, B, H), with targets.

        Gives the loss; its gradient by the outputs, float32 (N, C), N = T·B or B; and the output layer's inputs,
        float32 (N, H). `batch` may be slice `number` of a larger one. Then `total_weight` is the sum of that one's
        weights, and the gradient is of its mean loss. The next comparison of the same slice overwrites the gradient.
        """
        features = self._features(y, batch.lengths)
        buffer = self._buffers.get(number)
        if buffer is None or buffer.shape[0] != len(features):
            buffer = self._buffers[number] = np.empty((len(features), self.identity.outputs), np.float32)
        outputs = np.matmul(features, self.output_weights.T, out=buffer)
        outputs += self.parameters[BIAS]
        if self.identity.task == REGRESS:
            return *squared_error(outputs, batch.targets, batch.weights, total_weight), features
        flat = batch.targets.reshape(-1), batch.weights.reshape(-1)
        return *softmax_cross_entropy(outputs, *flat, total_weight), features


class OutputPass:
    """The output layer's forward and backward pass over a batch, slice by slice.

    A pipeline gets the slices one after the other. So every device multiplies each slice on its own: BLAS's bits may
    depend on the number of rows. With `apart` it multiplies each sequence on its own, and adds the gradients of the
    output layer over the whole batch at once. Then no bit depends on the slices.

    `slices`: S, see :mod:`etalstm.network.slices`. `iteration`: for the message of an error.
    """

    def __init__(self, model: HostModel, batch: Batch, slices: int, iteration: int, apart: bool = False):
        self._model, self._iteration, self._apart = model, iteration, apart
        self._total_weight = float(batch.weights.sum(dtype=np.float64))
        self._slices = slice_ranges(batch.lengths.size, slices)
        pieces = [range(b, b + 1) for b in range(batch.lengths.size)] if apart else self._slices
        self._pieces = {piece: batch.of_sequences(slice(piece.start, piece.stop)) for piece in pieces}
        self._losses: dict[range, Loss] = {}
        self._terms: dict[range, tuple[np.ndarray, np.ndarray]] = {}  # gradients of the outputs, and the inputs

    def run(self, number: int, y: np.ndarray) -> np.ndarray:
        """Give the gradient of y, float32, (T, b, H), for a slice of b sequences.

        Raises :class:`DivergedError` if the loss of the slice is not finite.
        """
        whole = self._slices[number]
        pieces = [piece for piece in self._pieces if whole.start <= piece.start < whole.stop]
        if len(pieces) == 1:
            return self._run(pieces[0], y)
        of_pieces = [y[:, piece.start - whole.start : piece.stop - whole.start] for piece in pieces]
        return np.concatenate(list(map(self._run, pieces, of_pieces)), axis=1)

    def _run(self, piece: range, y: np.ndarray) -> np.ndarray:
        batch = self._pieces[piece]
        loss, gradient, features = self._model.compare(batch, y, self._total_weight, piece.start)
        if not math.isfinite(loss.total):
            raise DivergedError(f"the loss of iteration {self._iteration} is {loss.total}: training has diverged")
        self._losses[piece], self._terms[piece] = loss, (gradient, features)
        by_features = gradient @ self._model.output_weights
        if self._model.identity.per_step:
            return by_features.reshape(y.shape)
        dy = np.zeros_like(y)
        dy[batch.lengths - 1, np.arange(batch.lengths.size)] = by_features
        return dy

    def end(self) -> Loss:
        """Give the loss of the batch after all slices, and set the model's gradients of the output layer."""
        terms = [self._terms[piece] for piece in self._pieces]
        if self._apart:
            gradients, features = zip(*terms, strict=True)
            terms = [(np.concatenate(gradients), np.concatenate(features))]
        found = [{OUTPUT: gradient.T @ inputs, BIAS: gradient.sum(axis=0)} for gradient, inputs in terms]
        self._model.set_output_gradients(
            {name: tree_total([each[name] for each in found], len(found), np.add) for name in (OUTPUT, BIAS)}
        )
        losses = [self._losses[piece] for piece in self._pieces]
        return sum(losses[1:], losses[0])


@dataclass(frozen=True)
class Evaluation:
    """How good a network is on some batches, and what that cost."""

    loss: Loss
    measures: dict[str, float]  # means of :meth:`etalstm.data.DataSet.measures`
    cycles: int  # the device's

    def scores(self, task: str) -> dict[str, float]:
        """Give the task's score and the data set's own measures, by name."""
        return self.loss.score(task) | self.measures


def forward(
    session: AnySession, model: HostModel, x: np.ndarray, lengths: np.ndarray, h: np.ndarray | None = None,
    c: np.ndarray | None = None,
) -> Outputs:  # fmt: skip
    """Run a network over vectors or tokens from the states h and c, zeros if not given.

    If the device can skip cells, all are skipped: nothing is stored for a backward pass. The outputs are the same.
    """
    shape = session.shape
    skipped = np.ones((shape.network.layers, len(x)), bool) if session.reduces else None
    tokens = x if shape.execution.shared_tokens else None
    return session.forward(model.inputs(x), lengths if shape.masked else None, h, c, skipped, tokens)


@overload
def evaluate(session: AnySession, model: HostModel, batches: Iterable[Batch], data: DataSet) -> Evaluation: ...


@overload
def evaluate(
    session: AnySession, model: HostModel, batches: Iterable[Batch], data: DataSet, stop: Callable[[], bool]
) -> Evaluation | None: ...


def evaluate(
    session: AnySession, model: HostModel, batches: Iterable[Batch], data: DataSet,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation | None:  # fmt: skip
    """Add up the loss of batches of a data set.

    In a stateful data set each batch begins with the states at the end of the batch before. `stop` is called before
    each batch; once it is true the result is None.
    """
    loss, cycles, h, c = Loss(0.0, 0.0, 0.0), 0, None, None
    measured: dict[str, float] = {}
    for batch in batches:
        if stop():
            return None
        outputs = forward(session, model, batch.x, batch.lengths, h, c)
        loss += model.evaluate(batch, outputs.y)
        if data.task == REGRESS:
            found = data.measures(model.outputs(outputs.y, batch.lengths), batch.targets)
            for name, values in found.items():
                measured[name] = measured.get(name, 0.0) + float((values * batch.weights).sum())
        cycles += session.counters()["cycles"]
        if data.stateful:
            h, c = outputs.h, outputs.c
    return Evaluation(loss, {name: value / loss.weight for name, value in measured.items()}, cycles)
