"""Optimizers: the learning rate over a run; SGD on the device, Adam and AdamW on the host.

The learning rate is computed by float64 additions, multiplications and divisions, which all machines round alike.
Powers and cosines of system libraries differ.

The host's parameters are clipped by a norm of their own: the norm of the LSTM's gradient is known only on the device,
after the host has computed its own gradients. Both norms are checked before any parameter changes.

The machine has no square root and no division, so with Adam the host updates the LSTM's parameters too. Each iteration
then reads all of dW, db and the weights from the device and writes the weights back: three times the bytes of the
weights, and no update runs on the device.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, cast

import numpy as np

from etalstm.errors import DivergedError
from etalstm.golden.fast.compiled import descend
from etalstm.network.shape import LayerGradients, LayerParameters, NetworkShape, zero_velocities
from etalstm.network.update_rule import UpdateRule, clip_scale, gradient_norm
from etalstm.train.checkpoint import BestLoss
from etalstm.train.dropout import AnyGradients, AnySession
from etalstm.train.model import HostModel
from etalstm.train.settings import ADAMW, COSINE, PLATEAU, SGD, Settings

COSINE_TERMS = 12  # of the series; the next one is below 1e-16 for angles up to π/2


def power(base: float, exponent: int) -> float:
    """Give ``base ** exponent`` for an exponent of at least 0, by squaring."""
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        base, exponent = base * base, exponent >> 1
    return result


def cosine(angle: float) -> float:
    """Give the cosine of an angle from 0 to π by its series, to 1e-15."""
    if angle > math.pi / 2:
        return -cosine(math.pi - angle)
    term = total = 1.0
    for n in range(1, COSINE_TERMS):
        term *= -angle * angle / ((2 * n - 1) * (2 * n))
        total += term
    return total


def learning_rate(settings: Settings) -> float:
    """Give the learning rate of settings; they have filled in the optimizer's default."""
    return cast(float, settings.learning_rate)


def after_epoch(lowest: BestLoss, loss: float) -> BestLoss:
    """Give the lowest loss after one more epoch, which had this loss."""
    if lowest.best is None or loss < lowest.best:
        return BestLoss(best=loss)
    return BestLoss(best=lowest.best, epochs=lowest.epochs + 1)


