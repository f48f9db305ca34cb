"""How much of the exchange of gradients an iteration on several ranks waits for, and how well a pipeline overlaps.

Dimensions: B sequences, T steps, H units, L layers.
"""

import time
from dataclasses import dataclass

import numpy as np

from etalstm.device import Device, Outputs, Session, TrainingShape
from etalstm.device.ranks.device import RanksDevice
from etalstm.device.ranks.pipeline import PipelineDevice
from etalstm.device.ranks.team import Team
from etalstm.errors import DeviceError
from etalstm.network.execution import Execution
from etalstm.network.pipeline_grid import PER_STAGE
from etalstm.network.shape import WORD_BYTES, LayerGradients, NetworkShape, check_size, initial_parameters

FORWARD_SHARE = 1 / 3  # of a device's time, that the forward pass takes; of a dense iteration's products it is so much
BATCH_OF_RANK, STEPS = 1, 2  # small: what is measured does not depend on them


@dataclass(frozen=True)
class Sizes:
    """What is measured.

    Members
    -------
    hidden, layers : int     H, L; a layer has as many inputs as units
    device_ratio : float     seconds that a device waits in an iteration, over the seconds of an exchange
    runs : int               iterations, after one that warms up
    pipeline : int           ranks over which the layers are spread; 1: each has all
    """

    hidden: int
    layers: int
    device_ratio: float
    runs: int
    pipeline: int = 1

    def __post_init__(self):
        for name in ("hidden", "layers", "runs", "pipeline"):
            check_size(name, getattr(self, name))
        if not self.device_ratio >= 0:
            raise ValueError(f"device_ratio must be at least 0, got {self.device_ratio}")


class WaitingSession(Session):
    """Computes nothing: an iteration takes so many `seconds`, and each layer's gradients come in their time."""

    def __init__(self, shape: TrainingShape, seconds: float):
        super().__init__(shape)
        self._seconds = seconds
        rows, columns = shape.network.rows, shape.network.columns_of(0)
        self._layer = LayerGradients(np.ones((rows, columns), np.float32), np.ones(rows, np.float32))

    def _load(self, parameters, velocities):
        self._stored = parameters, velocities

    def _parameters(self):
        return self._stored[0]

    def _velocities(self):
        return self._stored[1]

    def _forward(self, x, lengths, h0, c0):
        time.sleep(FORWARD_SHARE * self._seconds)
        return Outputs(np.zeros(self.shape.y_shape, np.float32), h0, c0)

    def _backward(self, dy, dh, dc, delta_threshold):
        layers = self.shape.network.layers
        for layer in reversed(range(layers)):
            time.sleep((1 - FORWARD_SHARE) * self._seconds / layers)
            if self.when_whole:
                self.when_whole(layer, self._layer)

    def _dx(self):
        return np.zeros(self.shape.x_shape, np.float32)

    def _initial_state_gradients(self):
        zeros = np.zeros(self.shape.state_shape, np.float32)
        return zeros, zeros

    def _norm_terms(self):
        layers = range(self.shape.network.layers)
        return [np.ones(self._layer.weights.shape[1], np.float32) for _ in layers], [self._layer.bias for _ in layers]

    def _gradients(self):
        return [self._layer] * self.shape.network.layers

    def _take_gradients(self, gradients):
        pass

    def _update(self, rule):
        pass

    def _counters(self):
        return {"cycles": 0}


class WaitingDevice(Device):
    """A device that takes its time, `seconds` of an iteration, and no processor."""

    def __init__(self, name: str, preset: str, seconds: float):
        super().__init__(name, preset)
        self._seconds = seconds

    def _create(self, shape):
        return WaitingSession(shape, self._seconds)


def measure(team: Team | None, sizes: Sizes) -> dict:
    """Time iterations on waiting devices, and on devices that do not wait: those take as long as the exchange.

    The two take turns, so that other programs slow both of them. :class:`DeviceError` if mpiexec has not started
    several processes.

    Gives a dict: ``ranks``; ``pipeline``; ``gradient_bytes`` of the network; ``device_seconds`` that each rank's device
    waits in an iteration, and in a pipeline that it must wait for others; ``exchange_seconds``, ``iteration_seconds``:
    medians without and with waiting devices; ``over_longer``: the median over the turns of an iteration's time over the
    longer of device and exchange.
    """
    if team is None:
        raise DeviceError("several processes are measured: eta-lstm launch -n 2 -- bench boards")
    network = NetworkShape(sizes.hidden, sizes.hidden, sizes.layers)
    micro_batches = PER_STAGE * sizes.pipeline if sizes.pipeline > 1 else 1
    slices = team.size // sizes.pipeline * micro_batches
    shape = TrainingShape(network, BATCH_OF_RANK * slices, STEPS, Execution(slices=slices))
    with _waiting(team, sizes, 0.0) as idle:
        exchanging = _session(idle, shape)
        device = sizes.device_ratio * float(np.median([_iteration_seconds(exchanging) for _ in range(sizes.runs)]))
        with _waiting(team, sizes, device / micro_batches) as busy:
            working = _session(busy, shape)
            turns = [(_iteration_seconds(exchanging), _iteration_seconds(working)) for _ in range(sizes.runs)]
    exchange, iteration = np.array(turns).T
    device *= (micro_batches + sizes.pipeline - 1) / micro_batches
    return {
        "ranks": team.size,
        "pipeline": sizes.pipeline,
        "gradient_bytes": WORD_BYTES * (network.weights() + network.layers * network.rows),
        "device_seconds": device,
        "exchange_seconds": float(np.median(exchange)),
        "iteration_seconds": float(np.median(iteration)),
        "over_longer": float(np.median(iteration / np.maximum(device, exchange))),
    }


def _waiting(team: Team, sizes: Sizes, seconds: float) -> Device:
    if sizes.pipeline == 1:
        return RanksDevice(team, WaitingDevice, "waiting", "sim", {}, seconds=seconds)
    return PipelineDevice(team, WaitingDevice, "waiting", "sim", {}, depth=sizes.pipeline, seconds=seconds)


def _session(device: Device, shape: TrainingShape) -> Session:
    session = device.create(shape)
    session.load(initial_parameters(shape.network, 0))
    _iteration_seconds(session)  # fresh memory takes longer
    return session


def _iteration_seconds(session: Session) -> float:
    x = np.zeros(session.shape.x_shape, np.float32)
    started = time.perf_counter()
    session.forward_backward(x, lambda _, y: y)
    session.update(0.1)
    return time.perf_counter() - started
