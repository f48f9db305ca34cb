"""Sessions of single layers, and the forward passes and weights that they store.

A model calls several layers before its backward pass, and may call a layer several times. A session stores one forward
pass. A pass is recognised by a claim on it, or, in a compiled model, by the bits of its inputs. The backward pass runs
on the session that stores the pass. If no session stores it any more, the forward pass is run again first, which gives
the same bits.
"""

import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from etalstm.device import Device, Session, TrainingShape
from etalstm.errors import PlanError
from etalstm.network.shape import LayerGradients, NetworkShape
from etalstm.nn.call import Call, LayerStep, same_bits
from etalstm.nn.notes import ForwardNote, PassNote, note

IDLE_SESSIONS = 8  # at most so many sessions without a claimed pass are kept
NO_INPUTS: tuple[np.ndarray | None, ...] = (None,) * 4  # instead of x, lengths, h0 and c0
CLAIMED_SESSIONS = 64  # at most so many sessions with a claimed pass are kept; passes of others are run again


class Claim:
    """Claim on a forward pass that may still have a backward pass; it ends when it is garbage-collected."""


def _nothing() -> None:
    """Replace a weak reference to an object that was collected."""


class LayerSession:
    """A session of one layer, with its current weights and forward pass. `device`: the device's name."""

    def __init__(self, session: Session, device: str):
        self.session, self._device = session, device
        self._forward_note = ForwardNote()  # of the last forward pass that was noted
        self._weights: tuple[np.ndarray, ...] | None = None
        self._address: int | None = None  # of the weights of the last call
        self._steps = 0  # of the last forward pass
        self._tensors: Callable[[list[LayerGradients]], tuple[np.ndarray, ...]]  # of the call of that pass
        self._inputs, self._knows_inputs = NO_INPUTS, False  # copies of its inputs; whether they are of that pass
        self._had_claim = False  # the last backward pass had a claim: the next one will need no copies
        self._compared: Callable[[], object] = _nothing  # refers to the call or step whose weights are the session's
        self._velocities: tuple[np.ndarray, ...] | None = None  # None: zeros
        self._gradients: list[LayerGradients] | None = None  # of the last backward pass, until weights change
        self._claim: Callable[[], Claim | None] = _nothing

    @property
    def shape(self) -> TrainingShape:
        """The shape that the session was made for."""
        return self.session.shape

    @property
    def claimed(self) -> bool:
        """Whether a backward pass may still need the forward pass that the session stores."""
        return self._claim() is not None

    def is_claimed_by(self, claim: Claim) -> bool:
        """Tell whether the session stores the pass that `claim` was given for."""
        return self._claim() is claim

    def fits(self, shape: TrainingShape) -> bool:
        """Tell whether the session can run a pass of `shape`."""
        mine = self.shape
        longer = mine.masked and mine.steps >= shape.steps
        return mine == (replace(shape, steps=mine.steps, masked=True) if longer else shape)

    def has_weights(self, call: Call | LayerStep) -> bool:
        """Tell whether the session's weights are those of `call`."""
        if self._weights is None:
            return False
        if self._compared() is not call and same_bits(self._weights, call.weights):
            self._compared = weakref.ref(call)
        return self._compared() is call

    def had_layer(self, call: Call) -> bool:
        """Tell whether the weights of the last call had the same address, which hints at the same layer."""
        return self._address == call.weights[1].ctypes.data

    def has_pass(self, call: Call) -> bool:
        """Tell, by the bits of the inputs, whether the session stores the forward pass of `call`.

        A session whose last backward pass had a claim copies no inputs: the next pass will have a claim, too.
        """
        return self._knows_inputs and same_bits(self._inputs, call.inputs) and self.has_weights(call)

    def claim(self) -> Claim:
        """Keep the pass for a backward pass until the claim is garbage-collected."""
        claim = Claim()
        self._claim = weakref.ref(claim)
        return claim

    def forward(self, call: Call) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Run a layer forward: y (T, B, H), h and c (B, H), arrays of the caller's own."""
        self._claim, self._gradients, self._knows_inputs = _nothing, None, False
        if not self.has_weights(call):
            self._load(call)
        self._address = call.weights[1].ctypes.data
        self._steps, lengths, self._tensors = len(call.x), call.lengths, call.tensors
        x = self._padded(call.x)
        if lengths is None and self.shape.masked:
            lengths = np.full(x.shape[1], self._steps)
        for exponents in self.session.exponents:
            exponents.forget()  # a pass depends on its inputs alone, not on what the session did before
        outputs = self.session.forward(x, lengths, call.h0[None], call.c0[None])
        if not self._had_claim:
            self._inputs, self._knows_inputs = tuple(map(_copied, self._inputs, call.inputs)), True
        note(self._new_forward_note)
        return outputs.y[: self._steps], outputs.h[0], outputs.c[0]

    def backward(self, dy, dh, dc, claim: Claim | None, delta_threshold: float = 0.0) -> tuple[np.ndarray, ...]:
        """Run the stored pass backward, for a claim on it or without one.

        Gives dx (T, B, I), dh0 and dc0 (B, H), and the gradients of the weights of the call.
        """
        self._knows_inputs, self._had_claim = False, claim is not None and self.is_claimed_by(claim)
        if self._had_claim:
            self._inputs = NO_INPUTS
        back = self.session.backward(self._padded(dy), dh[None], dc[None], delta_threshold)
        self._gradients = self.session.gradients()
        self._claim = _nothing
        note(self._pass_note)
        return back.dx[: self._steps], back.dh0[0], back.dc0[0], *self._tensors(self._gradients)

    def gave_gradients(self, step: LayerStep) -> bool:
        """Tell whether the gradients of `step` are those of the session's last backward pass."""
        return self._gradients is not None and same_bits(self._tensors(self._gradients), step.gradients)

    def update(self, step: LayerStep) -> None:
        """Take a step that the host has taken too, so that its weights need not be loaded.

        A session with other velocities does not take the step. It loads velocities and weights before its next pass.
        """
        velocities = self._velocities or tuple(np.zeros_like(array) for array in step.velocities)
        self._weights = None  # to be loaded with the new velocities, unless the device takes the step
        if same_bits(velocities, step.velocities):
            self.session.update(step.learning_rate, step.momentum, weight_decay=step.weight_decay)
            self._weights = step.new_weights
        self._velocities = tuple(array.copy() for array in step.new_velocities)
        self._gradients = None

    def _new_forward_note(self) -> ForwardNote:
        self._forward_note = ForwardNote()
        return self._forward_note

    def _pass_note(self) -> PassNote:
        usages, plan = self.session.usage(), getattr(self.session, "plan", None)
        return PassNote(
            self._forward_note, self._device, self.shape, self._steps, usages[0] if usages else None,
            plan and plan.groups, sum(self.session.memory().get("reserved", {}).values()),
        )  # fmt: skip

    def _load(self, call: Call) -> None:
        self._weights = None  # unknown if the device fails below, in the middle of the load
        velocities = call.parameters(self._velocities) if self._velocities else None
        self.session.load(call.parameters(call.weights), velocities)
        self._weights = tuple(array.copy() for array in call.weights)

    def _padded(self, steps: np.ndarray) -> np.ndarray:
        missing = self.shape.steps - len(steps)
        return np.pad(steps, ((0, missing), (0, 0), (0, 0))) if missing else steps


