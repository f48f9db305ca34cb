"""The training loop: epochs, evaluation, checkpoints, log. It does not know what device it trains on."""

import dataclasses
import math
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from etalstm.data import Batch, DataSet, open_data
from etalstm.data.dataset import padding
from etalstm.device import GOLDEN, Device, OffloadDevice, ParanoidDevice
from etalstm.errors import CheckpointError, DivergedError
from etalstm.host.durable import write_whole
from etalstm.train.checkpoint import BestLoss, Checkpoint, ChooserState, Description, Generator, Position
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import MetricsLog
from etalstm.train.model import evaluate
from etalstm.train.optimizers import Schedule, after_epoch
from etalstm.train.reports import EventFile
from etalstm.train.settings import Settings
from etalstm.train.state import host_of, layers_of, open_learner, tensors_of

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """Context in which the first SIGINT, SIGTERM or SIGHUP only sets :attr:`requested`; a second one acts as usual.

    Outside the main thread, where Python delivers no signals, it does nothing. A signal that the process ignores stays
    ignored: a run under ``nohup`` outlives its terminal.

    `requested`: the signal's number, 0 while there was none.
    """

    def __init__(self) -> None:
        self.requested = 0
        self._previous: dict = {}

    def _handle(self, number: int, _: object) -> None:
        self.requested = number
        self._restore()

    def _restore(self) -> None:
        while self._previous:
            signal.signal(*self._previous.popitem())

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            handled = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._handle) for number in handled}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()


