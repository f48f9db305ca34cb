"""The training loop: epochs, iterations, evaluation, checkpoints. It does not know what device it trains on."""

import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from etalstm.data import Batch, DataSet, open_dataset
from etalstm.device import Device, TrainingShape
from etalstm.errors import CheckpointError, DeviceError, DivergedError
from etalstm.network import LayerParameters, NetworkShape, initial_parameters
from etalstm.slices import AUTO
from etalstm.storage import Storage, Usage, check_threshold
from etalstm.train import checkpoint as checkpoints
from etalstm.train.chooser import CHOOSING, SMALLEST, Chooser
from etalstm.train.interrupt import Interrupt
from etalstm.train.metrics import MetricsLog
from etalstm.train.model import HostModel, Loss
from etalstm.train.pruning import DeltaPruning
from etalstm.train.settings import Settings
from etalstm.train.significance import Significance

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"


class Trainer:
    """One training run.

    Parameters
    ----------
    settings : Settings
    device : Device
        Open; stays open.
    out : Path
        Folder for ``metrics.jsonl`` and ``checkpoint.safetensors``; made if it does not exist.
    resume : bool or Path
        Go on from the folder's checkpoint, or from this one, with the same bits as a run that was never interrupted.

    Raises
    ------
    ValueError
        If data set, sizes and settings do not go together.
    CheckpointError
        If there is no checkpoint to resume, or it is damaged or of another run. Theta, storage, ms2 and delta_target
        may differ.
    DeviceError
        If the device cannot store as the settings say, or skip cells.
    """

    def __init__(self, settings: Settings, device: Device, out: Path, resume: bool | Path = False):
        self.settings = settings
        self.data: DataSet = open_dataset(settings.dataset, settings.data)
        self.steps = settings.steps or self.data.steps
        embedding = settings.embedding if self.data.input_size is None else 0
        network = NetworkShape(self.data.input_size or embedding, settings.hidden, settings.layers)
        choosing = settings.policy if settings.policy in CHOOSING else SMALLEST
        self.chooser = Chooser(settings.layers, choosing)
        self.shape = TrainingShape(
            network,
            settings.batch,
            self.steps,
            self.data.masked,
            self._storage(),
            memory_budget=settings.memory_budget,
            architecture=settings.architecture,
        )
        self.model = HostModel(
            self.data.classes, settings.hidden, embedding, self.data.per_step, settings.seed, self.data.tokens
        )
        self.pruning = None if settings.delta_target is None else DeltaPruning(settings.delta_target)
        self.significance = Significance(settings.layers, self.steps, settings.ms2 or 0.0, self.data.per_step)
        self.data.epoch("train", settings.batch, self.steps, np.random.default_rng(0))  # refuses sizes that do not suit
        self.iteration = self.epoch = self.batch = 0
        self._h = self._c = np.zeros(self.shape.state_shape, np.float32)
        self._generator = np.random.Generator(np.random.PCG64([settings.seed, 2]))
        self._epoch_start = self._generator.bit_generator.state
        self.out = Path(out)
        self.out.mkdir(parents=True, exist_ok=True)
        source = self.checkpoint_path if resume is True else resume
        self.slices = self._slices(device, source)
        loaded = self._read_checkpoint(source) if source else (initial_parameters(network, settings.seed), None)
        self.shape = replace(self.shape, storage=self._storage(), slices=self.slices)  # as the checkpoint says
        self.session = device.create(self.shape)
        self.session.load(*loaded)
        if settings.ms2 is not None and not self.session.reduces:
            raise DeviceError(f"device {device.name} skips no cells: ms2 must be off, got {settings.ms2}")
        self._resumed_at = self.iteration if resume else None

    @property
    def total_iterations(self) -> int:
        """Iterations that will have been done when the run ends by itself."""
        per_epoch = len(self.data.epoch("train", self.settings.batch, self.steps, np.random.default_rng(0)))
        limit = self.settings.iterations or math.inf
        return int(min(limit, self.settings.epochs * per_epoch))

    def run(self, report: Callable[[dict], None] = lambda entry: None) -> dict:
        """Train until epochs or iterations are done, or Ctrl-C; then write a checkpoint and evaluate on the test split.

        Parameters
        ----------
        report : callable
            Given every entry of the log as it is written.

        Returns
        -------
        dict
            The last entry: ``kind`` is ``test``, or ``interrupted`` if the run was; then nothing was evaluated.

        Raises
        ------
        DivergedError
            If loss or gradient are not finite any more; the last checkpoint stays as it was.
        """
        quiet = np.errstate(over="ignore", invalid="ignore")  # divergence is found by looking at loss and norm
        # one BLAS thread: with several, the bits of a product could depend on how many there are
        single = threadpool_limits(1)
        with quiet, single, Interrupt() as interrupt, MetricsLog(self.out / METRICS, self._resumed_at) as log:

            def tell(entry):
                log.write(entry)
                report(entry)

            self._train(tell, interrupt)
            self.write_checkpoint()
            entry = {"kind": "interrupted", "iteration": self.iteration, "epoch": self.epoch + 1}
            if not interrupt.requested:
                entry = self._evaluate("test", "test") | {"saved": log.saved()}
            tell(entry)
            return entry

    def _train(self, tell, interrupt) -> None:
        while self.epoch < self.settings.epochs and not self._done:
            self._epoch_start = self._generator.bit_generator.state
            batches = self.data.epoch("train", self.settings.batch, self.steps, self._generator)
            started = time.perf_counter()
            while self.batch < len(batches) and not self._done:
                tell(self.iterate(batches[self.batch]))
                if interrupt.requested:
                    return
                if self.settings.checkpoint_every and self.iteration % self.settings.checkpoint_every == 0:
                    self.write_checkpoint()
            if self.batch < len(batches):
                return
            entry = self._evaluate("epoch", "validation")
            self.significance.end_epoch(entry["loss"])
            self.chooser.end_epoch()
            if self._storage() != self.session.shape.storage:
                self.session.store_as(self._storage())
            self.epoch, self.batch = self.epoch + 1, 0
            self._epoch_start = self._generator.bit_generator.state
            self._h = self._c = np.zeros_like(self._h)
            tell(entry | {"seconds": time.perf_counter() - started})
            self.write_checkpoint()

    @property
    def _done(self) -> bool:
        return self.settings.iterations is not None and self.iteration >= self.settings.iterations

    def iterate(self, batch: Batch) -> dict:
        """Train on one batch; give the entry of the log."""
        started = time.perf_counter()
        settings = self.settings
        skipped, compensation = None, 1.0
        if settings.ms2 is not None:
            skipped, compensation = self.significance.plan(self.iteration, batch.lengths)
        outputs = self._forward(batch, self._h, self._c, skipped)
        loss, dy = self.model.backward(batch, outputs.y)
        if not math.isfinite(loss.total):
            raise DivergedError(f"the loss of iteration {self.iteration + 1} is {loss.total}: training has diverged")
        delta_threshold = self.pruning.threshold if self.pruning else 0.0
        gradients = self.session.backward(dy, delta_threshold=delta_threshold)
        if self.data.input_size is None:
            self.model.embed_backward(batch, gradients.dx)
        if settings.ms2 is not None and self.significance.measures(self.iteration):
            self.significance.measure(self.session.contributions(), batch.lengths, loss.mean)
        self.significance.end_iteration(loss.mean)
        reductions = self._reductions() | {"delta_threshold": delta_threshold}
        if self.pruning:
            self.pruning.take(reductions["delta_density"])
        rule = settings.learning_rate * settings.decay**self.epoch, settings.momentum, settings.clip
        self.session.update(*rule, settings.weight_decay, compensation)
        self.model.update(*rule, settings.weight_decay)
        if self.data.stateful:
            self._h, self._c = outputs.h, outputs.c
        self.batch += 1
        self.iteration += 1
        return self._entry("iteration", loss, started) | self._costs() | reductions

    def _costs(self) -> dict:
        """Give the cycles of an iteration, the bytes it moved and those it takes, as far as the device knows them."""
        counters = self.session.counters()
        kinds = ("read", "write", "program", "spared")
        moved = {name: counters[f"{name}_bytes"] for name in kinds if f"{name}_bytes" in counters}
        costs = {"cycles": counters["cycles"], "bytes": moved, "memory": self.session.memory()}
        return {name: cost for name, cost in costs.items() if cost != {}}

    def _reductions(self) -> dict:
        """Give what was chosen to be reduced, and what the last two passes kept and computed, for the log."""
        settings = self.settings
        chosen = {"theta": settings.theta, "storage": settings.policy, "ms2": settings.ms2}
        chosen |= {"delta_target": settings.delta_target, "architecture": settings.architecture, "slices": self.slices}
        usages = self.session.usage()
        if settings.policy in CHOOSING:
            chosen["policies"] = self.chooser.policies
            self.chooser.measure(usages)
        if not usages:
            return chosen
        return chosen | sum(usages, Usage()).summary()

    def _slices(self, device: Device, source: Path | None) -> int:
        """Give the run's number of slices, where it is left to the device that of the checkpoint before all."""
        if self.settings.slices != AUTO:
            return self.settings.slices
        return checkpoints.network_of(source)["slices"] if source else device.best_slices(self.shape)

    def _storage(self) -> Storage:
        """Give what layers keep now; where all are dense, theta has nothing to drop."""
        settings = self.settings
        if settings.policy not in CHOOSING:
            return Storage(settings.policy, settings.theta)
        policies = self.chooser.policies
        return Storage(policies, settings.theta if "ms1" in policies else 0.0)

    def _forward(self, batch: Batch, h: np.ndarray, c: np.ndarray, skipped: np.ndarray | None = None):
        lengths = batch.lengths if self.shape.masked else None
        return self.session.forward(self.model.inputs(batch), lengths, h, c, skipped)

    def _evaluate(self, kind: str, split: str) -> dict:
        started = time.perf_counter()
        loss = Loss(0.0, 0.0, 0.0)
        h = c = np.zeros_like(self._h)
        batches = self.data.epoch(split, self.settings.batch, self.steps)
        cycles = 0
        for batch in batches[: self.settings.evaluation_batches]:
            outputs = self._forward(batch, h, c)
            loss += self.model.evaluate(batch, outputs.y)
            cycles += self.session.counters()["cycles"]
            if self.data.stateful:
                h, c = outputs.h, outputs.c
        return self._entry(kind, loss, started) | {"split": split, "cycles": cycles}

    def _entry(self, kind: str, loss: Loss, started: float) -> dict:
        score = {"perplexity": loss.perplexity} if self.data.per_step else {"accuracy": loss.accuracy}
        epoch = min(self.epoch + 1, self.settings.epochs)
        place = {"kind": kind, "iteration": self.iteration, "epoch": epoch}
        return place | {"loss": loss.mean} | score | {"seconds": time.perf_counter() - started}

    # -- checkpoints ------------------------------------------------------------------------------------------------

    @property
    def checkpoint_path(self) -> Path:
        """Where the run's checkpoint is."""
        return self.out / CHECKPOINT

    def _network(self) -> dict:
        network = self.shape.network
        return {
            "dataset": self.data.name,
            "data": self.data.fingerprint,
            "classes": self.data.classes,
            "input_size": network.input_size,
            "hidden_size": network.hidden_size,
            "layers": network.layers,
            "batch": self.shape.batch,
            "steps": self.shape.steps,
            "slices": self.slices,
        }

    def write_checkpoint(self) -> None:
        """Write the run's state; at any moment the file is the old checkpoint or the new one."""
        tensors = {"state.h": self._h, "state.c": self._c}
        tensors |= {f"significance.{name}": array for name, array in self.significance.arrays.items()}
        for kind, layers in (("weights", self.session.parameters()), ("velocities", self.session.velocities())):
            for n, layer in enumerate(layers):
                tensors |= {f"lstm.{n}.{kind}": layer.weights, f"lstm.{n}.bias.{kind}": layer.bias}
        for kind, arrays in (("weights", self.model.parameters), ("velocities", self.model.velocities)):
            tensors |= {f"host.{name}.{kind}": array for name, array in arrays.items()}
        position = {"iteration": self.iteration, "epoch": self.epoch, "batch": self.batch}
        position["chooser"] = self.chooser.state
        if self.pruning:
            position["delta_threshold"] = self.pruning.threshold
        state = checkpoints.Checkpoint(self._network(), position, self._epoch_start, tensors)
        checkpoints.write(self.checkpoint_path, state)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        network = self.shape.network
        shapes = {"state.h": self.shape.state_shape, "state.c": self.shape.state_shape}
        shapes |= {f"significance.{name}": array.shape for name, array in self.significance.arrays.items()}
        for kind in ("weights", "velocities"):
            for n in range(network.layers):
                shapes[f"lstm.{n}.{kind}"] = (network.rows, network.columns_of(n))
                shapes[f"lstm.{n}.bias.{kind}"] = (network.rows,)
            shapes |= {f"host.{name}.{kind}": array.shape for name, array in self.model.parameters.items()}
        return shapes

    def _read_checkpoint(self, path: Path) -> tuple[list[LayerParameters], list[LayerParameters]]:
        saved = checkpoints.read(path, self._network(), self._shapes())
        tensors = saved.tensors
        try:
            layers, speeds = (
                [LayerParameters(tensors[f"lstm.{n}.{kind}"], tensors[f"lstm.{n}.bias.{kind}"])
                 for n in range(self.shape.network.layers)]
                for kind in ("weights", "velocities")
            )  # fmt: skip
            self.iteration, self.epoch, self.batch = (saved.position[key] for key in ("iteration", "epoch", "batch"))
            self.chooser.state = saved.position.get("chooser", self.chooser.state)
            if self.pruning:
                self.pruning.threshold = check_threshold(
                    "delta_threshold", saved.position.get("delta_threshold", self.pruning.threshold)
                )
            self._generator.bit_generator.state = saved.generator
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path}: cannot be used: {error}") from error
        for name in self.model.parameters:
            self.model.parameters[name] = tensors[f"host.{name}.weights"]
            self.model.velocities[name] = tensors[f"host.{name}.velocities"]
        self.significance.arrays = {name: tensors[f"significance.{name}"] for name in self.significance.arrays}
        self._h, self._c = tensors["state.h"], tensors["state.c"]
        self._epoch_start = saved.generator
        return layers, speeds