def _copied(old: np.ndarray | None, new: np.ndarray | None) -> np.ndarray | None:
    """Copy `new`, in the memory of `old` if it fits: fresh memory takes longer than the copy.

    An array that owns its memory was made for its call and will not change; a tensor's array uses the tensor's memory.
    """
    if new is None or new.flags.owndata:
        return new
    if old is None or old.shape != new.shape:
        return new.copy()
    np.copyto(old, new)
    return old


class SessionPool:
    """The sessions of a device."""

    def __init__(self, device: Device):
        self._device = device
        self._sessions: list[LayerSession] = []  # the one used last at the end

    def claimed_by(self, claim: Claim | None) -> LayerSession | None:
        """Give the session that stores the claimed forward pass."""
        claimed = (session for session in self._sessions if claim is not None and session.is_claimed_by(claim))
        session = next(claimed, None)
        return session and self._used(session)

    def with_pass(self, call: Call) -> LayerSession | None:
        """Give the session that stores the forward pass of `call`."""
        shape = _shape_of(call)
        fitting = (session for session in self._sessions if session.fits(shape))
        session = next((session for session in fitting if session.has_pass(call)), None)
        return session and self._used(session)

    def source_of(self, step: LayerStep) -> LayerSession | None:
        """Give the session whose last backward pass gave the gradients of `step` for its weights, or None."""
        return next((s for s in self._sessions if s.gave_gradients(step) and s.has_weights(step)), None)

    def session_for(self, call: Call) -> LayerSession:
        """Give a session to run `call` in, preferably one with its weights.

        Raises :class:`DeviceError` if the layer does not fit the device, even alone.
        """
        shape = _shape_of(call)
        return self._idle_session(call, shape) or self._created(shape)

    def _idle_session(self, call: Call, shape: TrainingShape) -> LayerSession | None:
        """Give a session without a claimed pass; None if none suits and another session may be made."""
        idle = [session for session in self._sessions if session.fits(shape) and not session.claimed]
        for suits in (LayerSession.has_weights, LayerSession.had_layer):
            for session in reversed(idle):
                if suits(session, call):
                    return self._used(session)
        return self._used(idle[0]) if len(idle) >= IDLE_SESSIONS else None

    def _used(self, session: LayerSession) -> LayerSession:
        self._sessions.remove(session)
        self._sessions.append(session)
        return session

    def _created(self, shape: TrainingShape) -> LayerSession:
        shape = self._planned_shape(shape)
        self._drop_beyond(IDLE_SESSIONS - 1, claimed=False)
        self._drop_beyond(CLAIMED_SESSIONS - 1, claimed=True)
        while True:
            try:
                session = LayerSession(self._device.create(shape), self._device.name)
            except PlanError:
                if not self._sessions:
                    raise
                del self._sessions[0]  # its memory is free then
                continue
            self._sessions.append(session)
            return session

    def _drop_beyond(self, count: int, claimed: bool) -> None:
        alike = [session for session in self._sessions if session.claimed == claimed]
        for session in alike[: max(0, len(alike) - count)]:
            self._sessions.remove(session)

    def _planned_shape(self, shape: TrainingShape) -> TrainingShape:
        """Give the shape a session is made with: with more steps than asked for if steps vary and a plan takes time."""
        if not self._device.plans_steps:
            return shape
        varied = [s.shape for s in self._sessions if replace(s.shape, steps=shape.steps, masked=shape.masked) == shape]
        if not varied and not shape.masked:
            return shape
        longest = max([shape.steps, *(other.steps for other in varied)])
        return replace(shape, steps=1 << (longest - 1).bit_length(), masked=True)


def _shape_of(call: Call) -> TrainingShape:
    return _shape(*call.x.shape, call.h0.shape[1], call.cell, call.lengths is not None, call.execution)


@lru_cache
def _shape(steps, batch, inputs, units, cell, masked, execution) -> TrainingShape:
    execution = replace(execution, slices=min(execution.slices, batch))
    return TrainingShape(NetworkShape(inputs, units, cell=cell), batch, steps, execution, masked=masked)
