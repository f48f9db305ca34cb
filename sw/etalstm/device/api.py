"""The one API of every device that trains: golden, simulated, board.

A :class:`Device` makes a :class:`Session` for one :class:`TrainingShape`; the session holds weights and velocities and
runs forward, backward and update over whole sequences. Arguments are checked and made canonical here, once, so that all
devices refuse the same input with the same words, and a device only implements the hooks, whose names begin with an
underscore.

Dimensions: B sequences, T steps, I inputs, H units, L layers, K = I + H columns of a layer.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from etalstm.device.access import Access, exclusive
from etalstm.device.results import BothPasses, InputGradients, Outputs, SliceLoss
from etalstm.device.settled import SettledPasses
from etalstm.device.shape import (
    TrainingShape,
    check_delta_threshold,
    check_lengths,
    check_sent,
    check_skipped,
    check_state,
    check_steps,
    check_tokens,
)
from etalstm.errors import CallOrderError, DeviceError, DivergedError
from etalstm.host.computer import check_host_memory
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.exponents import Exponents
from etalstm.network.shape import (
    WORD_BYTES,
    LayerGradients,
    LayerParameters,
    check_float32,
    check_parameters,
    zero_velocities,
)
from etalstm.network.shared_tokens import SharedTokens
from etalstm.network.storage import KINDS, Storage, Usage
from etalstm.network.update_rule import UpdateRule, check_hyperparameters, clip_scale

LOADED = ("loaded", "forward", "backward", "updated")  # stages of a session that has weights


class Session(SettledPasses, BothPasses[InputGradients]):
    """Weights on a device, and the passes over them.

    The order is ``load``, then any number of ``forward`` (or ``load_intermediates``); after one, one ``backward``; then
    at most one ``update``; else :class:`CallOrderError`. ``gradients`` and the members of :class:`InputGradients` may
    be read between ``backward`` and the next ``forward``. Every array that goes in must be a NumPy array of float32 and
    finite, or ``ValueError`` says what it is; subnormals are read as zeros of their sign.

    A device implements :class:`SessionHooks`. Making a session raises :class:`DeviceError` if the shape's storage is
    not dense and the device has no other, and :class:`HostMemoryError` if this computer's memory cannot hold the arrays
    that go in and come out.

    Members
    -------
    reduces : bool
        The device compresses intermediates, skips cells and counts what it stored.
    takes_intermediates : bool
        The host may run the forward pass: :meth:`load_intermediates`.
    access : Access
        The device's: every call raises :class:`BusyError` while another thread is inside one, of this session or of
        another of its device, and :class:`DeviceError` once the device is closed.
    """

    reduces = takes_intermediates = False

    def __init__(self, shape: TrainingShape):
        self._check_storage(shape.execution.storage)
        self._check_arithmetic(shape.execution.arithmetic)
        self._check_host_memory(shape)
        self.shape, self.access = shape, Access("the session")
        self._skipped, self._shared = check_skipped(shape, None), None
        self._lengths = check_lengths(shape, None)
        self._stage = "new"  # then one of LOADED
        self._exponents = Exponents(shape.network)  # used with integers only
        self._generation = 0  # counts forwards and loads, to tell that InputGradients are stale

    @exclusive
    def load(self, parameters: Sequence[LayerParameters], velocities: Sequence[LayerParameters] | None = None) -> None:
        """Put weights and velocities of the session's network on the device; velocities default to zero.

        With integers the :attr:`exponents` stay: ``forget()`` of each makes a session as one that has not trained.
        """
        parameters = check_parameters(self.shape.network, parameters)
        if velocities is None:
            velocities = zero_velocities(self.shape.network)
        velocities = check_parameters(self.shape.network, velocities, "velocities")
        self._generation += 1
        self._stage = "new"  # if the device fails below, some weights are new and some are old
        self._load(parameters, velocities)
        self._stage = "loaded"

    @property
    def exponents(self) -> list[Exponents]:
        """With integers the exponents that the next iteration begins with, else []."""
        return [self._exponents] if self.shape.execution.arithmetic.exact else []

    @exclusive
    def store_as(self, storage: Storage) -> None:
        """Store intermediates another way from the next forward pass on; weights and velocities stay.

        A device that runs programs keeps them where only the thresholds change.
        ``ValueError`` if it is for another number of layers, or not one that the shape's architecture has;
        :class:`DeviceError` if the device has no such storage, or no memory for it. Then nothing has changed.
        """
        shape = self.shape.with_execution(storage=storage)
        self._check_storage(storage)
        self._go_over(shape, self._store_as)

    @exclusive
    def send_as(self, delta_inputs: DeltaInputs) -> None:
        """Broadcast x and h another way from the next forward pass on; weights and velocities stay.

        A device that runs programs keeps them where only the thresholds' values change. Raises as :meth:`store_as`,
        also where there are too few parameters for the thresholds, and ``HostMemoryError``.
        """
        shape = self.shape.with_execution(delta_inputs=delta_inputs)
        self._check_host_memory(shape)
        self._go_over(shape, self._send_as)

    def _go_over(self, shape: TrainingShape, go_over: Callable[[TrainingShape], None]) -> None:
        go_over(shape)
        self.shape = shape
        self._generation += 1
        if self._stage != "new":
            self._stage = "loaded"

    @exclusive
    def parameters(self) -> list[LayerParameters]:
        """Read the weights and biases as they are now; :class:`DivergedError` if one is not finite."""
        return self._read_finite("parameters", "weights", self._parameters)

    @exclusive
    def velocities(self) -> list[LayerParameters]:
        """Read the momentum's velocities as they are now; :class:`DivergedError` if one is not finite."""
        return self._read_finite("velocities", "velocities", self._velocities)

    @exclusive
    def forward(
        self, x: np.ndarray, lengths: np.ndarray | Sequence[int] | None = None, h0: np.ndarray | None = None,
        c0: np.ndarray | None = None, skipped_cells: np.ndarray | None = None, tokens: np.ndarray | None = None,
    ) -> Outputs:  # fmt: skip
        """Run the network over a batch of sequences and store what ``backward`` needs.

        T is the pass's number of steps: at most that of the session. A pass of fewer steps costs no more, and has the
        same bits, as one of a session that was made for so many.

        Parameters
        ----------
        x : array, float32, (T, B, I)
        lengths : B integers from 1 to T, optional
            Steps of each sequence, only in a session whose shape is `masked`; the rest is padding, where the state does
            not change. Default: T for all.
        h0, c0 : arrays, float32, (L, B, H), optional
            Initial states; default zeros.
        skipped_cells : array, bool, (L, T), optional
            Cells that store nothing and that ``backward`` leaves out, by default none: whatever gradient reaches a
            skipped cell (dy, dh, dc, of every sequence) is dropped there; it contributes nothing to dW, db and dx, and
            passes +0 on. :class:`DeviceError` if the device cannot.
        tokens : array of integers, (T, B), optional
            The tokens whose vectors x are. Only in a session whose shape has `shared_tokens`, and then needed. What
            they are at padding is not looked at.
        """
        outputs = self._pass_forward(*self._begin_forward("forward", x, lengths, h0, c0, skipped_cells, tokens))
        self._stage = "forward"
        self._clear_padding(outputs.y)
        return outputs

    def _begin_forward(
        self, call: str, x: Any, lengths: Any = None, h0: Any = None, c0: Any = None, skipped_cells: Any = None,
        tokens: Any = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Check what a forward pass is given; give x, lengths, h0 and c0 as the hooks take them."""
        of_pass, x, lengths = self._check_inputs(call, x, lengths)
        h0 = check_state(of_pass, "h0", h0)
        c0 = check_state(of_pass, "c0", c0)
        shared = check_tokens(of_pass, tokens, x, lengths)
        self._begin_pass(self._check_skipped(of_pass, skipped_cells), shared)
        self._lengths = lengths
        return x, lengths, h0, c0

    def _check_inputs(self, call: str, x: Any, lengths: Any) -> tuple[TrainingShape, np.ndarray, np.ndarray]:
        """Give the shape of a pass over x, and both in canonical form."""
        self._require(call, "load", *LOADED)
        of_pass = check_steps(self.shape, x)
        return of_pass, check_float32("x", x, of_pass.x_shape), check_lengths(of_pass, lengths)

    def _begin_pass(self, skipped: np.ndarray, shared: SharedTokens | None) -> None:
        self._skipped, self._shared = skipped, shared
        self._generation += 1
        self._stage = "loaded"  # if the device fails now, there is no pass to go back through

    @exclusive
    def encode(self, intermediates: Sequence[np.ndarray], skipped_cells: np.ndarray | None = None) -> Iterator[bytes]:
        """Compress what a forward pass that the host ran stores, for :meth:`load_intermediates`: sealed streams.

        `intermediates`, L arrays, float32, (6, T, B, H), have P_i, P_f, P_g, P_o, P_s, P_r of each layer as its storage
        has them, pruned and rounded; +0 at padded steps. `skipped_cells`: see :meth:`forward`. :class:`DeviceError` if
        the device takes no intermediates, or a layer's storage is dense.
        """
        network = self.shape.network
        if len(intermediates) != network.layers:
            raise ValueError(f"there must be intermediates of {network.layers} layers, got {len(intermediates)}")
        shape = check_steps(self.shape, intermediates[0], axis=1)
        expected = (len(KINDS), shape.steps, shape.batch, network.hidden_size)
        layers = [check_float32(f"intermediates of layer {n}", p, expected) for n, p in enumerate(intermediates)]
        return self._encode(layers, self._check_skipped(shape, skipped_cells))

    @exclusive
    def load_intermediates(
        self, x: np.ndarray, h: np.ndarray, streams: Iterable[bytes], lengths: np.ndarray | Sequence[int] | None = None,
        skipped_cells: np.ndarray | None = None, sent: Sequence[np.ndarray] | None = None,
    ) -> None:  # fmt: skip
        """Take what a forward pass that the host ran has left; stands for :meth:`forward` with the present weights.

        Parameters
        ----------
        x, lengths, skipped_cells : see :meth:`forward`
        h : array, float32, (L, T + 1, B, H)
            Every layer's h, the initial one first; padded steps repeat the last.
        streams : iterable of bytes
            What :meth:`encode` gives, in this order; may come from elsewhere, see
            :func:`etalstm.device.offload.receive`.
        sent : sequence of arrays, float32, one (T, B, I + H) for each layer
            With delta inputs only, and then needed: what x, and the h of the step before, were last sent as.

        Raises
        ------
        StreamError
            It names a stream that is damaged, of another network, not the one that comes next, missing, or one too
            many. The session is then as before the call, without a forward pass.
        """
        of_pass, x, steps = self._check_inputs("load_intermediates", x, lengths)
        layers, batch, units = of_pass.state_shape
        h = check_float32("h", h, (layers, of_pass.steps + 1, batch, units))
        sent = check_sent(of_pass, sent)
        self._begin_pass(self._check_skipped(of_pass, skipped_cells), None)
        self._load_intermediates(x, h, streams, steps, sent)
        self._lengths = steps
        self._stage = "forward"

    @exclusive
    def backward(
        self, dy: np.ndarray, dh: np.ndarray | None = None, dc: np.ndarray | None = None,
        delta_threshold: float = 0.0,
    ) -> InputGradients:  # fmt: skip
        """Run the last forward pass backwards.

        Parameters
        ----------
        dy : array, float32, (T, B, H)
            Gradient of ``Outputs.y``; what it holds at padded steps is not used.
        dh, dc : arrays, float32, (L, B, H), optional
            Gradients of ``Outputs.h`` and ``Outputs.c``; default zeros.
        delta_threshold : float
            Gradients of the gates' sums whose size is below count as zero in Wᵀδ and dW: they cost no multiplication
            there. db adds all of them, and what a cell passes on by its state is not changed. ``ValueError`` where a
            layer's storage is dense, which keeps δ whole.
        """
        self._require("backward", "forward", "forward")
        dy = check_float32("dy", dy, replace(self.shape, steps=self._steps).y_shape)
        self._clear_padding(dy)
        dh = check_state(self.shape, "dh", dh)
        dc = check_state(self.shape, "dc", dc)
        delta_threshold = check_delta_threshold(self.shape, delta_threshold)
        self._stage = "loaded"
        self._pass_backward(dy, dh, dc, delta_threshold)
        self._stage = "backward"
        return self._input_gradients()

    def _input_gradients(self) -> InputGradients:
        generation = self._generation
        members = {"dx": self._dx, "states": self._initial_state_gradients, "norm": self._norm}

        def read(member: str) -> Any:
            with self.access.entered(member):
                if generation != self._generation:
                    raise CallOrderError(f"{member} of a backward pass was asked for after the next forward or load")
                return members[member]()

        return InputGradients(read)

    @exclusive
    def forward_backward(self, x: np.ndarray, loss: SliceLoss, **options: Any) -> tuple[Outputs, InputGradients]:
        """Run both passes: see :class:`BothPasses`."""
        return super().forward_backward(x, loss, **options)

    @exclusive
    def gradients(self) -> list[LayerGradients]:
        """Read dW and db of the last backward pass, before clipping, in the row order of the weights."""
        self._require("gradients", "backward", "backward", "updated")
        return self._gradients()

    @exclusive
    def usage(self) -> list[Usage]:
        """Count, by layer, what the last forward and backward pass kept and computed; [] if not :attr:`reduces`."""
        self._require("usage", "backward", "backward", "updated")
        usages = self._usage()
        if usages and self._shared:
            scalars = self._shared_scalars() - self._shared.scalars_unshared
            usages[0] = usages[0].with_more_scalars(scalars, self.shape.network.hidden_size)
        return usages

    @exclusive
    def contributions(self) -> np.ndarray:
        """Measure every cell: ‖δ‖·‖xh‖, the 2-norm of what each sequence added to its layer's dW there.

        To be called before ``update``: a device may run passes again, with the weights that they had. Gives float64
        (L, T, B), 0 at padded steps and skipped cells. :class:`DeviceError` if the device is not one that
        :attr:`reduces`, or its memory has room for one layer's δ at a time only; ``ValueError`` if the cell is no LSTM.
        """
        self.shape.network.require_lstm("contributions of cells")
        self._require("contributions", "backward", "backward")
        return self._contributions()

    @exclusive
    def update(
        self, learning_rate: float, momentum: float = 0.0, clip: float | None = None, weight_decay: float = 0.0,
        compensation: float = 1.0,
    ) -> None:  # fmt: skip
        """Change weights and velocities by the last backward pass: SGD with momentum, see :class:`UpdateRule`.

        `clip` is the largest 2-norm of the whole gradient; None or 0: any. The gradient is multiplied by `compensation`
        before it is clipped, for the cells that were skipped. ``ValueError`` if a number is outside its range,
        :class:`DivergedError` if the gradient's norm is not finite; the weights stay as they were.
        """
        self._require("update", "backward", "backward")
        check_hyperparameters(learning_rate, momentum, clip, weight_decay)
        if not 0 < compensation < math.inf:
            raise ValueError(f"compensation must be finite and above 0, got {compensation}")
        scale = np.float32(compensation * clip_scale(self._norm() * compensation, clip))
        rule = UpdateRule(np.float32(learning_rate), np.float32(momentum), np.float32(weight_decay), scale)
        self._stage = "new"  # if the device fails below, some weights are new and some are old
        self._update(rule)
        self._stage = "updated"

    @exclusive
    def scrub(self) -> None:
        """Read back what the device's memory must still hold, and compare it; nothing on the device changes.

        Compared are the copies of the weights with each other, the inputs of the last passes with the host's arrays,
        and weights, biases and velocities with digests: see :class:`etalstm.device.machine.windows.Scrubber`. A digest
        is made by :meth:`load`. After :meth:`update` the next call makes a new one, and those that follow compare with
        it. A device without a memory of its own has nothing to compare. :class:`DamagedMemoryError` names the array.
        """
        self._require("scrub", "load", *LOADED)
        self._scrub()

    @exclusive
    def counters(self) -> dict:
        """Read the counters since the last forward began: of it and of the backward and update that followed it.

        Every device has ``cycles`` (0 where there is no clock); the others' names are the device's.
        """
        return self._counters()

    @exclusive
    def memory(self) -> dict:
        """Describe the device's memory that the session takes, in bytes; {} where there is no such thing.

        ``reserved``, by kind, padding included. ``log`` and ``log_used``: of the intermediates, what the logs of
        compressed streams have, and what all streams of the last passes took, one behind the other. ``segments``: into
        how many the cells are divided; of more than two, those before the last two go to the host and come back.
        ``host``: bytes ``read`` and ``written`` by the host since the last forward began, by kind. ``replays``: how
        often a log was too small, a larger one was planned, and the pass was run again. ``parts``, if the batch does
        not fit: into how many it is divided that are worked on one after the other.
        """
        return self._memory()

    def _check_storage(self, storage: Storage) -> None:
        if storage.compressed and not self.reduces:
            raise DeviceError(f"this device keeps its intermediates dense, not as {storage.policy}")

    def _check_host_memory(self, shape: TrainingShape) -> None:
        check_host_memory("the arrays of an iteration", WORD_BYTES * self._host_words(shape))

    def _require(self, call: str, missing: str, *stages: str) -> None:
        if self._stage not in stages:
            raise CallOrderError(f"{call}() needs {missing}() first")

    def _read_finite(self, call: str, what: str, read: Callable[[], list[LayerParameters]]) -> list[LayerParameters]:
        self._require(call, "load", *LOADED)
        try:
            return read()
        except ValueError as error:  # LayerParameters found a value that an update made infinite
            raise DivergedError(f"the {what} on the device have overflowed: {error}") from error

    def _check_skipped(self, of_pass: TrainingShape, skipped: Any) -> np.ndarray:
        skipped = check_skipped(of_pass, skipped)
        if skipped.any() and not self.reduces:
            raise DeviceError("this device skips no cells")
        return skipped
