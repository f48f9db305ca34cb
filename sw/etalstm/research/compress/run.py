"""A run: the dense start, then the steps. It leaves a folder, from which it can go on."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from etalstm.device import Device
from etalstm.errors import CheckpointError, DivergedError
from etalstm.research.compress.changes import Changes, Target
from etalstm.research.compress.checkpoint import CompressCheckpoint, CompressPosition, write_network
from etalstm.research.compress.learner import Learner
from etalstm.research.compress.network import MaskedNetwork
from etalstm.research.compress.task import Task
from etalstm.research.compress_settings import DENSE, GROW_WEIGHTS, PRUNE_UNITS, PRUNE_WEIGHTS, CompressSettings
from etalstm.research.module_run import ModuleRun
from etalstm.train.folder import RunFolder
from etalstm.train.loop import Interrupt

PRUNING = (PRUNE_UNITS, PRUNE_WEIGHTS)
ACCEPTED, REJECTED = "accepted", "rejected"


class Run(ModuleRun[CompressSettings, CompressPosition]):
    """A run. Entries of its log are of kind ``iteration``, ``epoch``, ``diverged``, ``test`` and ``interrupted``.

    The entry that ends a round has a ``decision``: that of its last epoch, or that its training diverged. The folder is
    open. ``checkpoint.safetensors`` is the last state, ``best.safetensors`` the last network that was accepted,
    ``network.safetensors`` the same without masks, ``dense.safetensors`` the dense start. With `resume` the run goes on
    from the last checkpoint; the bits are those of a run that was never interrupted. If the run had ended, its last
    step goes on as far as the settings allow now. Raises :class:`RunError` or :class:`CheckpointError` if the folder's
    files are not those of such a run, or another run's dense start, which is to be taken, was made with other settings
    or data.
    """

    def __init__(
        self, settings: CompressSettings, task: Task, folder: RunFolder, engine: str | Device, target: Target,
        resume: bool = False,
    ):  # fmt: skip
        super().__init__(settings, folder, CompressPosition(), resume)
        self._target, self._task = target, task
        given = {"data": task.fingerprint, "guides": target.guides.digest, "preset": f"{target.digest:08x}"}
        self._identity = settings.identity | given
        self._identity_of_dense = settings.of_dense_start | {"data": task.fingerprint}
        self._learner = Learner(task.network(engine), settings.clip, settings.seed)
        self._changes = Changes(settings, self._learner, target, task.training(0))
        if resume:
            self._go_on()
        elif settings.start is not None:
            self._read_start(settings.start)  # refused before anything is written

    @property
    def model(self) -> MaskedNetwork:
        """The network."""
        return self._learner.model

    def _read_start(self, folder: str) -> tuple[Path, CompressCheckpoint]:
        """Read the dense start of another run."""
        path = RunFolder(folder).dense
        return path, CompressCheckpoint.of_run(path, self._identity_of_dense)

    def _score(self, split: str) -> float:
        return self._learner.score(self._task.evaluation(split))

    def _go_on(self) -> None:
        path = self._folder.checkpoint
        checkpoint = CompressCheckpoint.of_run(path, self._identity)
        self.position = checkpoint.description.position
        if self._ended:
            self._reopen()
        checkpoint.load(path, self.model, self._learner.optimizer)
        self._learner.states = checkpoint.states(len(self.model.layers))

    def _reopen(self) -> None:
        """Go back to the end of the last step."""
        last = (DENSE, *self._settings.phases)[-1]
        ended = {name: reason for name, reason in self.position.ended.items() if name != last}
        self._move(phase=self.position.phase - 1, ended=ended)

    def _write_first(self) -> None:
        if not self._resume:
            self._save()

    def _entries(self, interrupt: Interrupt) -> Iterator[dict]:
        while not self._ended:
            if self._settings.start is not None and self.position.phase == self.position.round == 0:
                yield self._take_start(self._settings.start)
                self._save()
                continue
            if not self.position.begun and not self._begin():
                continue
            batches = self._task.training(self.position.epoch)
            for batch in batches[self.position.batch :]:
                try:
                    yield self._iterate(batch, len(batches))
                except DivergedError as error:
                    if self._phase not in PRUNING:
                        raise
                    yield self._reject(error)
                    break
                if interrupt.requested:
                    yield self._interrupted(interrupt)
                    return
            else:
                yield self._end_epoch()
            self._save()
        yield self._test()

    @property
    def _dense_score(self) -> float:
        """The score of the dense network; :class:`CheckpointError` if a checkpoint of a later step has none."""
        if self.position.dense_score is None:
            raise CheckpointError(f"{self._folder.checkpoint}: position.dense_score is missing")
        return self.position.dense_score

    @property
    def _ended(self) -> bool:
        return self.position.phase > len(self._settings.phases)

    @property
    def _phase(self) -> str:
        return (DENSE, *self._settings.phases)[self.position.phase]

    @property
    def _epochs(self) -> int:
        """Epochs of a round."""
        return self._settings.epochs if self._phase in (DENSE, GROW_WEIGHTS) else self._settings.retrain_epochs

    def _begin(self) -> bool:
        """Make the change of the next round. Without one, go to the next step, and give False."""
        change = self._target_reached() or self._changes.make(self._phase, self.position)
        if isinstance(change, str):
            ended = self.position.ended | {self._phase: change}
            self._move(phase=self.position.phase + 1, ended=ended)
            if not self._ended:
                self._move(round=0, ratio=None, failed=None)
            self._save()
            return False
        self._learner.restart()
        self._move(begun=True, taken=0, epoch_of_round=0, batch=0, **change)
        return True

    def _target_reached(self) -> str | None:
        """Give why a step that prunes ends, if the target is reached; else None."""
        if self._phase in PRUNING and self._settings.target and self._fold() >= self._settings.target:
            return "target reached"
        return None

    def _fold(self) -> float:
        """Give how many times fewer LSTM parameters there are than in the dense start."""
        return self.position.dense_parameters / self.model.lstm_parameters()

    def _iterate(self, batch: Any, batches: int) -> dict:
        settings, position = self._settings, self.position
        rate = settings.learning_rate if self._phase in (DENSE, GROW_WEIGHTS) else settings.retrain_rate
        rate *= 1 - position.taken / (self._epochs * batches)
        loss, norm = self._learner.iterate(batch, position.iteration, rate)
        self._move(iteration=position.iteration + 1, taken=position.taken + 1, batch=position.batch + 1)
        return {"kind": "iteration", **self._counts(), "loss": loss, "norm": norm}

    def _take_start(self, folder: str) -> dict:
        """Take the dense start of another run, and its position; give the entry that ends its round."""
        path, start = self._read_start(folder)
        start.load(path, self.model)
        self.position = start.description.position.model_copy(update={"round": 0})
        score = self._dense_score
        return self._timed(self._scored(score) | self._end_round(score))

    def _end_epoch(self) -> dict:
        self._learner.rewind()
        score = self._score("validation")
        self._move(epoch=self.position.epoch + 1, epoch_of_round=self.position.epoch_of_round + 1, batch=0)
        entry = self._scored(score)
        if self.position.epoch_of_round == self._epochs:
            entry |= self._end_round(score)
        elif self._phase == GROW_WEIGHTS and self.position.epoch_of_round <= self._settings.growth_epochs:
            entry["grown"] = self._changes.grow_weights()
        return self._timed(entry)

    def _reject(self, error: DivergedError) -> dict:
        """End a round whose training diverged. Its network is rejected without a score."""
        self._move(epoch=self.position.epoch + 1, batch=0)
        entry = {"kind": "diverged", **self._counts(), **self._round_names(), "reason": str(error)}
        return self._timed(entry | self._end_round(None))

    def _round_names(self) -> dict:
        return {"phase": self._phase, "round": self.position.round}

    def _scored(self, score: float) -> dict:
        return {"kind": "epoch", **self._counts(), **self._round_names(), "loss": score, self._task.SCORE: score}

    def _end_round(self, score: float | None) -> dict:
        """Accept the network, or go back to the last accepted one; give sizes, scores and decision for the log."""
        position, ratio = self.position, self.position.ratio
        found = self._sizes_and_costs() | {"ratio": ratio}
        if self._phase == DENSE:
            self._move(dense_score=score, dense_parameters=found["lstm_parameters"])
        limit = self._task.limit(self._dense_score)
        accepted = self._phase not in PRUNING or (score is not None and score <= limit)
        self._move(round=position.round + 1, begun=False, taken=0, epoch_of_round=0)
        if self._phase == DENSE:
            self._take_checkpoint(self._identity_of_dense).write(self._folder.dense)
        if accepted:
            found[f"test_{self._task.SCORE}"] = self._score("test")
            self._move(failed=None)
            self._take_checkpoint().write(self._folder.best)
            write_network(self._folder.network, self.model.compact(), self.model.sizes, self._settings.task)
        else:
            counts = [dimension.count for dimension in self.model.dimensions]
            self._move(failed=counts, ratio=ratio if self._phase == PRUNE_UNITS or ratio is None else ratio / 2)
            self._load_best()
        self._learner.restart()
        return found | {"limit": limit, "decision": ACCEPTED if accepted else REJECTED}

    def _sizes_and_costs(self) -> dict:
        sizes = self.model.sizes
        return {
            "inputs": sizes.inputs, "units": list(sizes.units), "lstm_parameters": self.model.lstm_parameters(),
            "parameters": self.model.parameters_kept(), "cycles": self._target.cycles(sizes),
        }  # fmt: skip

    def _take_checkpoint(self, identity: dict | None = None) -> CompressCheckpoint:
        """Take a checkpoint, of another identity if one is given."""
        learner, identity = self._learner, identity or self._identity
        return CompressCheckpoint.of(self.model, learner.optimizer, learner.states, identity, self.position)

    def _load_best(self) -> None:
        path = self._folder.best
        CompressCheckpoint.of_run(path, self._identity).load(path, self.model)

    def _test(self) -> dict:
        """Score the last network that was accepted."""
        self._load_best()
        score, fold = self._score("test"), self._fold()
        return {
            "kind": "test", **self._counts(), "loss": score, self._task.SCORE: score, **self._sizes_and_costs(),
            "fold": fold, "target": self._settings.target, "ended": self.position.ended,
            "reached": self._settings.target is None or fold >= self._settings.target,
        }  # fmt: skip


def entries_of_rounds(entries: Sequence[dict]) -> list[dict]:
    """Give the entries of a log that end rounds."""
    return [entry for entry in entries if "decision" in entry]
