"""A network that learns batch by batch: the LSTM on a device, what surrounds it on the host, and their optimizer."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from etalstm.data import Batch, DataSet
from etalstm.data.buckets import read_buckets
from etalstm.data.dataset import LANGUAGE, padding
from etalstm.device import Device, TrainingShape
from etalstm.errors import DeviceError
from etalstm.network.delta_inputs import input_thresholds_text
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.shared_tokens import OFF
from etalstm.network.storage import MS1, Storage, Usage
from etalstm.train.checkpoint import Checkpoint, ExponentState, Identity, Origin
from etalstm.train.control import CHOOSING, DELTA_START, INPUT_START, SMALLEST, Chooser, ShareControl
from etalstm.train.dropout import AnySession, LayeredSession
from etalstm.train.loss import Loss, untrained_loss
from etalstm.train.model import HostModel, OutputPass
from etalstm.train.optimizers import optimizer_of
from etalstm.train.rules import NamedRule, Seen
from etalstm.train.settings import Settings
from etalstm.train.significance import Significance, Skipping


@dataclass(frozen=True)
class Sharing:
    """How many tokens share their sums."""

    count: int | None  # distinct tokens that share; None: nothing is shared
    reason: str  # the choice and its reason, a line for the user


def choose_sharing(settings: Settings, data: DataSet, device: Device, shape: TrainingShape) -> Sharing:
    """Choose how many tokens share; for ``auto`` the device chooses, from the batches of an epoch of training.

    `shape` is the run's, without `shared_tokens`. Raises ``ValueError`` if the settings give a number of tokens and
    inputs are vectors.
    """
    wanted = settings.shared_tokens
    if wanted == OFF:
        return Sharing(None, "shared tokens: off")
    problem = f"inputs of {data.name} are vectors" if data.input_size is not None else None
    if not isinstance(wanted, str):  # else it is auto
        if problem:
            raise ValueError(f"{problem}, not tokens: shared_tokens must be off, got {wanted}")
        return Sharing(wanted, f"shared tokens: {wanted} of a batch")
    if not shape.execution.delta_inputs.off or settings.input_target is not None:
        problem = "delta inputs send changes of x"
    elif not shape.network.is_lstm:
        problem = f"the cell is {shape.network.cell}"
    elif not shape.execution.architecture.skips:
        problem = f"architecture {shape.execution.architecture.name} skips no zeros"
    if problem:
        return Sharing(None, f"shared tokens: off, as {problem}")
    count = device.best_shared_tokens(shape, _tokens_of(data, shape))
    reason = "off, as it does not pay" if count is None else f"{count} of a batch"
    return Sharing(count, f"shared tokens: {reason}")


def _tokens_of(data: DataSet, shape: TrainingShape) -> list[np.ndarray]:
    """Give the tokens of the batches of an epoch, each (T, B), -1 at padding."""
    batches = data.epoch("train", shape.batch, shape.steps, np.random.default_rng(0))
    return [np.where(np.arange(len(batch.x))[:, None] < batch.lengths, batch.x, -1) for batch in batches]


class Learner:
    """A network in training: the session, the host's model, the optimizer, and what controls the reductions.

    `device`: open; stays open. `checkpoint`: of a resumed run. Here only its number of slices is read, and only if the
    settings leave that to the device; :mod:`etalstm.train.state` restores the rest. Raises ``ValueError`` if data set,
    sizes and settings do not go together; :class:`DeviceError` if the device cannot store as the settings say, or skip
    cells.

    `data` are in the buckets of the settings. `pruning` controls the threshold of δ, None if δ is not pruned. `sending`
    controls Θ, None while everything is sent or Θ is fixed. `rule`, if there is one, gives all thresholds instead.
    `iteration` counts the iterations that are done. `h` and `c`, float32, (L, B, H), are the state that the next batch
    begins with.
    """

    def __init__(self, settings: Settings, data: DataSet, device: Device, checkpoint: Checkpoint | None = None):
        self.settings, self.data = settings, data.in_buckets(read_buckets(settings.buckets), settings.batch)
        self.steps = settings.steps or self.data.steps
        self.identity = identity_of(settings, data)
        self.network = NetworkShape(self.identity.input_size, settings.hidden, settings.layers, settings.cell)
        self.chooser = Chooser(settings.layers, settings.policy if settings.policy in CHOOSING else SMALLEST)
        rule = settings.rule
        self.rule = None if rule is None else NamedRule(rule, settings.layers, settings.policy, settings.refresh)
        shape = self._shape(settings)
        self.slices = self._slices(device, shape, checkpoint)
        shape = shape.with_execution(slices=self.slices)
        self.sharing = choose_sharing(settings, self.data, device, shape)
        self.shape = shape.with_execution(shared_tokens=self.sharing.count)
        self.session = self._session(device)  # first, as a device may refuse it, before large arrays on the host
        skipping = settings.skipping
        if skipping and not self.session.reduces:
            name = "ms2_steps" if skipping.truncates else "ms2"
            raise DeviceError(f"device {device.name} skips no cells: {name} must be off, got {getattr(settings, name)}")
        if settings.input_target is not None and not self.session.reduces:
            raise DeviceError(
                f"device {device.name} counts nothing: input_target must be off, got {settings.input_target}"
            )
        self.model = HostModel(self.identity, settings.seed)
        self.optimizer = optimizer_of(settings, self.model, self.network)
        target = settings.delta_target
        self.pruning = None if target is None else ShareControl(target, DELTA_START)
        self.sending: ShareControl | None = None
        self.significance = self._significance(skipping)
        self.iteration = self._epoch = 0
        self.optimizer.load(self.session, initial_parameters(self.network, settings.seed))
        self.reset_states()

    @property
    def _exact(self) -> bool:
        """Whether sums are of integers: then no bit depends on the slices."""
        return self.shape.execution.arithmetic.exact

    @property
    def exponents(self) -> ExponentState | None:
        """The exponents of a run with integers, for a checkpoint."""
        if not (states := [exponents.state for exponents in self.session.exponents]):
            return None
        delta, operands = map(list, zip(*states, strict=True))
        return ExponentState(delta=delta, operands=operands)

    def _significance(self, skipping: Skipping | None) -> Significance:
        """Make what chooses the skipped cells; only a guard needs the untrained loss."""
        untrained = 0.0
        if skipping and skipping.guards:
            untrained = untrained_loss(self.data, self.settings.batch, self.steps)
        sizes = self.settings.layers, self.steps
        return Significance(*sizes, skipping or Skipping(), self.data.per_step, untrained)

    def _session(self, device: Device) -> AnySession:
        if self.settings.dropout:
            return LayeredSession(device, self.shape, self.settings.dropout, self.settings.seed)
        return device.create(self.shape)

    def _shape(self, settings: Settings) -> TrainingShape:
        sizes, execution = (self.network, settings.batch, self.steps), settings.execution(self._storage())
        return TrainingShape(*sizes, execution, masked=self.data.masked, memory_budget=settings.memory_budget)

    def _slices(self, device: Device, shape: TrainingShape, checkpoint: Checkpoint | None) -> int:
        """Give the run's number of slices; ``auto`` is the checkpoint's, or without one the device's best."""
        if not isinstance(self.settings.slices, str):  # else it is AUTO
            return self.settings.slices
        return checkpoint.description.run.slices if checkpoint else device.best_slices(shape)

    def _storage(self) -> Storage:
        """Give how layers store now; if all are dense, theta has nothing to drop."""
        settings = self.settings
        if self.rule:
            return self.rule.chosen.storage
        if settings.policy not in CHOOSING:
            return Storage(settings.policy, settings.theta)
        policies = self.chooser.policies
        return Storage(policies, settings.theta if MS1 in policies else 0.0)

    @property
    def origin(self) -> Origin:
        """What must equal the checkpoint's for a run to be resumed."""
        found: dict[str, Any] = {"dataset": self.data.name, "data": self.data.fingerprint, "steps": self.steps}
        found |= {"slices": 1 if self._exact else self.slices, "refresh": self.settings.refresh_interval}
        others = {name: getattr(self.settings, name) for name in Origin.model_fields if name not in found}
        return Origin(**others, **found)

    def reset_states(self) -> None:
        """Let the next batch begin with states of zero."""
        self.h = self.c = np.zeros(self.shape.state_shape, np.float32)

    def _inputs(self, batch: Batch, h: np.ndarray, c: np.ndarray) -> dict[str, np.ndarray | None]:
        """Give the arguments, besides x, of the forward pass over a batch from the states h and c, (L, B, H)."""
        lengths = batch.lengths if self.shape.masked else None
        tokens = batch.x if self.shape.execution.shared_tokens else None
        return {"lengths": lengths, "h0": h, "c0": c, "tokens": tokens}

    def iterate(self, batch: Batch, rate: float) -> dict:
        """Train on one batch with a learning rate; give the entry of the log, without the epoch.

        Raises :class:`DivergedError` if loss or gradient are not finite; the weights do not change then.
        """
        started, settings = time.perf_counter(), self.settings
        skipped, compensation = None, 1.0
        if settings.skipping:
            skipped, compensation = self.significance.plan(self.iteration, batch.lengths, len(batch.x))
        if isinstance(self.session, LayeredSession):
            self.session.draw_masks(self.iteration)
        if self.rule:
            self.apply_storage()
        self.apply_delta_inputs()
        delta_threshold = self._delta_threshold
        output_pass = OutputPass(self.model, batch, self.slices, self.iteration + 1, self._exact)
        outputs, back = self.session.forward_backward(
            self.model.inputs(batch.x), output_pass.run, delta_threshold=delta_threshold, measured=self._measures,
            **self._inputs(batch, self.h, self.c), skipped_cells=skipped,
        )  # fmt: skip
        loss = output_pass.end()
        if self.identity.tokens:
            self.model.embed_backward(batch, back.dx)
        self._measure(batch, loss)
        reductions = self._reductions() | {"delta_threshold": delta_threshold}
        if self.pruning:
            self.pruning.take(reductions["delta_density"])
        self._scrub()
        self.optimizer.update(self.session, back, rate, compensation, self.iteration + 1)
        if self.sending:
            self.sending.take(reductions["input_density"])
        if self.rule:
            self.rule.take(Seen(self.iteration + 1, self._epoch + 1, loss.mean, self.session.usage()))
        if self.data.stateful:
            self.h, self.c = outputs.h, outputs.c
        self.iteration += 1
        self._scrub()
        entry = self.entry("iteration", loss, started) | {"learning_rate": rate, "padding": padding([batch])}
        return entry | self._costs() | reductions

    def _scrub(self) -> None:
        """Compare the device's memory, if that is due before the next update."""
        every = self.settings.scrub
        if every and (self.iteration + 1) % every == 0:
            self.session.scrub()

    @property
    def _measures(self) -> bool:
        """True if this iteration measures what the cells contribute."""
        return bool(self.settings.skipping) and self.significance.measures(self.iteration)

    def _measure(self, batch: Batch, loss: Loss) -> None:
        if self._measures:
            self.significance.measure(self.session.contributions(), batch.lengths, loss.mean)
        self.significance.end_iteration(loss.mean)

    def begin_epoch(self, number: int) -> None:
        """Begin or go on with an epoch. In epoch 0 everything is sent, later ones control Θ if there is a target."""
        self._epoch = number
        if self.settings.input_target is not None and number and not self.sending:
            self.control_sending(INPUT_START)

    def control_sending(self, threshold: float | None) -> None:
        """Control the share of x and h that is sent, starting with Θ = `threshold`; None: send everything."""
        target = self.settings.input_target
        self.sending = None if target is None or threshold is None else ShareControl(target, threshold)

    @property
    def _delta_threshold(self) -> float:
        if self.rule:
            return self.rule.chosen.delta
        return self.pruning.threshold if self.pruning else 0.0

    def apply_delta_inputs(self) -> None:
        """Set the device to the current Θ."""
        if self.rule:
            delta_inputs = self.rule.chosen.delta_inputs
        else:
            delta_inputs = self.settings.delta_inputs_at(self.sending.threshold if self.sending else None)
        if delta_inputs != self.session.shape.execution.delta_inputs:
            self.session.send_as(delta_inputs)

    def end_epoch(self, validation_loss: float) -> None:
        """Note an epoch's validation loss, and choose skipped cells and storage of the next epoch."""
        self.significance.end_epoch(validation_loss)
        self.chooser.end_epoch()
        self.apply_storage()
        self.reset_states()

    def apply_storage(self) -> None:
        """Set the device to the storage that is chosen now."""
        if self._storage() != self.session.shape.execution.storage:
            self.session.store_as(self._storage())

    def entry(self, kind: str, loss: Loss, started: float) -> dict:
        """Give the log's entry of a loss, without the epoch."""
        entry = {"kind": kind, "iteration": self.iteration, "loss": loss.mean} | loss.score(self.identity.task)
        return entry | {"seconds": time.perf_counter() - started}

    def _costs(self) -> dict:
        """Give an iteration's cycles, bytes moved and bytes of memory, as far as the device counts them."""
        counters = self.session.counters()
        kinds = ("read", "write", "program", "spared")
        moved = {name: counters[f"{name}_bytes"] for name in kinds if f"{name}_bytes" in counters}
        costs = {"cycles": counters["cycles"], "bytes": moved, "memory": self.session.memory()}
        return {name: cost for name, cost in costs.items() if cost != {}}

    def _reductions(self) -> dict:
        """Give the reductions chosen, and what the last two passes stored and computed, for the log."""
        settings = self.settings
        chosen: dict[str, Any] = {"theta": settings.theta, "storage": settings.policy, "ms2": settings.ms2}
        chosen |= {"ms2_steps": settings.ms2_steps, "ms2_without": settings.ms2_without}
        chosen |= {"delta_target": settings.delta_target, "architecture": settings.architecture, "slices": self.slices}
        sent = self.session.shape.execution.delta_inputs
        chosen |= {"input_threshold": input_thresholds_text(sent.thresholds), "refresh": sent.refresh}
        chosen |= {"input_target": settings.input_target, "weight_format": settings.weight_format}
        chosen |= {"arithmetic": settings.arithmetic}
        chosen["shared_tokens"] = self.sharing.count
        if self.rule:
            chosen |= {"rule": settings.rule, "theta": self.session.shape.execution.storage.thresholds}
        usages = self.session.usage()
        if settings.policy in CHOOSING:
            chosen["policies"] = self.chooser.policies
            self.chooser.measure(usages)
        if not usages:
            return chosen
        return chosen | sum(usages, Usage()).summary()


def identity_of(settings: Settings, data: DataSet) -> Identity:
    """Give what defines the model that settings and data make."""
    tokens = data.tokens if data.input_size is None else 0
    if settings.tied and data.task != LANGUAGE:
        raise ValueError(f"tied weights are for the task {LANGUAGE}, got {data.task}")
    return Identity.model_validate({
        "cell": settings.cell, "task": data.task, "input_size": data.input_size or settings.embedding,
        "hidden_size": settings.hidden, "layers": settings.layers, "outputs": data.classes, "tokens": tokens,
        "tied": settings.tied, "encoding": data.encoding.digest,
    })  # fmt: skip
