"""Pruning rules: what decides, before every iteration, below which size values count as zero.

Every device applies thresholds alike, so a rule runs on golden and on the machine with the same bits. A rule of another
package is named by an entry point of the group :data:`GROUP`, or by module and class: ``my_rules.Falling``.
"""

import hashlib
import importlib
import inspect
import math
import sys
from abc import ABC, abstractmethod
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from etalstm.network.delta_inputs import DeltaInputs, LayerThresholds
from etalstm.network.storage import Storage, Usage, check_threshold

GROUP = "etalstm.train.rules"  # entry points: the name of a rule, and where its class is


class Thresholds(NamedTuple):
    """Sizes below which values count as zero in an iteration; with 0 nothing is pruned."""

    theta: float | tuple[float, ...] = 0.0  # θ, of the local gradients P, as :class:`Storage` takes it
    delta: float = 0.0  # of δ: see :meth:`etalstm.device.Session.backward`
    inputs: float | tuple[LayerThresholds, ...] = 0.0  # Θ, of changes of x and h, as :class:`DeltaInputs` takes it


class Seen(NamedTuple):
    """What an iteration has shown."""

    iteration: int  # from 1
    epoch: int  # it was part of, from 1
    loss: float  # the batch's mean
    layers: list[Usage]  # what each layer kept and computed: `densities`, `delta_density`, `input_density` and more


class PruningRule(ABC):
    """Gives each iteration's thresholds.

    `layers`: of the run's network. `state`: all that the rule knows, finite numbers by name. It goes into checkpoints,
    and a run that goes on gets it back, so a rule must keep nothing elsewhere. Every device shows the same numbers to
    the bit, so a rule that computes with them alone decides alike on all of them.
    """

    def __init__(self, layers: int):
        self.layers = layers
        self.state: dict[str, float] = {}

    @abstractmethod
    def thresholds(self) -> Thresholds:
        """Give the thresholds of the next iteration."""

    @abstractmethod
    def take(self, seen: Seen) -> None:
        """Take in what an iteration has shown."""


class Chosen(NamedTuple):
    """What a rule's thresholds come to."""

    storage: Storage
    delta: float
    delta_inputs: DeltaInputs


class NamedRule:
    """A rule by its name, whose thresholds and state are checked.

    `policy` and `refresh` are the run's. ``ValueError`` if there is no such rule, or it gives what no device takes.
    """

    def __init__(self, name: str, layers: int, policy: str, refresh: int | None):
        self._name, self._layers, self._policy, self._refresh = name, layers, policy, refresh
        self._rule = _class_of(name)(layers)

    @property
    def chosen(self) -> Chosen:
        """The choices for the next iteration."""
        given = self._rule.thresholds()
        try:
            delta_inputs = DeltaInputs.of(given.inputs, self._refresh)
            delta_inputs.check_layers(self._layers)
            return Chosen(Storage(self._policy, given.theta), check_threshold("delta", given.delta), delta_inputs)
        except (AttributeError, ValueError) as error:
            raise ValueError(f"rule {self._name} must give Thresholds, got {given!r:.80}: {error}") from error

    def take(self, seen: Seen) -> None:
        """Take in an iteration."""
        self._rule.take(seen)
        for name, value in self._rule.state.items():
            if not (isinstance(value, (int, float)) and math.isfinite(value)):
                raise ValueError(f"the state of rule {self._name} must be finite numbers, got {value!r} as {name}")

    @property
    def state(self) -> dict[str, float]:
        """What a checkpoint keeps; may be set to that of one."""
        return {name: float(value) for name, value in self._rule.state.items()}

    @state.setter
    def state(self, state: dict[str, float]) -> None:
        self._rule.state = dict(state)


def source_of(name: str) -> str:
    """Give the SHA-256 of the file that has a rule, in hexadecimal; ``ValueError`` if there is no such rule."""
    return hashlib.sha256(Path(inspect.getfile(_class_of(name))).read_bytes()).hexdigest()


def _class_of(name: str) -> type[PruningRule]:
    """Find the class of a rule; ``ValueError`` says why there is none."""
    found = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    module, _, attribute = found.get(name, name).replace(":", ".").rpartition(".")
    try:
        if not module:
            raise ImportError("no installed package has a rule of this name")
        if "" not in sys.path:
            sys.path.append("")  # a rule may lie in the folder where a command is given
        rule = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        expected = f"{', '.join([*found, 'module.Class'])} of a PruningRule, installed or in {Path.cwd()}"
        raise ValueError(f"rule must be {expected}, got {name!r}: {error}") from error
    if not (isinstance(rule, type) and issubclass(rule, PruningRule)):
        raise ValueError(f"rule must be {module}.Class of a PruningRule, got {rule!r:.60}")
    return rule
