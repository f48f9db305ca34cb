"""What surrounds the LSTM on the host: embedding, output layer, softmax cross entropy, and their update.

Float32 NumPy, the same code whatever the device, so two devices with equal bits give equal runs. Products are BLAS's
(``@``), whose bits may depend on its number of threads; the loop therefore holds it to one.

The host's parameters are clipped by a norm of their own: the LSTM's is known only on the device, after the host's part
of the gradient has been found.
"""

from dataclasses import dataclass

import numpy as np

from etalstm.data import Batch
from etalstm.golden.trainer import descend
from etalstm.optimizer import UpdateRule, clip_scale, gradient_norm

ZERO = np.float32(0)


@dataclass(frozen=True)
class Loss:
    """The loss of one batch.

    Members
    -------
    total : float       cross entropy in nats, summed over the batch with its weights
    correct : float     weight of the targets that were ranked first
    weight : float      sum of the weights
    """

    total: float
    correct: float
    weight: float

    def __add__(self, other: "Loss") -> "Loss":
        return Loss(self.total + other.total, self.correct + other.correct, self.weight + other.weight)

    @property
    def mean(self) -> float:
        """Cross entropy per target."""
        return self.total / self.weight

    @property
    def accuracy(self) -> float:
        """Share of targets that were ranked first."""
        return self.correct / self.weight

    @property
    def perplexity(self) -> float:
        """Exponential of the mean."""
        with np.errstate(over="ignore"):
            return float(np.exp(self.mean))


def softmax_cross_entropy(logits: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> tuple[Loss, np.ndarray]:
    """Compare logits with targets.

    Parameters
    ----------
    logits : array, float32, (N, C)        becomes the gradient: with 10,000 classes a second such array costs more
                                           time than what is computed in it
    targets : array, integers, (N,)
    weights : array, float32, (N,)

    Returns
    -------
    Loss
    gradient : array, float32, (N, C)     of the mean loss by the logits; `logits` itself
    """
    rows = np.arange(targets.size)
    ranked_first = logits.argmax(axis=1)
    logits -= logits[rows, ranked_first][:, None]
    of_targets = logits[rows, targets]
    gradient = np.exp(logits, out=logits)
    sums = gradient.sum(axis=1, keepdims=True)
    losses = np.log(sums[:, 0]) - of_targets
    correct = ranked_first == targets
    loss = Loss(
        float((losses * weights).sum(dtype=np.float64)),
        float(weights[correct].sum(dtype=np.float64)),
        float(weights.sum(dtype=np.float64)),
    )
    gradient /= sums
    gradient[rows, targets] -= np.float32(1)
    gradient *= (weights / np.float32(loss.weight))[:, None]
    return loss, gradient


class HostModel:
    """Embedding (for tokens) and output layer around an LSTM.

    Parameters
    ----------
    classes : int
        Classes C.
    hidden_size : int
        Units H of the top LSTM layer.
    embedding : int
        Size E of a token's vector; 0 if inputs are vectors already.
    per_step : bool
        A target at every step, or one at a sequence's last.
    seed : int
        Draws the first parameters.
    tokens : int, optional
        Different tokens, where they are not the classes.

    Members
    -------
    parameters, velocities, gradients : dict of arrays, float32
        ``output.weights`` (C, H), ``output.bias`` (C,), and ``embedding`` (tokens, E) if there is one.
    """

    def __init__(
        self, classes: int, hidden_size: int, embedding: int, per_step: bool, seed: int, tokens: int | None = None
    ):
        generator = np.random.Generator(np.random.PCG64([seed, 1]))  # [seed]'s own stream belongs to the LSTM
        bound = np.float32(1.0 / np.sqrt(hidden_size))

        def draw(*size):
            return (generator.random(size, np.float32) * np.float32(2) - np.float32(1)) * bound

        self.per_step = per_step
        self.parameters = {"output.weights": draw(classes, hidden_size), "output.bias": draw(classes)}
        if embedding:
            self.parameters["embedding"] = generator.standard_normal((tokens or classes, embedding), np.float32)
        self.velocities = {name: np.zeros_like(array) for name, array in self.parameters.items()}
        self.gradients: dict[str, np.ndarray] = {}
        self._logits = np.empty((0, classes), np.float32)

    def inputs(self, batch: Batch) -> np.ndarray:
        """Give the LSTM's input x, float32, (T, B, I)."""
        if "embedding" not in self.parameters:
            return batch.x
        return self.parameters["embedding"][batch.x]

    def evaluate(self, batch: Batch, y: np.ndarray) -> Loss:
        """Compare the LSTM's outputs y (T, B, H) with the batch's targets."""
        return self._compare(batch, y)[0]

    def backward(self, batch: Batch, y: np.ndarray) -> tuple[Loss, np.ndarray]:
        """Do the same, keep the output layer's gradients, and give that of y, float32, (T, B, H)."""
        loss, gradient, rows = self._compare(batch, y)
        self.gradients = {"output.weights": gradient.T @ rows, "output.bias": gradient.sum(axis=0)}
        into = gradient @ self.parameters["output.weights"]
        if self.per_step:
            return loss, into.reshape(y.shape)
        dy = np.zeros_like(y)
        dy[batch.lengths - 1, np.arange(y.shape[1])] = into
        return loss, dy

    def embed_backward(self, batch: Batch, dx: np.ndarray) -> None:
        """Add up the embedding's gradient from that of the LSTM's input, (T, B, E)."""
        gradient = np.zeros_like(self.parameters["embedding"])
        np.add.at(gradient, batch.x.reshape(-1), dx.reshape(-1, gradient.shape[1]))
        self.gradients["embedding"] = gradient

    def update(self, learning_rate: float, momentum: float, clip: float | None, weight_decay: float) -> None:
        """Change the parameters as the device changes the LSTM's; only the output bias does not decay.

        Raises
        ------
        DivergedError
            If the gradient is not finite; the parameters stay as they were.
        """
        norm = gradient_norm([], [self.gradients[name].reshape(-1) for name in self.parameters])
        rule = UpdateRule(learning_rate, momentum, weight_decay, clip_scale(norm, clip))
        for name, values in self.parameters.items():
            decay = ZERO if name == "output.bias" else rule.weight_decay
            moved = descend(values, self.velocities[name], self.gradients[name], rule, decay)
            self.parameters[name], self.velocities[name] = moved

    def _compare(self, batch: Batch, y: np.ndarray):
        rows = y.reshape(-1, y.shape[2]) if self.per_step else y[batch.lengths - 1, np.arange(y.shape[1])]
        if self._logits.shape[0] != len(rows):  # kept: for 10,000 classes new pages cost more than the product
            self._logits = np.empty((len(rows), self.parameters["output.bias"].size), np.float32)
        logits = np.matmul(rows, self.parameters["output.weights"].T, out=self._logits)
        logits += self.parameters["output.bias"]
        loss, gradient = softmax_cross_entropy(logits, batch.targets.reshape(-1), batch.weights.reshape(-1))
        return loss, gradient, rows
