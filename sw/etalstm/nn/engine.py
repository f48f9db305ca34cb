"""Engines, which compute a layer for the operators: a device, or float64 arithmetic for gradient checks."""

import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from etalstm import golden
from etalstm.device import DEVICES, GOLDEN, Device, is_hardware, open_device
from etalstm.device.machine.hardware import is_simulation
from etalstm.errors import DeviceError, DivergedError, EtaLstmError
from etalstm.golden import float64
from etalstm.golden.passes import active_steps
from etalstm.host.machine_code import announce
from etalstm.network.cells.lstm import LSTM
from etalstm.network.shape import canonical_rows, pytorch_rows
from etalstm.nn.call import Call, LayerCall, LayerStep
from etalstm.nn.pool import Claim, LayerSession, SessionPool

FLOAT64 = "float64"


def _open(name: str) -> Device:
    """Open a device by its name; what takes long before its first pass is announced on standard error."""
    tell = partial(print, file=sys.stderr, flush=True)
    if name == GOLDEN:
        announce(golden, tell)
    return open_device(name, log=tell) if is_simulation(name) else open_device(name)


class Engine(ABC):
    """Computes a layer; an operator finds it by its key."""

    key: str
    dtype: np.dtype  # of all tensors

    @abstractmethod
    def forward(self, call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give y (T, B, H), h and c (B, H)."""

    @abstractmethod
    def backward(
        self, make_call: Callable[[], Call], dy, dh, dc, delta_threshold: float = 0.0
    ) -> tuple[np.ndarray, ...]:
        """Give dx, dh0, dc0 and those of the call's weights for the gradients dy (T, B, H), dh and dc (B, H).

        `make_call` gives the argument of :meth:`forward`. It is called only if the pass is not found by a claim. For
        `delta_threshold` see :meth:`etalstm.device.Session.backward`.
        """

    def use(self, claim: Claim | None) -> None:  # noqa: B027  an engine that stores no pass has nothing to do
        """Choose the forward pass of this thread's next :meth:`backward`."""

    def claim(self) -> Claim | None:
        """Keep this thread's last forward pass stored until the claim is garbage-collected."""
        return None

    def update(self, step: LayerStep) -> None:  # noqa: B027  an engine that stores no weights has nothing to do
        """Take a step of SGD that the host has taken too."""

    def __deepcopy__(self, memo) -> "Engine":
        return self  # two copies of a module share the device


class DeviceEngine(Engine):
    """A device of this package; calls from several threads take turns.

    `key`: one of the names that :func:`etalstm.device.open_device` knows, or the key of `device`. `device`: default:
    the device is opened by its name when it is first used, and again after it has failed.
    """

    dtype = np.dtype(np.float32)

    def __init__(self, key: str, device: Device | None = None):
        self.key, self.device = key, device
        self._opened_here = device is None
        self._pool: SessionPool | None = None
        self._lock = threading.RLock()
        self._thread = threading.local()

    def forward(self, call):
        """Give y, h and c; :class:`DeviceError` names the engine if the device fails."""
        self._thread.last = None  # the claim on the pass before was not asked for
        with self._working("forward pass"):
            session = self._sessions().session_for(call)
            outputs = session.forward(call)
            self._thread.last = session.claim()  # before another thread may use the session
        return outputs

    def backward(self, make_call, dy, dh, dc, delta_threshold=0.0):
        """Give the gradients; a forward pass that no session stores any more is run again."""
        claim = getattr(self._thread, "claim", None)
        self.use(None)
        with self._working("backward pass"):
            session = self._sessions().claimed_by(claim) or self._recognised(make_call())
            return session.backward(dy, dh, dc, claim, delta_threshold)

    def _recognised(self, call: Call) -> LayerSession:
        """Give the session that stores the pass of `call`; if there is none, run the pass again."""
        session = self._sessions().with_pass(call)
        if session is None:
            session = self._sessions().session_for(call)
            session.forward(call)
        return session

    def update(self, step):
        """Take the step on the session that gave its gradients; nothing is done if that session is gone."""
        with self._working("update"):
            session = self._sessions().source_of(step)
            if session:
                session.update(step)

    def claim(self):
        """Keep this thread's last forward pass on the device until the claim is garbage-collected."""
        claim, self._thread.last = getattr(self._thread, "last", None), None
        return claim

    def use(self, claim):
        """Choose the forward pass of this thread's next backward pass; saves the comparison of its inputs."""
        self._thread.claim = claim

    def _sessions(self) -> SessionPool:
        if self.device is None:
            self.device = _open(self.key)
        if self._pool is None:
            self._pool = SessionPool(self.device)
        return self._pool

    @contextmanager
    def _working(self, work: str) -> Iterator[None]:
        """Lock out other threads, and name the engine in errors."""
        with self._lock:
            try:
                yield
            except DivergedError:
                raise
            except EtaLstmError as error:
                raise self._failed(work, error) from error

    def _failed(self, work: str, error: EtaLstmError) -> DeviceError:
        """Discard the sessions, so that the next call makes new ones; give an error that names the device."""
        self._pool = None
        if self._opened_here and self.device is not None:
            self.device.close()
            self.device = None
        named = DeviceError(f"the {work} of an LSTM layer failed on engine {self.key!r}: {error}")
        named.log = error.log
        return named

    def __reduce__(self):
        if not self._opened_here:
            raise TypeError(f"engine {self.key!r} is an open device and cannot be pickled; use a device's name instead")
        return engine_of, (self.key,)


class Float64Engine(Engine):
    """Float64 arithmetic without a device, for ``torch.autograd.gradcheck``. It stores no pass."""

    key, dtype = FLOAT64, np.dtype(np.float64)

    def forward(self, call):
        """Give y, h and c. Raises ``ValueError`` if the layer is no LSTM."""
        if call.cell != LSTM.name:
            raise ValueError(f"engine {FLOAT64} computes cell {LSTM.name} only, got cell {call.cell}")
        done = self._pass(call)
        padded = ~done.active[:, :, None]
        return np.where(padded, 0.0, done.y), done.h[-1], done.c[-1]

    def backward(self, make_call, dy, dh, dc, delta_threshold=0.0):
        """Give the gradients; ``ValueError`` with a threshold for δ."""
        call = make_call()
        done = self._pass(call)
        dy = np.where(done.active[:, :, None], dy, 0.0)
        back = float64.layer_backward(self._weights(call), done, dy, dh, dc, delta_threshold)
        dw_ih, dw_hh = np.split(pytorch_rows(back.weights), [call.x.shape[2]], axis=1)
        return back.dx, back.dh0, back.dc0, dw_ih, dw_hh, pytorch_rows(back.bias)

    def _pass(self, call: LayerCall) -> float64.Float64Pass:
        steps, batch, _ = call.x.shape
        active = active_steps(np.full(batch, steps) if call.lengths is None else call.lengths, steps)
        states = call.h0, call.c0
        how = {"storage": call.execution.storage.layer(0), "delta_inputs": call.execution.delta_inputs.layer(0)}
        return float64.layer_forward(self._weights(call), canonical_rows(call.bias), call.x, *states, active, **how)

    @staticmethod
    def _weights(call: LayerCall) -> np.ndarray:
        return canonical_rows(np.concatenate([call.w_ih, call.w_hh], axis=1))

    def __reduce__(self):
        return engine_of, (self.key,)


_NAMED: dict[str, Engine] = {}  # kept open: opening a device may mean building it
_OPEN: weakref.WeakValueDictionary[str, DeviceEngine] = (
    weakref.WeakValueDictionary()
)  # as long as a module or a graph has them


def engine_of(engine: str | Device | Engine) -> Engine:
    """Give the engine of an open device, of a name that :func:`etalstm.device.open_device` knows, or of ``float64``.

    Raises ``ValueError`` if there is no such name, ``TypeError`` if it is something else.
    """
    if isinstance(engine, Engine):
        return engine
    if isinstance(engine, Device):
        return _engine_of_device(engine)
    expected = f"engine must be one of {', '.join((*DEVICES, FLOAT64))}, or an open Device, got"
    if not isinstance(engine, str):
        raise TypeError(f"{expected} {type(engine).__name__}")
    if engine not in (*_NAMED, FLOAT64, GOLDEN) and not is_hardware(engine):
        raise ValueError(f"{expected} {engine!r}")
    if engine not in _NAMED:
        _NAMED[engine] = Float64Engine() if engine == FLOAT64 else DeviceEngine(engine)
    return _NAMED[engine]


def _engine_of_device(device: Device) -> Engine:
    for found in list(_OPEN.values()):
        if found.device is device:
            return found
    key = f"{device.name}:{device.preset}#{id(device):x}"
    return _OPEN.setdefault(key, DeviceEngine(key, device))


def find_engine(key: str) -> Engine:
    """Give the engine with a key.

    Raises ``ValueError`` if the key is that of an open device, and no module in this process uses the device.
    """
    if key in _OPEN:
        return _OPEN[key]
    if "#" in key:
        raise ValueError(f"engine {key!r} is an open device that no module in this process uses any more")
    return engine_of(key)
