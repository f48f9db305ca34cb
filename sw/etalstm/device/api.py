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

import numpy as np

from etalstm.device.access import Access, exclusive
from etalstm.device.hooks import SessionHooks
from etalstm.device.results import BothPasses, InputGradients, Outputs, clear_padding
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
from etalstm.host.capacity import check_host_memory
from etalstm.network.delta_inputs import DeltaInputs
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
from etalstm.network.update_rule import UpdateRule, check_hyperparameters, clip_scale, gradient_norm


class Session(SessionHooks, BothPasses[InputGradients]):
    """Weights on a device, and the passes over them.

    The order is ``load``, then any number of ``forward`` (or ``load_intermediates``); after one, one ``backward``; then
    at most one ``update``.
    ``gradients`` and the members of :class:`InputGradients` may be read between ``backward`` and the next ``forward``.
    Every array that goes in must be a NumPy array of float32 and finite; subnormals are read as zeros of their sign.

    A device implements :class:`SessionHooks`.

    Parameters
    ----------
    shape : TrainingShape

    Raises
    ------
    DeviceError
        If the shape's storage is not dense and the device has no other.
    HostMemoryError
        If this computer's memory cannot hold the arrays that go in and come out.

    Members
    -------
    reduces : bool
        The device compresses intermediates, skips cells and counts what it kept.
    takes_intermediates : bool
        The host may run the forward pass: :meth:`load_intermediates`.
    access : Access
        The device's: every call raises :class:`BusyError` while another thread is inside one, of this session or of
        another of its device, and :class:`DeviceError` once the device is closed.
    """

    reduces = takes_intermediates = False

    def __init__(self, shape: TrainingShape):
        self._check_storage(shape.execution.storage)
        self._check_host_memory(shape)
        self.shape, self.access = shape, Access("the session")
        self._skipped = np.zeros((shape.network.layers, shape.steps), bool)  # of the forward pass, for the hooks
        self._stage = "new"  # then loaded, forward, backward, updated
        self._shared: SharedTokens | None = None  # of the forward pass, too: the tokens that it shares
        self._generation = 0  # counts forwards and loads, to tell that InputGradients are stale
        self._lengths = np.full(shape.batch, shape.steps)

    # -- what users call --------------------------------------------------------------------------------------------

    @exclusive
    def load(self, parameters: Sequence[LayerParameters], velocities: Sequence[LayerParameters] | None = None) -> None:
        """Put weights and velocities on the device; velocities default to zero.

        Raises
        ------
        ValueError
            If they are not those of the session's network.
        """
        parameters = check_parameters(self.shape.network, parameters)
        if velocities is None:
            velocities = zero_velocities(self.shape.network)
        velocities = check_parameters(self.shape.network, velocities, "velocities")
        self._generation += 1
        self._stage = "new"  # if the device fails below, some weights are new and some are old
        self._load(parameters, velocities)
        self._stage = "loaded"

    @exclusive
    def store_as(self, storage: Storage) -> None:
        """Keep intermediates another way from the next forward pass on; weights and velocities stay.

        Raises
        ------
        ValueError
            If it is for another number of layers, or not one that the shape's architecture has.
        DeviceError
            If the device has no such storage, or no memory for it; then nothing has changed.
        """
        shape = self.shape.with_execution(storage=storage)
        self._check_storage(storage)
        self._store_as(shape)
        self._gone_over(shape)

    @exclusive
    def send_as(self, delta_inputs: DeltaInputs) -> None:
        """Broadcast x and h another way from the next forward pass on; weights and velocities stay.

        A device that runs programs keeps them where only the thresholds' values change.

        Raises
        ------
        ValueError
            If `delta_inputs` are no delta inputs, or for another number of layers.
        DeviceError
            If the device has no memory for it, or too few parameters for the thresholds; then nothing has changed.
        HostMemoryError
            If this computer's memory cannot hold what is sent.
        """
        shape = self.shape.with_execution(delta_inputs=delta_inputs)
        self._check_host_memory(shape)
        self._send_as(shape)
        self._gone_over(shape)

    def _gone_over(self, shape: TrainingShape) -> None:
        """Note a new shape: no pass of the old one is gone back through."""
        self.shape = shape
        self._generation += 1
        if self._stage != "new":
            self._stage = "loaded"

    @exclusive
    def parameters(self) -> list[LayerParameters]:
        """Read the weights and biases as they are now; :class:`DivergedError` if one is not finite."""
        self._require("parameters", "load", "loaded", "forward", "backward", "updated")
        return self._read_finite("weights", self._parameters)

    @exclusive
    def velocities(self) -> list[LayerParameters]:
        """Read the momentum's velocities as they are now; :class:`DivergedError` if one is not finite."""
        self._require("velocities", "load", "loaded", "forward", "backward", "updated")
        return self._read_finite("velocities", self._velocities)

    @exclusive
    def forward(
        self,
        x: np.ndarray,
        lengths: Sequence[int] | None = None,
        h0: np.ndarray | None = None,
        c0: np.ndarray | None = None,
        skipped_cells: np.ndarray | None = None,
        tokens: np.ndarray | None = None,
    ) -> Outputs:
        """Run the network over a batch of sequences and keep what ``backward`` needs.

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
            Cells that keep nothing and that ``backward`` leaves out: whatever gradient reaches a skipped cell (dy, dh,
            dc, of every sequence) is dropped there; it contributes nothing to dW, db and dx, and passes +0 on. Default:
            none.
        tokens : array of integers, (T, B), optional
            The tokens whose vectors x are. Only in a session whose shape has `shared_tokens`, and then needed. What
            they are at padding is not looked at.

        Raises
        ------
        ValueError
            On a wrong shape, dtype or value.
        CallOrderError
            If nothing was loaded.
        DeviceError
            If cells are to be skipped and the device cannot.
        """
        inputs = self._begin_forward("forward", x, lengths, h0, c0, skipped_cells, tokens)
        outputs = self._forward(*inputs)
        self._stage = "forward"
        self._clear_padding(outputs.y)
        return outputs

    def _begin_forward(self, call: str, x, lengths, h0, c0, skipped_cells, tokens) -> tuple[np.ndarray, ...]:
        """Check what a forward pass is given; give x, lengths, h0 and c0 as the hooks take them."""
        self._require(call, "load", "loaded", "forward", "backward", "updated")
        of_pass = check_steps(self.shape, x)
        x = check_float32("x", x, of_pass.x_shape)
        lengths = check_lengths(of_pass, lengths)
        h0 = check_state(of_pass, "h0", h0)
        c0 = check_state(of_pass, "c0", c0)
        shared = check_tokens(of_pass, tokens, x, lengths)
        self._skipped, self._shared = self._check_skipped(of_pass, skipped_cells), shared
        self._generation += 1
        self._stage = "loaded"  # if the device fails now, there is no pass to go back through
        self._lengths = lengths
        return x, lengths, h0, c0

    @exclusive
    def encode(self, intermediates: Sequence[np.ndarray], skipped_cells: np.ndarray | None = None) -> Iterator[bytes]:
        """Compress what a forward pass that the host ran keeps, as :meth:`load_intermediates` takes it.

        Parameters
        ----------
        intermediates : L arrays, float32, (6, T, B, H)
            P_i, P_f, P_g, P_o, P_s, P_r of each layer as its storage has them, pruned and rounded; +0 at padded steps.
        skipped_cells : array, bool, (L, T), optional
            Cells that keep nothing.

        Returns
        -------
        iterator of bytes
            Sealed streams, see :mod:`etalstm.formats.sealed_stream`.

        Raises
        ------
        ValueError
            On a wrong shape, dtype or value.
        DeviceError
            If the device takes no intermediates, or a layer's storage is dense.
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
        self,
        x: np.ndarray,
        h: np.ndarray,
        streams: Iterable[bytes],
        lengths: Sequence[int] | None = None,
        skipped_cells: np.ndarray | None = None,
        sent: Sequence[np.ndarray] | None = None,
    ) -> None:
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
        ValueError
            On a wrong shape, dtype or value.
        CallOrderError
            If nothing was loaded.
        StreamError
            If a stream is damaged, of another network, not the one that comes next, or missing, or if there are too
            many; the message names it. The session is then as before the call, without a forward pass.
        DeviceError
            If the device takes no intermediates, or a layer's storage is dense.
        """
        self._require("load_intermediates", "load", "loaded", "forward", "backward", "updated")
        of_pass = check_steps(self.shape, x)
        x = check_float32("x", x, of_pass.x_shape)
        layers, batch, units = of_pass.state_shape
        h = check_float32("h", h, (layers, of_pass.steps + 1, batch, units))
        steps = check_lengths(of_pass, lengths)
        sent = check_sent(of_pass, sent)
        self._skipped, self._shared = self._check_skipped(of_pass, skipped_cells), None
        self._generation += 1
        self._stage = "loaded"
        self._load_intermediates(x, h, streams, steps, sent)
        self._lengths = steps
        self._stage = "forward"

    @exclusive
    def backward(
        self,
        dy: np.ndarray,
        dh: np.ndarray | None = None,
        dc: np.ndarray | None = None,
        delta_threshold: float = 0.0,
    ) -> InputGradients:
        """Run the last forward pass backwards.

        Parameters
        ----------
        dy : array, float32, (T, B, H)
            Gradient of ``Outputs.y``; what it holds at padded steps is not used.
        dh, dc : arrays, float32, (L, B, H), optional
            Gradients of ``Outputs.h`` and ``Outputs.c``; default zeros.
        delta_threshold : float
            Gradients of the gates' sums whose size is below count as zero in Wᵀδ and dW: they cost no multiplication
            there. db adds all of them, and what a cell passes on by its state is not changed.

        Raises
        ------
        ValueError
            On a wrong shape, dtype or value; or if there is a threshold and a layer's storage is dense, which keeps δ
            whole.
        CallOrderError
            If there is no forward pass that has not been gone back through.
        """
        self._require("backward", "forward", "forward")
        dy = check_float32("dy", dy, replace(self.shape, steps=self._steps).y_shape)
        self._clear_padding(dy)
        dh = check_state(self.shape, "dh", dh)
        dc = check_state(self.shape, "dc", dc)
        delta_threshold = check_delta_threshold(self.shape, delta_threshold)
        self._stage = "loaded"
        self._backward(dy, dh, dc, delta_threshold)
        self._stage = "backward"
        return self._input_gradients()

    def _input_gradients(self) -> InputGradients:
        """Give what the last backward pass gives back."""
        generation = self._generation

        def read(member):
            with self.access.entered(member):
                return fresh(member)

        def fresh(member):
            if generation != self._generation:
                raise CallOrderError(f"{member} of a backward pass was asked for after the next forward or load")
            return {"dx": self._dx, "states": self._initial_state_gradients, "norm": self._norm}[member]()

        return InputGradients(read)

    @exclusive
    def forward_backward(self, x, loss, **options) -> tuple[Outputs, InputGradients]:
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
        """Measure every cell: the 2-norm of what each sequence added to its layer's dW there.

        To be called before ``update``: a device may run passes again, with the weights that they had.

        Returns
        -------
        array, float64, (L, T, B)
            ‖δ‖·‖xh‖; 0 at padded steps and skipped cells.

        Raises
        ------
        DeviceError
            If the device is not one that :attr:`reduces`, or its memory has room for one layer's δ at a time only.
        ValueError
            If the cell is no LSTM.
        """
        self.shape.network.require_lstm("contributions of cells")
        self._require("contributions", "backward", "backward")
        return self._contributions()

    @exclusive
    def update(
        self,
        learning_rate: float,
        momentum: float = 0.0,
        clip: float | None = None,
        weight_decay: float = 0.0,
        compensation: float = 1.0,
    ) -> None:
        """Change weights and velocities by the last backward pass: SGD with momentum, see :class:`UpdateRule`.

        Parameters
        ----------
        learning_rate, momentum, weight_decay : float
        clip : float, optional
            Largest 2-norm of the whole gradient; None or 0: any.
        compensation : float
            What the gradient is multiplied by, before it is clipped, for the cells that were skipped.

        Raises
        ------
        ValueError
            If a number is outside its range.
        CallOrderError
            Without a backward pass since the last update.
        DivergedError
            If the gradient's norm is not finite; the weights stay as they were.
        """
        self._require("update", "backward", "backward")
        check_hyperparameters(learning_rate, momentum, clip, weight_decay)
        if not 0 < compensation < math.inf:
            raise ValueError(f"compensation must be finite and above 0, got {compensation}")
        scale = np.float32(compensation * clip_scale(self._norm() * compensation, clip))
        self._stage = "new"  # if the device fails below, some weights are new and some are old
        factors = np.float32(learning_rate), np.float32(momentum), np.float32(weight_decay)
        self._update(UpdateRule(*factors, scale))
        self._stage = "updated"

    @exclusive
    def scrub(self) -> None:
        """Read back what the device's memory must still hold, and compare it; nothing on the device changes.

        Compared are the copies of the weights with each other, the inputs of the last passes with the host's arrays,
        and weights, biases and velocities with digests: see :mod:`etalstm.device.machine.windows`. A digest is made by
        :meth:`load`. After :meth:`update` the next call makes a new one, and those that follow compare with it. A
        device without a memory of its own has nothing to compare.

        Raises
        ------
        DamagedMemoryError
            If something differs; the message names the array.
        CallOrderError
            If nothing was loaded.
        """
        self._require("scrub", "load", "loaded", "forward", "backward", "updated")
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

        Returns
        -------
        dict
            ``reserved``, by kind, padding included. ``log`` and ``log_used``: of the intermediates, what the logs of
            compressed streams have, and what all streams of the last passes took, one behind the other. ``segments``:
            into how many the cells are divided; of more than two, those before the last two go to the host and come
            back. ``host``: bytes ``read`` and ``written`` by the host since the last forward began, by kind.
            ``replays``: how often a log was too small, a larger one was planned, and the pass was run again. ``parts``,
            if the batch does not fit: into how many it is divided that are worked on one after the other.
        """
        return self._memory()

    # -- checks -----------------------------------------------------------------------------------------------------

    def _check_storage(self, storage: Storage) -> None:
        if storage.compressed and not self.reduces:
            raise DeviceError(f"this device keeps its intermediates dense, not as {storage.policy}")

    def _check_host_memory(self, shape: TrainingShape) -> None:
        check_host_memory("the arrays of an iteration", WORD_BYTES * self._host_words(shape))

    def _require(self, call: str, missing: str, *stages: str) -> None:
        if self._stage not in stages:
            raise CallOrderError(f"{call}() needs {missing}() first")

    @staticmethod
    def _read_finite(what: str, read: Callable[[], list[LayerParameters]]) -> list[LayerParameters]:
        try:
            return read()
        except ValueError as error:  # LayerParameters found a value that an update made infinite
            raise DivergedError(f"the {what} on the device have overflowed: {error}") from error

    def _check_skipped(self, of_pass: TrainingShape, skipped) -> np.ndarray:
        skipped = check_skipped(of_pass, skipped)
        if skipped.any() and not self.reduces:
            raise DeviceError("this device skips no cells")
        return skipped

    @property
    def _steps(self) -> int:
        """Steps of the last forward pass."""
        return self._skipped.shape[1]

    def _clear_padding(self, steps: np.ndarray) -> None:
        if self.shape.masked:
            clear_padding(steps, self._lengths)

    def _norm(self) -> float:
        return gradient_norm(*self._norm_terms())
