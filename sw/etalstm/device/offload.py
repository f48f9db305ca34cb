"""The host runs the forward pass and streams the intermediates to a device, which runs everything else."""

import socket
import threading
from collections.abc import Iterable, Iterator

import numpy as np

from etalstm.device.access import exclusive
from etalstm.device.api import Session
from etalstm.device.device import Device
from etalstm.device.results import Outputs, all_counts
from etalstm.device.shape import TrainingShape
from etalstm.errors import DeviceError, StreamError
from etalstm.formats.codec import whole_blocks
from etalstm.formats.sealed_stream import HEADER_BYTES, Encoding, StreamHeader, read_header
from etalstm.golden.trainer import Rows, network_forward, network_outputs
from etalstm.network.shape import LayerGradients, LayerParameters
from etalstm.network.storage import Storage, Usage
from etalstm.network.update_rule import UpdateRule
from etalstm_hw.contract import STREAM_BLOCK

_CHUNK_BYTES = 1 << 16


class StreamTimeoutError(StreamError):
    """A host stopped sending in the middle."""


def receive(connection: socket.socket, seconds: float) -> Iterator[bytes]:
    """Give the sealed streams that arrive, each as soon as it is whole, until the sender closes its end after one.

    Only headers are looked at here; :func:`etalstm.formats.sealed_stream.unseal` checks the rest.

    :class:`StreamTimeoutError` names stream and block if nothing came for so many `seconds`; ``StreamError`` if
    something else comes, or the sender closes in the middle of a stream.
    """
    connection.settimeout(seconds)
    number = 0
    while True:
        data = bytearray()
        _fill(connection, data, HEADER_BYTES, seconds, f"stream {number}", None)
        if not data:
            return
        header = read_header(bytes(data))
        _fill(connection, data, HEADER_BYTES + 4 * header.words, seconds, str(header), header)
        yield bytes(data)
        number += 1


def _fill(
    connection: socket.socket, data: bytearray, size: int, seconds: float, name: str, header: StreamHeader | None
) -> None:
    """Append bytes up to a size; a sender that closes before the first one leaves none."""
    while len(data) < size:
        try:
            came = connection.recv(min(_CHUNK_BYTES, size - len(data)))
        except TimeoutError as error:
            message = f"{name}: nothing came for {seconds:g} seconds, in {_where(data, header)}"
            raise StreamTimeoutError(message) from error
        if not came:
            if not data:
                return
            raise StreamError(f"{name}: the sender closed in {_where(data, header)}")
        data += came


