"""The same random training run on several devices, compared word by word."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from etalstm.device import Session, TrainingShape
from etalstm.network.shape import initial_parameters

LOSSES = ("last", "per-step")
LEARNING_RATE, MOMENTUM, CLIP, WEIGHT_DECAY = 0.1, 0.9, 1.0, 0.01
ZERO_INPUTS, ZERO_GRADIENTS = 0.3, 0.5  # shares of zeros, so that what is skipped is compared too


@dataclass
class Comparison:
    """What a comparison found.

    `first_mismatch` has ``tensor``, ``index``, and each device's word in hexadecimal. `cycles` tells when its iteration
    began and ended, by the clock of :func:`compare`.
    """

    tensors: int = 0
    words: int = 0
    mismatched_words: int = 0
    first_mismatch: dict | None = None
    cycles: tuple[int, int] = (0, 0)

    def add(self, name: str, values: dict[str, np.ndarray]) -> None:
        """Compare one tensor, given by device; the first device's is what is expected."""
        words = {device: np.ascontiguousarray(array, np.float32).view(np.uint32) for device, array in values.items()}
        expected = next(iter(words.values()))
        different = np.zeros(expected.shape, bool)
        for array in words.values():
            different |= array != expected
        self.tensors += 1
        self.words += expected.size
        self.mismatched_words += int(different.sum())
        if different.any() and self.first_mismatch is None:
            index = tuple(int(n) for n in np.argwhere(different)[0])
            at = {device: f"{int(array[index]):#010x}" for device, array in words.items()}
            self.first_mismatch = {"tensor": name, "index": list(index)} | at


@dataclass(frozen=True)
class RandomRun:
    """A training of a random network on random data.

    Gradients arrive, by `loss`, at each sequence's "last" step, or "per-step" at half of all elements. `skip_cells` is
    the share of the cells that are skipped, drawn anew in every iteration. `delta_threshold` is that of
    :meth:`etalstm.device.Session.backward`.
    """

    iterations: int
    loss: str
    seed: int
    skip_cells: float = 0.0
    delta_threshold: float = 0.0

    def __post_init__(self):
        if not 0 <= self.skip_cells <= 1:
            raise ValueError(f"skip_cells must be 0 to 1, got {self.skip_cells}")
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {self.loss!r}")


def training_run(session: Session, shape: TrainingShape, run: RandomRun) -> Iterator[tuple[str, np.ndarray]]:
    """Train on a session of `shape` and give every tensor that comes out, named.

    Outputs, final states, dx, gradients of the initial states, the gradient's norm, every dW and db, every updated
    weight and velocity. From the second iteration on, initial states and their gradients are random too. Where the
    shape shares tokens, x are the vectors of as many random tokens.
    """
    generator = np.random.default_rng(run.seed)
    session.load(initial_parameters(shape.network, run.seed))

    def draw(size, zeros=0.0):
        values = generator.standard_normal(size, np.float32)
        return np.where(generator.random(size) < zeros, np.float32(0), values)

    for number in range(run.iterations):
        lengths = np.full(shape.batch, shape.steps)
        if shape.masked:
            lengths = generator.integers(1, shape.steps + 1, shape.batch)
        h0, c0 = (draw(shape.state_shape) for _ in range(2)) if number else (None, None)
        if h0 is not None and shape.execution.arithmetic.exact:
            h0 = np.clip(h0, -1, 1)
        tokens, x = None, draw(shape.x_shape, ZERO_INPUTS)
        if shape.execution.shared_tokens:
            tokens = generator.integers(0, shape.execution.shared_tokens, shape.x_shape[:2])
            x = draw((shape.execution.shared_tokens, shape.network.input_size), ZERO_INPUTS)[tokens]
        skipped = None
        if run.skip_cells:
            skipped = generator.random((shape.network.layers, shape.steps)) < run.skip_cells
        outputs = session.forward(x, lengths if shape.masked else None, h0, c0, skipped, tokens)
        dy = draw(shape.y_shape, ZERO_GRADIENTS)
        if run.loss == "last":
            dy[np.arange(shape.steps)[:, None] != lengths[None, :] - 1] = 0
        dh, dc = (draw(shape.state_shape, ZERO_GRADIENTS) for _ in range(2)) if number else (None, None)
        back = session.backward(dy, dh, dc, run.delta_threshold)
        tensors = {name: getattr(outputs, name) for name in ("y", "h", "c")}
        tensors |= {name: getattr(back, name) for name in ("dx", "dh0", "dc0")}
        tensors["norm"] = np.array([back.norm], np.float32)
        names = [matrix.name for matrix in shape.network.matrices]
        for name, gradient in zip(names, session.gradients(), strict=True):
            tensors |= {f"dW of {name}": gradient.weights, f"db of {name}": gradient.bias}
        session.update(LEARNING_RATE, MOMENTUM, CLIP, WEIGHT_DECAY)
        for kind, entries in (("weights", session.parameters()), ("velocities", session.velocities())):
            for name, entry in zip(names, entries, strict=True):
                tensors |= {f"{kind} of {name}": entry.weights, f"bias {kind} of {name}": entry.bias}
        for name, tensor in tensors.items():
            yield f"iteration {number}: {name}", tensor


def compare(
    sessions: dict[str, Session], shape: TrainingShape, run: RandomRun, clock: Callable[[], int] = lambda: 0
) -> Comparison:
    """Run the same training on sessions of several devices side by side.

    The first session's words are what is expected of the others. `clock` tells the time by which a mismatch is to be
    found again: clock cycles of a simulation.
    """
    comparison, begun, ended = Comparison(), 0, clock()
    runs = [training_run(session, shape, run) for session in sessions.values()]
    for tensors in zip(*runs, strict=True):
        if clock() != ended:  # all tensors of an iteration come when it has ended
            begun, ended = ended, clock()
        if comparison.first_mismatch is None:
            comparison.cycles = begun, ended
        name = tensors[0][0]
        comparison.add(name, dict(zip(sessions, (array for _, array in tensors), strict=True)))
    return comparison
