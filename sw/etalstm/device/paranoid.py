"""Now and then golden computes an iteration too, and every bit must be the same: the device is not trusted."""

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from etalstm.device.access import exclusive
from etalstm.device.api import Session
from etalstm.device.device import Device
from etalstm.device.golden import GOLDEN, GoldenDevice
from etalstm.device.results import BothPasses, InputGradients, Outputs
from etalstm.device.shape import TrainingShape
from etalstm.errors import MismatchError
from etalstm.network.delta_inputs import DeltaInputs
from etalstm.network.shape import LayerGradients, LayerParameters, check_size
from etalstm.network.storage import Storage

Arrays = Iterator[tuple[str, np.ndarray]]


class ParanoidSession(BothPasses[InputGradients]):
    """A session that golden follows: what is checked is an iteration, from its forward pass to its update.

    Before the check golden gets the session's weights and velocities. Where iterations follow each other that are all
    checked, golden keeps its own. Then a weight that changes between two iterations is found too: a
    :class:`MismatchError`, as is any result with other bits than golden's.

    What is not named here is the session's own. One of so many iterations, `every`, is checked, the first among them.

    `iterations` counts the backward passes that have begun. `agreed` is the last of them whose passes were checked,
    from 1; 0: none yet.
    """

    def __init__(self, session: Session, golden: Session, every: int):
        self._session, self._golden, self._every = session, golden, every
        self.iterations = self.agreed = self._agreed_before = 0
        self._checks = False  # this iteration
        self._follows = False  # golden has the weights that the session should have
        self._demanded = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    def check_next(self) -> None:
        """Have the next iteration checked, whatever its number."""
        self._demanded = True

    def load(self, parameters: Sequence[LayerParameters], velocities: Sequence[LayerParameters] | None = None) -> None:
        """Put weights and velocities on the device."""
        self._follows = False
        self._session.load(parameters, velocities)

    def store_as(self, storage: Storage) -> None:
        """Keep intermediates another way."""
        self._session.store_as(storage)
        self._golden.store_as(storage)

    def send_as(self, inputs: DeltaInputs) -> None:
        """Send x and h another way."""
        self._session.send_as(inputs)
        self._golden.send_as(inputs)

    def forward(self, *arguments: Any, **options: Any) -> Outputs:
        """Run forward."""
        self._inputs, self._named = arguments, options
        self._outputs = self._session.forward(*arguments, **options)
        return self._outputs

    def backward(self, *arguments: Any, **options: Any) -> InputGradients:
        """Run backward; if the iteration is checked, compare both passes."""
        self._checks = self._demanded or self.iterations % self._every == 0
        self._demanded = False
        self.iterations, self._agreed_before = self.iterations + 1, self.agreed
        back = self._session.backward(*arguments, **options)
        if self._checks:
            self._check_passes(back, arguments, options)
        return back

    def update(self, *arguments: Any, **options: Any) -> None:
        """Change weights and velocities; if the iteration is checked, compare both."""
        self._session.update(*arguments, **options)
        self._follows = self._checks
        if self._checks:
            self._golden.update(*arguments, **options)
            self._compare(_state(self._session), _state(self._golden))

    def _check_passes(self, back: InputGradients, arguments: tuple, options: dict) -> None:
        if not self._follows:
            self._golden.load(self._session.parameters(), self._session.velocities())
        self._compare(_outputs(self._outputs), _outputs(self._golden.forward(*self._inputs, **self._named)))
        expected = self._golden.backward(*arguments, **options)
        self._compare(_gradients(back, self._session), _gradients(expected, self._golden))
        self.agreed = self.iterations

    def _compare(self, found: Arrays, expected: Arrays) -> None:
        for (name, ours), (_, right) in zip(found, expected, strict=True):
            ours, right = (np.ascontiguousarray(array).view(np.uint32) for array in (ours, right))
            if not np.array_equal(ours, right):
                raise MismatchError(self.iterations, self._agreed_before, _described(name, ours, right))


class ParanoidDevice(Device):
    """A device whose sessions golden follows; `device` is closed with this one.

    ``ValueError`` if `every`, see :class:`ParanoidSession`, is no integer above 0, or the device is golden itself.
    """

    def __init__(self, device: Device, every: int):
        check_size("paranoid", every)
        if device.name == GOLDEN:
            raise ValueError("paranoid compares a device with golden: device must be another one, got golden")
        super().__init__(device.name, device.preset, device.access)
        self.device, self._every = device, every
        self.plans_steps = device.plans_steps
        self._golden = GoldenDevice(device.preset)
        self._sessions: weakref.WeakSet[ParanoidSession] = weakref.WeakSet()

    @property
    def memory_bytes(self) -> int | None:
        """Bytes of the device's memory."""
        return self.device.memory_bytes

    def check_next(self) -> None:
        """Have the next iteration of every session checked."""
        for session in self._sessions:
            session.check_next()

    @exclusive
    def best_slices(self, shape: TrainingShape) -> int:
        """Ask the device."""
        return self.device.best_slices(shape)

    @exclusive
    def best_shared_tokens(self, shape: TrainingShape, batches: Sequence[np.ndarray]) -> int | None:
        """Ask the device."""
        return self.device.best_shared_tokens(shape, batches)

    def _create(self, shape: TrainingShape) -> Session:
        session = ParanoidSession(self.device.create(shape), self._golden.create(shape), self._every)
        self._sessions.add(session)
        return cast(Session, session)  # what it does not name is a session's

    def _release(self) -> None:
        self.device._release()


def _outputs(outputs: Outputs) -> Arrays:
    return iter((("y", outputs.y), ("h", outputs.h), ("c", outputs.c)))


def _gradients(back: InputGradients, session: Session) -> Arrays:
    yield from (("dx", back.dx), ("dh0", back.dh0), ("dc0", back.dc0))
    yield from _of_layers("gradient of", session.gradients())


def _state(session: Session) -> Arrays:
    yield from _of_layers("updated", session.parameters())
    yield from _of_layers("velocity of", session.velocities())


def _of_layers(what: str, layers: Sequence[LayerParameters | LayerGradients]) -> Arrays:
    for number, layer in enumerate(layers):
        yield f"{what} weights, layer {number}", layer.weights
        yield f"{what} bias, layer {number}", layer.bias


def _described(name: str, found: np.ndarray, expected: np.ndarray) -> str:
    """Tell where two arrays of words begin to differ, and in how many words they do."""
    different = np.argwhere(found != expected)
    first = tuple(map(int, different[0]))
    values = f"{found[first]:#010x}, golden's {expected[first]:#010x}"
    return f"{name} at {list(first)} is {values}; {len(different):,} of {found.size:,} words differ"
