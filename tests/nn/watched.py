"""A golden device that counts what it is asked for, and fails when it is told to."""

import weakref
from collections import Counter

from etalstm.device import GoldenDevice
from etalstm.device.golden import GoldenSession
from etalstm.errors import DeviceError, PlanError


class WatchedDevice(GoldenDevice):
    """Members
    -------
    calls : Counter
        By name: create, load, forward, backward, update.
    fails : str or None
        The call that fails.
    room : int
        Sessions that fit its memory.
    plans_steps : bool
        Pretends that plans take time.
    """

    def __init__(self, room=1000, plans_steps=False):
        super().__init__()
        self.calls, self.fails, self.room, self.plans_steps = Counter(), None, room, plans_steps
        self.shapes = []
        self._living = weakref.WeakSet()

    def _create(self, shape):
        if len(self._living) >= self.room:
            raise PlanError(f"the device has room for {self.room} sessions")
        self.meet("create")
        self.shapes.append(shape)
        session = WatchedSession(shape, self)
        self._living.add(session)
        return session

    def meet(self, call):
        self.calls[call] += 1
        if self.fails == call:
            raise DeviceError("the link is down")


class WatchedSession(GoldenSession):
    def __init__(self, shape, device):
        super().__init__(shape)
        self._device = device

    def _load(self, parameters, velocities):
        self._device.meet("load")
        super()._load(parameters, velocities)

    def _forward(self, x, lengths, h0, c0):
        self._device.meet("forward")
        return super()._forward(x, lengths, h0, c0)

    def _backward(self, dy, dh, dc, delta_threshold):
        self._device.meet("backward")
        super()._backward(dy, dh, dc, delta_threshold)

    def _update(self, rule):
        self._device.meet("update")
        super()._update(rule)