def _where(data: bytearray, header: StreamHeader | None) -> str:
    if header is None:
        return f"its header, after {len(data)} of {HEADER_BYTES} bytes"
    words = np.frombuffer(bytes(data[HEADER_BYTES : len(data) // 4 * 4]), "<u4").astype(np.uint32)
    dense = header.encoding == Encoding.DENSE
    block = words.size // STREAM_BLOCK if dense else whole_blocks(words, header.encoding == Encoding.BF16)
    return f"block {block} of {-(-header.elements // STREAM_BLOCK)}"


TIMEOUT_SECONDS = 60.0


class OffloadSession(Session):
    """A session whose forward pass is the golden trainer's, on the host, with the device's weights.

    The software codec encodes the intermediates, and a thread sends them while the device's side takes them. The
    backward pass, the weights' gradient and the update run on the device, with the bits of a device that does all of
    it. Dense layers send their local gradients whole: as streams that drop zeros only.

    :class:`DeviceError` if the device takes no intermediates.
    """

    reduces = True

    def __init__(self, shape: TrainingShape, device: Device):
        shape.network.require_lstm("a forward pass on the host (offload)")
        super().__init__(shape)
        self._inner = device.create(_streamed(shape))
        self._device_ran = False  # since the last forward pass
        if not self._inner.takes_intermediates:
            raise DeviceError(f"device {device.name} takes no intermediates from the host")

    def _store_as(self, shape: TrainingShape) -> None:
        self._inner.store_as(_streamed(shape).execution.storage)

    def _send_as(self, shape: TrainingShape) -> None:
        self._inner.send_as(shape.execution.delta_inputs)

    def _load(self, parameters: list[LayerParameters], velocities: list[LayerParameters]) -> None:
        self._inner.load(parameters, velocities)

    def _parameters(self) -> list[LayerParameters]:
        return self._inner.parameters()

    def _velocities(self) -> list[LayerParameters]:
        return self._inner.velocities()

    def _forward(self, x: np.ndarray, lengths: np.ndarray, h0: np.ndarray, c0: np.ndarray) -> Outputs:
        self._device_ran = False
        layers = [Rows.of(entry).read_as(self.shape.execution.weight_format) for entry in self._inner.parameters()]
        self._passes = network_forward(
            layers, x, lengths, h0, c0, execution=self.shape.execution, skipped_cells=self._skipped,
            shared=self._shared,
        )  # fmt: skip
        return Outputs(*network_outputs(self._passes))

    def _backward(self, dy: np.ndarray, dh: np.ndarray, dc: np.ndarray, delta_threshold: float) -> None:
        self._device_ran = True
        streams = self._inner.encode([layer.intermediates for layer in self._passes], self._skipped)
        ours, theirs = socket.socketpair()
        sender = Sender(ours, streams)
        with ours, theirs:
            sender.start()
            try:
                self._inner.load_intermediates(
                    self._passes[0].x,
                    np.stack([layer.h for layer in self._passes]),
                    receive(theirs, TIMEOUT_SECONDS),
                    self._lengths if self.shape.masked else None,
                    self._skipped,
                    self._sent(),
                )
            finally:
                theirs.close()  # a sender that still sends is told to stop
                sender.finish()
        self._results = self._inner.backward(dy, dh, dc, delta_threshold)

    def _sent(self) -> list[np.ndarray] | None:
        if self.shape.execution.delta_inputs.off:
            return None
        return [np.concatenate([layer.x_sent, layer.h_sent], axis=2) for layer in self._passes]

    def _dx(self) -> np.ndarray:
        return self._results.dx

    def _initial_state_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        return self._results.dh0, self._results.dc0

    def _norm_terms(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return self._inner._norm_terms()

    def _gradients(self) -> list[LayerGradients]:
        return self._inner.gradients()

    def _update(self, rule: UpdateRule) -> None:
        self._inner._update(rule)

    def _scrub(self) -> None:
        self._inner._scrub()

    def _usage(self) -> list[Usage]:
        return self._inner.usage()

    def _contributions(self) -> np.ndarray:
        return self._inner.contributions()

    def _counters(self) -> dict:
        return self._inner.counters() if self._device_ran else all_counts({})

    def _memory(self) -> dict:
        return self._inner.memory()


class Sender(threading.Thread):
    """Sends streams over a connection while somebody else receives them; then closes it for writing."""

    def __init__(self, connection: socket.socket, streams: Iterable[bytes]):
        super().__init__(name="streams to the device", daemon=True)
        self._connection, self._streams = connection, streams
        self._problem: Exception | None = None

    def run(self) -> None:
        """Send everything; a receiver that has gone ends it."""
        try:
            for stream in self._streams:
                self._connection.sendall(stream)
            self._connection.shutdown(socket.SHUT_WR)
        except OSError:
            return
        except Exception as error:
            self._problem = error
            self._connection.close()

    def finish(self) -> None:
        """Wait for the end; raise what stopped it."""
        self.join()
        if self._problem:
            raise self._problem


def _streamed(shape: TrainingShape) -> TrainingShape:
    """Give the shape of the device's session: with streams for all layers; the host shares tokens, if that is done."""
    storage = shape.execution.storage
    policies = [storage.layer(number).policy for number in range(shape.network.layers)]
    streamed = tuple("ms1" if policy == "dense" else policy for policy in policies)
    return shape.with_execution(storage=Storage(streamed, storage.thresholds), shared_tokens=None)


class OffloadDevice(Device):
    """A device with the host running the forward pass of all its sessions; `device` is closed with this one."""

    def __init__(self, device: Device):
        super().__init__(device.name, device.preset, device.access)
        self.device = device

    def _create(self, shape: TrainingShape) -> Session:
        return OffloadSession(shape, self.device)

    def _release(self) -> None:
        self.device._release()

    @exclusive
    def best_slices(self, shape: TrainingShape) -> int:
        """Ask the device."""
        return self.device.best_slices(shape)