class Schedule:
    """Gives each iteration's learning rate.

    The settings' learning rate is multiplied by a factor of

    ``step``
        `decay` for each `step_epochs` epochs that are over.
    ``cosine``
        1 at the first iteration, falling along a half cosine to `floor` at the last one of the run.
    ``plateau``
        `decay` each time the validation loss has not fallen for more than `patience` epochs.

    The first `warmup` iterations also multiply it by 1/`warmup`, 2/`warmup`, and so on.

    `iterations`: of the whole run. `falls`: how often the rate was lowered on a plateau. `plateau` and `falls` may be
    set to those of a checkpoint.
    """

    def __init__(self, settings: Settings, iterations: int):
        self._settings, self._iterations = settings, iterations
        self.plateau, self.falls = BestLoss(), 0

    def rate(self, iteration: int, epoch: int) -> float:
        """Give the learning rate of an iteration in an epoch, both counted from 0."""
        settings = self._settings
        warm = min(1.0, (iteration + 1) / settings.warmup) if settings.warmup else 1.0
        return learning_rate(settings) * self._factor(iteration, epoch) * warm

    def _factor(self, iteration: int, epoch: int) -> float:
        settings = self._settings
        if settings.schedule == PLATEAU:
            return power(settings.decay, self.falls)
        if settings.schedule == COSINE:
            done = min(iteration / max(self._iterations - 1, 1), 1.0)
            return settings.floor + (1 - settings.floor) * (1 + cosine(math.pi * done)) / 2
        return power(settings.decay, epoch // settings.step_epochs)

    def end_epoch(self, loss: float) -> None:
        """Note an epoch's validation loss."""
        if self._settings.schedule != PLATEAU:
            return
        self.plateau = after_epoch(self.plateau, loss)
        if self.plateau.epochs > self._settings.patience:
            self.plateau, self.falls = BestLoss(best=self.plateau.best), self.falls + 1


ZERO = np.float32(0)
Layers = list[LayerParameters]


class Optimizer(ABC):
    """Updates the parameters on the device and on the host, and has the optimizer state: velocities or moments.

    `kinds` names the arrays of state of each parameter. `host_state` has those of the host's, by kind; it may be set.
    """

    kinds: ClassVar[tuple[str, ...]]

    def __init__(self, settings: Settings, model: HostModel, network: NetworkShape):
        self.settings, self.model, self.network = settings, model, network
        self.host_state = {
            kind: {name: np.zeros_like(array) for name, array in model.parameters.items()} for kind in self.kinds
        }

    def update(self, session: AnySession, back: AnyGradients, rate: float, compensation: float, number: int) -> None:
        """Change all parameters by the last backward pass.

        `rate` is the learning rate. The LSTM's gradient is multiplied by `compensation`, for the skipped cells.
        `number` counts updates from 1. Raises :class:`DivergedError` if a gradient is not finite; all parameters stay
        as they were.
        """
        gradients = [self.model.gradients[name].reshape(-1) for name in self.model.parameters]
        scale = clip_scale(gradient_norm([], gradients), self.settings.clip)
        self._update_device(session, back, rate, compensation, number)
        for name in self.model.parameters:
            self._update_host(name, rate, scale, number)

    @abstractmethod
    def load(self, session: AnySession, parameters: Layers, state: dict[str, Layers] | None = None) -> None:
        """Put the LSTM's parameters on the device, and set their state, by kind; zeros if not given."""

    @abstractmethod
    def lstm_state(self, session: AnySession) -> dict[str, Layers]:
        """Give the state of the LSTM's parameters, by kind."""

    @abstractmethod
    def _update_device(
        self, session: AnySession, back: AnyGradients, rate: float, compensation: float, number: int
    ) -> None:
        """Change the LSTM's parameters."""

    @abstractmethod
    def _update_host(self, name: str, rate: float, scale: np.float32, number: int) -> None:
        """Change one of the host's parameters."""

    def _weight_decay(self, name: str) -> np.float32:
        """Give the weight decay of a parameter; biases have none."""
        return ZERO if name.endswith("bias") else np.float32(self.settings.weight_decay)


class Sgd(Optimizer):
    """SGD with momentum, see :class:`etalstm.network.update_rule.UpdateRule`."""

    kinds = ("velocities",)

    def load(self, session: AnySession, parameters: Layers, state: dict[str, Layers] | None = None) -> None:
        """Put parameters and velocities on the device."""
        session.load(parameters, state["velocities"] if state else None)

    def lstm_state(self, session: AnySession) -> dict[str, Layers]:
        """Read the velocities from the device."""
        return {"velocities": session.velocities()}

    def _update_device(
        self, session: AnySession, back: AnyGradients, rate: float, compensation: float, number: int
    ) -> None:
        settings = self.settings
        session.update(rate, settings.momentum, settings.clip, settings.weight_decay, compensation)

    def _update_host(self, name: str, rate: float, scale: np.float32, number: int) -> None:
        rule = UpdateRule(np.float32(rate), np.float32(self.settings.momentum), self._weight_decay(name), scale)
        values, velocities = self.model.parameters, self.host_state["velocities"]
        gradient = self.model.gradients[name]
        values[name], velocities[name] = descend(values[name], velocities[name], gradient, rule, rule.weight_decay)


_Moved = tuple[np.ndarray, np.ndarray, np.ndarray]  # a parameter after a step of Adam, and its two moments


class Adam(Optimizer):
    """Adam, and AdamW whose weight decay is no part of the gradient.

    ``m = β1 m + (1 - β1) g; v = β2 v + (1 - β2) g²; w = w - rate m / (1 - β1^n) / (√v / √(1 - β2^n) + ε)``, each
    operation rounded to float32. Source: Kingma and Ba, arXiv 1412.6980; Loshchilov and Hutter, arXiv 1711.05101.
    """

    kinds = ("first", "second")

    def __init__(self, settings: Settings, model: HostModel, network: NetworkShape):
        super().__init__(settings, model, network)
        self._lstm_state = {kind: zero_velocities(network) for kind in self.kinds}

    def load(self, session: AnySession, parameters: Layers, state: dict[str, Layers] | None = None) -> None:
        """Put parameters on the device; the moments stay on the host."""
        session.load(parameters)
        self._lstm_state = state or self._lstm_state

    def lstm_state(self, session: AnySession) -> dict[str, Layers]:
        """Give the moments."""
        return self._lstm_state

    def _update_device(
        self, session: AnySession, back: AnyGradients, rate: float, compensation: float, number: int
    ) -> None:
        scale = np.float32(compensation * clip_scale(back.norm * compensation, self.settings.clip))
        first, second = self._lstm_state["first"], self._lstm_state["second"]
        matrices = zip(session.parameters(), session.gradients(), first, second, strict=True)
        try:
            moved = [self._layer(*matrix, rate=rate, scale=scale, number=number) for matrix in matrices]
        except ValueError as error:  # LayerParameters found a value that is not finite
            raise DivergedError(f"the update has overflowed: {error}") from error
        parameters, *moments = (list(layers) for layers in zip(*moved, strict=True))
        session.load(parameters)
        self._lstm_state = dict(zip(self.kinds, moments, strict=True))

    def _layer(
        self, parameters: LayerParameters, gradients: LayerGradients, first: LayerParameters,
        second: LayerParameters, rate: float, scale: np.float32, number: int,
    ) -> list[LayerParameters]:  # fmt: skip
        """Move one layer's weights and bias; give the parameters and their two moments."""

        def move(name: str) -> _Moved:
            values, gradient, mean, square = (getattr(entry, name) for entry in (parameters, gradients, first, second))
            return self._move(name, values, gradient, mean, square, rate, scale, number)

        pairs = zip(move("weights"), move("bias"), strict=True)
        return [LayerParameters(weights, bias, parameters.gates) for weights, bias in pairs]

    def _update_host(self, name: str, rate: float, scale: np.float32, number: int) -> None:
        values, first, second = self.model.parameters, self.host_state["first"], self.host_state["second"]
        moved = self._move(name, values[name], self.model.gradients[name], first[name], second[name],
                           rate, scale, number)  # fmt: skip
        values[name], first[name], second[name] = moved

    def _move(
        self, name: str, values: np.ndarray, gradient: np.ndarray, first: np.ndarray, second: np.ndarray,
        rate: float, scale: np.float32, number: int,
    ) -> _Moved:  # fmt: skip
        """Take one step, element by element."""
        settings, decay = self.settings, self._weight_decay(name)
        gradient = gradient * scale
        if settings.optimizer == ADAMW:
            values = values * (np.float32(1) - np.float32(rate) * decay)
        else:
            gradient = gradient + decay * values
        first = np.float32(settings.beta1) * first + np.float32(1 - settings.beta1) * gradient
        second = np.float32(settings.beta2) * second + np.float32(1 - settings.beta2) * np.square(gradient)
        size = np.float32(rate / (1 - power(settings.beta1, number)))
        root = np.float32(math.sqrt(1 - power(settings.beta2, number)))
        moved = values - size * first / (np.sqrt(second) / root + np.float32(settings.epsilon))
        return moved, first, second


def optimizer_of(settings: Settings, model: HostModel, network: NetworkShape) -> Optimizer:
    """Give the optimizer that the settings name."""
    return (Sgd if settings.optimizer == SGD else Adam)(settings, model, network)
