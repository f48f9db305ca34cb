"""What a session is made for, and what the arguments of its calls must be.

Each check gives the argument in canonical form.

Dimensions: B sequences, T steps, I inputs, H units, L layers.
"""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np

from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, check_float32, check_size, check_unmasked
from etalstm.network.shared_tokens import SharedTokens
from etalstm.network.storage import check_share, check_threshold


@dataclass(frozen=True)
class TrainingShape:
    """What a session is made for: a network, the sizes of one iteration, and how it is computed.

    Parameters
    ----------
    network : NetworkShape
    batch, steps : int
        Sequences B; steps T of a forward pass, at most: it may have fewer.
    execution : Execution
        How the network is computed; refused as :meth:`etalstm.network.execution.Execution.check` says.
    masked : bool
        Sequences may be shorter than T: ``forward`` takes `lengths`.
    log_share : float, optional
        Room that a device's logs of compressed streams get at first, as a share, above 0, of what they need if nothing
        is dropped; from then on it follows what they were seen to need. Default: a guess. The bits do not depend on it.
    memory_budget : int, optional
        Bytes of a device's memory that the network may take. Intermediates beyond it go to the host and come back for
        the backward pass. Default: all there is. A device without a memory of its own needs none.
    groups : int, optional
        Groups of a machine's channels, each of which works on an equal part of the batch. The bits do not depend on it.
        Default: the fastest number. A device without channels needs none.
    layers_apart : bool
        A backward pass gives a layer's gradients when it goes on to the layer below, see ``when_whole`` of
        :class:`etalstm.device.hooks.SessionHooks`. A machine has a program for each layer then, where the intermediates
        are in one segment. The bits do not depend on it. Default: all gradients come at the end. Only for LSTM cells.
    gradient_sums : bool
        The session gives the integer sums of its gradients, and takes those of a larger batch, of which it has a part:
        see ``_gradient_sums`` of :class:`etalstm.device.hooks.SessionHooks`. A machine needs memory for them. Only with
        integers. The bits of a session that is used alone do not depend on it. Default: not.
    """

    network: NetworkShape
    batch: int
    steps: int
    execution: Execution = field(default_factory=Execution)
    _: KW_ONLY
    masked: bool = False
    log_share: float | None = None
    memory_budget: int | None = None
    groups: int | None = None
    layers_apart: bool = False
    gradient_sums: bool = False

    def __post_init__(self) -> None:
        for name, kind in (("network", NetworkShape), ("execution", Execution)):
            if not isinstance(getattr(self, name), kind):
                raise ValueError(f"{name} must be of type {kind.__name__}, got {type(getattr(self, name)).__name__}")
        for name in ("batch", "steps"):
            object.__setattr__(self, name, check_size(name, getattr(self, name)))
        self.execution.check(self.network, self.batch)
        # From the second layer on all have the same sizes.
        matrices = self.network.of_layers(range(min(self.network.layers, 2))).matrices
        self.execution.arithmetic.check_terms(
            inputs_of_a_gate=max(matrix.columns for matrix in matrices),
            rows_of_an_input=max(matrix.rows for matrix in matrices),
            steps_of_a_batch=self.batch * self.steps,
        )
        if self.memory_budget is not None:
            check_size("memory_budget", self.memory_budget)
        if self.groups is not None:
            check_size("groups", self.groups)
        if self.log_share is not None:
            check_share("log_share", self.log_share)
        if self.layers_apart:
            self.network.require_lstm("a program for each layer (layers_apart)")
        if self.gradient_sums and not self.execution.arithmetic.exact:
            raise ValueError(f"gradient_sums: only with integers, arithmetic is {self.execution.arithmetic.name}")

    def with_execution(self, **choices: Any) -> "TrainingShape":
        """Give the same with other choices of its execution: members of it by name."""
        return replace(self, execution=replace(self.execution, **choices))

    @property
    def x_shape(self) -> tuple[int, int, int]:
        """(T, B, I), also of dx."""
        return self.steps, self.batch, self.network.input_size

    @property
    def y_shape(self) -> tuple[int, int, int]:
        """(T, B, H), also of dy."""
        return self.steps, self.batch, self.network.hidden_size

    @property
    def state_shape(self) -> tuple[int, int, int]:
        """(L, B, H), of h, c and their gradients."""
        return self.network.layers, self.batch, self.network.hidden_size