class Trainer:
    """One training run.

    Raises ``ValueError`` if data set, sizes and settings do not go together. Raises :class:`CheckpointError` if there
    is no checkpoint to resume, or it is damaged or of another run. Settings that define neither the model nor the order
    of the examples may differ; the log then has a line with them. Raises :class:`RunError` if the folder holds a run
    that would be lost, or another process trains in it. Raises :class:`DeviceError` if the device cannot store as the
    settings say, or skip cells.

    Parameters
    ----------
    device : Device              open; stays open
    out : Path or RunFolder
        The run's folder, or one that is open already; made if it does not exist, closed at the end of :meth:`run`.
    resume : bool                go on from the folder's checkpoint, with the bits of a run that was never interrupted
    overwrite : bool             begin anew where the folder holds a run
    data : DataSet, optional     default: that of the settings
    """

    def __init__(
        self, settings: Settings, device: Device, out: Path | RunFolder, resume: bool = False,
        overwrite: bool = False, data: DataSet | None = None,
    ):  # fmt: skip
        self.settings, self._resume = settings, resume
        self.data = data or open_data(settings)
        self.folder = out if isinstance(out, RunFolder) else RunFolder(out)
        with ExitStack() as failed:
            failed.callback(self.folder.close)
            self.folder.open(resume, overwrite)
            device = OffloadDevice(device) if settings.offload else device
            self._paranoid = ParanoidDevice(device, settings.paranoid) if settings.paranoid else None
            self._make_learner(self._paranoid or device)
            failed.pop_all()

    def _make_learner(self, device: Device) -> None:
        """Make the learner. A resumed run's learner gets the state of the folder's checkpoint.

        Settings that data set or device cannot be trained with are refused here, before a file is changed.
        """
        settings = self.settings
        if settings.scrub and device.name == GOLDEN:
            raise ValueError("scrub reads a device's memory back: device must be another one, got golden")
        self.learner, saved = open_learner(
            settings, self.data, device, self.folder.checkpoint if self._resume else None
        )
        self.data = self.learner.data
        self._changed = self._differences() if self._resume else {}
        self.epoch = self.batch = 0
        self._best = BestLoss()
        self._generator = np.random.Generator(np.random.PCG64([settings.seed, 2]))
        self._per_epoch = self._check_splits()
        self.schedule = Schedule(settings, self.total_iterations)
        if saved:
            self._restore(saved.description)
        self._epoch_start = self._generator.bit_generator.state

    def _check_splits(self) -> int:
        """Give the number of batches of an epoch; cut every split once, which raises if the sizes do not suit it."""
        sizes = self.settings.batch, self.learner.steps
        for split in ("validation", "test"):
            self.data.epoch(split, *sizes)
        return len(self.data.epoch("train", *sizes, np.random.default_rng(0)))

    def _restore(self, description: Description) -> None:
        position = description.position
        self.epoch, self.batch, self._best = position.epoch, position.batch, position.best
        self.schedule.plateau, self.schedule.falls = position.plateau, position.falls
        self._generator.bit_generator.state = description.generator.model_dump()
        if self.batch > self._per_epoch:
            member = f"{self.folder.checkpoint}: position.batch"
            raise CheckpointError(f"{member} is {self.batch}, an epoch has {self._per_epoch} batches")

    def _differences(self) -> dict[str, list]:
        """Give the settings that differ from the resumed run's, each with the value before and now."""
        before = dataclasses.asdict(self.folder.read_settings())
        now = dataclasses.asdict(self.settings)
        return {name: [before[name], now[name]] for name in now if before[name] != now[name]}

    @property
    def total_iterations(self) -> int:
        """Iterations that will have been done when the run ends by itself."""
        limit = self.settings.iterations or math.inf
        return int(min(limit, self.settings.epochs * self._per_epoch))

    def run(self, report: Callable[[dict], None] = lambda entry: None) -> dict:
        """Train until epochs or iterations are done, or a signal comes; then write a checkpoint and evaluate.

        The test split is evaluated with the last weights, or after early stopping with the best ones. `report` is
        called with every entry of the log as it is written. The last entry is the result. Its ``kind`` is ``test``, or
        ``interrupted`` after a signal, with the ``signal``; then nothing was evaluated.

        Raises :class:`DivergedError` if loss or gradient are not finite any more, :class:`DamagedMemoryError` if a
        scrub finds the device's memory changed; the last checkpoint stays as it was.
        """
        quiet = np.errstate(over="ignore", invalid="ignore")  # divergence is found by looking at loss and norm
        # one BLAS thread: with several, the bits of a product could depend on how many there are
        single = threadpool_limits(1)
        with self.folder, quiet, single, Interrupt() as interrupt:
            if not self._resume:
                self.folder.clear()
            resumed_at = self._position() if self._resume else None
            shown = EventFile(self.folder.events, resumed_at.iteration if resumed_at else None)
            with MetricsLog(self.folder.metrics, resumed_at) as log, shown as events:

                def publish(entry: dict) -> None:
                    for receive in (log.write, events, report):
                        receive(entry)

                self._write_settings()
                if self._changed:
                    publish(self._entry("resumed") | {"changed": self._changed})
                self._train(publish, interrupt)
                self.write_checkpoint()
                entry = None if interrupt.requested else self._test(interrupt)
                if entry is None:
                    entry = self._entry("interrupted") | {"signal": signal.Signals(interrupt.requested).name}
                else:
                    entry |= {"saved": log.saved()}
                publish(entry)
                return entry

    def _write_settings(self) -> None:
        write_whole(self.folder.encoding, self.data.encoding.json)  # a resumed run's is the same; the file may be lost
        if self._changed or not self._resume:
            self.folder.write_settings(self.settings)

    def _train(self, publish: Callable[[dict], None], interrupt: Interrupt) -> None:
        while self.epoch < self.settings.epochs and not self._done:
            self.learner.begin_epoch(self.epoch)
            self._epoch_start = self._generator.bit_generator.state
            sizes = self.settings.batch, self.learner.steps
            batches = self.data.epoch("train", *sizes, self._generator)
            started = time.perf_counter()
            while self.batch < len(batches) and not self._done:
                if self._paranoid and self._ends_with_checkpoint(len(batches)):
                    self._paranoid.check_next()
                publish(self._iterate(batches[self.batch]))
                if interrupt.requested:
                    return
                if self.settings.checkpoint_every and self.learner.iteration % self.settings.checkpoint_every == 0:
                    self.write_checkpoint()
            if self.batch < len(batches):
                return
            entry = self._evaluate("epoch", "validation", interrupt)
            if entry is None:
                return
            self._end_epoch(entry["loss"])
            publish(entry | {"padding": padding(batches), "seconds": time.perf_counter() - started})
            self.write_checkpoint()

    def _ends_with_checkpoint(self, batches: int) -> bool:
        """Tell whether a checkpoint follows the next iteration, if no signal comes."""
        number, every = self.learner.iteration + 1, self.settings.checkpoint_every
        return self.batch + 1 == batches or number == self.settings.iterations or bool(every and number % every == 0)

    @property
    def _done(self) -> bool:
        limit, patience = self.settings.iterations, self.settings.early_stopping
        stopped = patience is not None and self._best.epochs >= patience
        return stopped or (limit is not None and self.learner.iteration >= limit)

    def _iterate(self, batch: Batch) -> dict:
        entry = self.learner.iterate(batch, self.schedule.rate(self.learner.iteration, self.epoch))
        self.batch += 1
        return entry | self._entry("iteration")

    def _end_epoch(self, loss: float) -> None:
        """Go over to the next epoch; if this one had the lowest validation loss, write its checkpoint."""
        if not math.isfinite(loss):
            raise DivergedError(f"the validation loss of epoch {self.epoch + 1} is {loss}: training has diverged")
        self.learner.end_epoch(loss)
        self.schedule.end_epoch(loss)
        self.epoch, self.batch, self._best = self.epoch + 1, 0, after_epoch(self._best, loss)
        self._epoch_start = self._generator.bit_generator.state
        if not self._best.epochs:
            self._write(self.folder.best)

    def _evaluate(self, kind: str, split: str, interrupt: Interrupt) -> dict | None:
        """Evaluate a split; give the log's entry, or None if a signal came meanwhile."""
        started, learner = time.perf_counter(), self.learner
        all_batches = self.data.epoch(split, self.settings.batch, learner.steps)
        batches = all_batches[: self.settings.evaluation_batches]
        learner.apply_delta_inputs()
        found = evaluate(learner.session, learner.model, batches, self.data, lambda: bool(interrupt.requested))
        if found is None:
            return None
        entry = learner.entry(kind, found.loss, started) | found.measures
        evaluated = {"split": split, "batches": len(batches), "of_batches": len(all_batches)}
        return self._entry(kind) | entry | evaluated | {"cycles": found.cycles}

    def _test(self, interrupt: Interrupt) -> dict | None:
        if self.settings.early_stopping is not None and self.folder.best.exists():
            best, learner = Checkpoint.read(self.folder.best), self.learner
            learner.model.parameters |= host_of(best.tensors, learner.model, "weights")
            learner.control_sending(best.description.position.input_threshold)
            learner.session.load(layers_of(best.tensors, learner.network, "weights"))
        return self._evaluate("test", "test", interrupt)

    def _entry(self, kind: str) -> dict:
        epoch = max(1, self.epoch + (self.batch > 0))  # the current one, or between epochs the last one
        return {"kind": kind, "iteration": self.learner.iteration, "epoch": epoch}

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _position(self) -> Position:
        learner = self.learner
        return Position(
            iteration=learner.iteration, epoch=self.epoch, batch=self.batch,
            chooser=ChooserState.model_validate(learner.chooser.state),
            delta_threshold=learner.pruning.threshold if learner.pruning else None,
            input_threshold=learner.sending.threshold if learner.sending else None,
            rule=learner.rule.state if learner.rule else {}, exponents=learner.exponents,
            best=self._best, plateau=self.schedule.plateau, falls=self.schedule.falls,
        )  # fmt: skip

    def write_checkpoint(self) -> None:
        """Write the run's state; at any moment the file is the old checkpoint or the new one."""
        self._write(self.folder.checkpoint)

    def _write(self, path: Path) -> None:
        learner = self.learner
        run, generator = learner.origin, Generator.model_validate(self._epoch_start)
        description = Description(model=learner.identity, run=run, position=self._position(), generator=generator)
        tensors = tensors_of(learner, self.batch > 0)
        if self.settings.scrub:
            learner.session.scrub()  # after the tensors were read, so that it covers all of them
        Checkpoint(description, tensors).write(path)
