"""What a device implements of a session; :class:`etalstm.device.api.Session` checks arguments and their order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from etalstm.device.results import Outputs, clear_padding
from etalstm.device.shape import TrainingShape
from etalstm.errors import DeviceError
from etalstm.network.exponents import Exponents, Peaks
from etalstm.network.shape import LayerGradients, LayerParameters
from etalstm.network.shared_tokens import SharedTokens
from etalstm.network.storage import Usage
from etalstm.network.update_rule import UpdateRule, contribution_norms, gradient_norm

Factors = list[tuple[np.ndarray, np.ndarray]]
"""The two factors of each layer's dW: δ (T, B, 4H), and xh (T, B, K), float32."""


class SessionHooks(ABC):
    """The passes of one device.

    Arrays come in contiguous and checked, every optional argument filled in, and calls only in the order of the API.
    T is the number of steps of the last forward pass, at most those of the session. `when_whole`, if set, is given the
    number of a layer's matrix and its gradients as soon as a backward pass has them whole; the last layer comes first.
    """

    when_whole: Callable[[int, LayerGradients], None] | None = None
    shape: TrainingShape
    # Of the last forward pass: the cells it skips (L, T), steps of each sequence (B,), and the tokens that it shares.
    _skipped: np.ndarray
    _lengths: np.ndarray
    _shared: SharedTokens | None
    _exponents: Exponents  # of the next pass, with integers

    @property
    def _steps(self) -> int:
        """Steps of the last forward pass."""
        return self._skipped.shape[1]

    def _clear_padding(self, steps: np.ndarray) -> None:
        if self.shape.masked:
            clear_padding(steps, self._lengths)

    def _norm(self) -> float:
        return gradient_norm(*self._norm_terms())

    @staticmethod
    def _host_words(shape: TrainingShape) -> int:
        """Count the words that a session has in the host's memory at least: weights, velocities, x and y."""
        network = shape.network
        return 2 * network.weights() + shape.steps * shape.batch * (network.input_size + network.hidden_size)

    @abstractmethod
    def _load(self, parameters: list[LayerParameters], velocities: list[LayerParameters]) -> None:
        """Store checked weights and velocities."""

    @abstractmethod
    def _parameters(self) -> list[LayerParameters]:
        """Read the weights and biases."""

    @abstractmethod
    def _velocities(self) -> list[LayerParameters]:
        """Read the velocities."""

    @abstractmethod
    def _forward(self, x: np.ndarray, lengths: np.ndarray, h0: np.ndarray, c0: np.ndarray) -> Outputs:
        """Run forward; the outputs are new arrays, whose y may hold the frozen h at padded steps."""

    @abstractmethod
    def _backward(self, dy: np.ndarray, dh: np.ndarray, dc: np.ndarray, delta_threshold: float) -> None:
        """Run backward; dy is +0 at padded steps."""

    def _operand_peaks(self) -> Peaks:
        """Read, with integers, what the last forward pass has quantised with each exponent of an operand."""
        raise DeviceError("this device computes in float32")

    def _set_exponents(self, delta: np.ndarray, operands: np.ndarray, together: np.ndarray) -> None:
        """Take, with integers, the exponents for the next pass of whoever has chosen them for several sessions."""
        exponents = self._exponents
        exponents.delta, exponents.operands, exponents.together = delta, operands, together

    def _gradient_sums(self) -> list[np.ndarray]:
        """Give, with integers, the sums of each matrix's gradients: int64, (R, K + 1), the last column is of db.

        Rows are in canonical order. Only where the shape has ``gradient_sums``.
        """
        raise DeviceError("this device computes in float32")

    def _take_gradient_sums(self, sums: list[np.ndarray]) -> None:
        """Replace the sums of the last backward pass by others, those of the whole batch.

        They may be larger than a part's: any that arithmetic ``most_terms`` allows. Gradients and norms follow.
        """
        raise DeviceError("this device computes in float32")

    def _delta_peaks(self) -> Peaks:
        """Read, with integers, what the last backward pass has quantised with each exponent of δ."""
        raise DeviceError("this device computes in float32")

    @abstractmethod
    def _dx(self) -> np.ndarray:
        """Read dx, (T, B, I)."""

    @abstractmethod
    def _initial_state_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Read dh0 and dc0, each (L, B, H)."""

    @abstractmethod
    def _norm_terms(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Read what :func:`gradient_norm` takes: per layer column norms (K,), and db (4H,) in canonical row order."""

    @abstractmethod
    def _gradients(self) -> list[LayerGradients]:
        """Read dW and db in the row order of the weights."""

    def _report_gradients(self) -> None:
        """Give the gradients of all layers to :attr:`when_whole`, where a pass has them all at once."""
        if self.when_whole:
            for layer, gradients in reversed(list(enumerate(self._gradients()))):
                self.when_whole(layer, gradients)

    def _complete_gradients(self) -> None:
        """Go on, with integers, once the backward pass stands: exponents and sums are final."""
        self._report_gradients()

    def _take_gradients(self, gradients: list[LayerGradients]) -> None:
        """Replace the gradients of the last backward pass by others, for the update."""
        raise DeviceError("this device takes no gradients from the host")

    @abstractmethod
    def _update(self, rule: UpdateRule) -> None:
        """Apply the update to weights and velocities."""

    def _scrub(self) -> None:  # noqa: B027  a device without a memory of its own has nothing to compare
        """Compare the device's memory with what it must still hold."""

    def _usage(self) -> list[Usage]:
        """Count what was kept and computed; only where :attr:`reduces`."""
        return []

    def _shared_scalars(self) -> int:
        """Count the scalars that the forward pass has broadcast for x where it shared tokens."""
        return self._shared.scalars if self._shared else 0

    def _contributions(self) -> np.ndarray:
        """Measure the cells; only where :attr:`reduces`."""
        return np.stack([contribution_norms(delta, xh) for delta, xh in self._factors()])

    def _factors(self) -> Factors:
        """Give the factors of each layer's dW."""
        raise DeviceError("this device does not measure what its cells contribute")

    @abstractmethod
    def _counters(self) -> dict:
        """Read the counters."""

    def _store_as(self, shape: TrainingShape) -> None:  # noqa: B027  a device that plans nothing has nothing to do
        """Go over to a shape that differs in its storage; a device that plans nothing has nothing to do."""

    def _send_as(self, shape: TrainingShape) -> None:  # noqa: B027  the same
        """Go over to a shape that differs in its delta inputs."""

    def _encode(self, layers: list[np.ndarray], skipped: np.ndarray) -> Iterator[bytes]:
        """Compress the local gradients of all layers."""
        raise DeviceError("this device takes no intermediates from the host")

    def _load_intermediates(
        self, x: np.ndarray, h: np.ndarray, streams: Iterable[bytes], lengths: np.ndarray, sent: list[np.ndarray]
    ) -> None:
        """Stand for a forward pass; `sent` is empty without delta inputs."""
        raise DeviceError("this device takes no intermediates from the host")

    def _memory(self) -> dict:
        """Describe the memory that the session takes."""
        return {}