def check_steps(shape: TrainingShape, array: Any, axis: int = 0) -> TrainingShape:
    """Give the shape of a pass: that of its session, with the steps of an array of the pass where they are fewer.

    All else that may be wrong with the array is left to the check of its shape.
    """
    sizes = getattr(array, "shape", ())
    steps = sizes[axis] if len(sizes) > axis else shape.steps
    return replace(shape, steps=steps) if 0 < steps < shape.steps else shape


def check_lengths(shape: TrainingShape, lengths: Any) -> np.ndarray:
    """Give the steps of each sequence, B integers from 1 to T: int64, (B,), all steps by default."""
    if lengths is None:
        return np.full(shape.batch, shape.steps)
    if not shape.masked:
        raise ValueError("lengths were given to a session whose TrainingShape is not masked")
    check_unmasked("lengths", lengths)
    array = np.asarray(lengths)
    if array.shape != (shape.batch,) or array.dtype.kind not in "iu":
        raise ValueError(f"lengths must be {shape.batch} integers, got {array.dtype} of shape {array.shape}")
    outside = np.flatnonzero((array < 1) | (array > shape.steps))
    if outside.size:
        raise ValueError(f"lengths must be 1 to {shape.steps}, got {array[outside[0]]} at index {outside[0]}")
    return array.astype(np.int64)


def check_tokens(shape: TrainingShape, tokens: Any, x: np.ndarray, lengths: np.ndarray) -> SharedTokens | None:
    """Give the distinct tokens of a batch, None if the pass shares none.

    ``ValueError`` if they are not (T, B) integers, steps of one token have different x, or there are tokens in a
    session whose shape shares none, or none in one whose shape does.
    """
    if shape.execution.shared_tokens is None:
        if tokens is not None:
            raise ValueError("tokens were given to a session whose TrainingShape has no shared_tokens")
        return None
    expected = shape.x_shape[:2]
    if tokens is None:
        raise ValueError(f"with shared_tokens there must be tokens of shape {expected}, got none")
    check_unmasked("tokens", tokens)
    array = np.asarray(tokens)
    if array.shape != expected or array.dtype.kind not in "iu":
        raise ValueError(f"tokens must be integers of shape {expected}, got {array.dtype} of shape {array.shape}")
    shared = SharedTokens.of(array, x, np.arange(shape.steps)[:, None] < lengths)
    return shared if shared.count <= shape.execution.shared_tokens else None


def check_state(shape: TrainingShape, name: str, state: Any) -> np.ndarray:
    """Give a state or its gradient, float32, (L, B, H); zeros by default."""
    if state is None:
        return np.zeros(shape.state_shape, np.float32)
    return check_float32(name, state, shape.state_shape)


def check_skipped(shape: TrainingShape, skipped: Any) -> np.ndarray:
    """Give a copy of the cells to skip, bool, (L, T); none by default."""
    expected = shape.network.layers, shape.steps
    if skipped is None:
        return np.zeros(expected, bool)
    check_unmasked("skipped_cells", skipped)
    if not isinstance(skipped, np.ndarray) or skipped.dtype != bool or skipped.shape != expected:
        kind = getattr(skipped, "dtype", type(skipped).__name__)
        raise ValueError(
            f"skipped_cells must be an array of bool of shape {expected}, got {kind} of {np.shape(skipped)}"
        )
    return skipped.copy()


def check_delta_threshold(shape: TrainingShape, value: float) -> float:
    """Give the threshold below which gradients of gates count as zero: 0 where a layer keeps δ whole."""
    value = check_threshold("delta_threshold", value)
    for number in range(shape.network.layers):
        if value and not shape.execution.storage.layer(number).compressed:
            raise ValueError(f"layer {number} is dense and keeps δ whole: delta_threshold must be 0, got {value}")
    return value


def check_sent(shape: TrainingShape, sent: Any) -> list[np.ndarray]:
    """Give what each layer has sent, float32, (T, B, I + H) each; nothing without delta inputs."""
    if shape.execution.delta_inputs.off:
        if sent is not None:
            raise ValueError("sent was given to a session whose TrainingShape has no delta inputs")
        return []
    network = shape.network
    if sent is None or len(sent) != network.layers:
        given = "none" if sent is None else len(sent)
        raise ValueError(f"with delta inputs there must be what {network.layers} layers have sent, got {given}")
    sizes = [network.inputs_of(number) + network.hidden_size for number in range(network.layers)]
    shapes = [(shape.steps, shape.batch, size) for size in sizes]
    return [check_float32(f"sent of layer {n}", *each) for n, each in enumerate(zip(sent, shapes, strict=True))]
