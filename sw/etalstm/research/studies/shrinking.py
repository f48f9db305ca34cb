"""Runs of ``eta-lstm research compress`` beside each other: how small the networks became, and how much worse.

A kind is all runs whose settings differ only in the seed, and in the locations of data and of other runs. Profiles are
told apart by the names of their files.
"""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from etalstm.errors import RunError
from etalstm.host.durable import write_whole
from etalstm.host.strict import check, read_json
from etalstm.train.folder import RunFolder
from etalstm.train.metrics import read_log
from etalstm.train.sealed import Record

FILE = "shrinking.json"
ACCEPTED = "accepted"
DENSE = "dense"
PROFILES = ("profile", "input_profile")
LOCATIONS = ("data", "engine", "start")  # settings that a kind does not include
UNGUIDED = "no"


@dataclass(frozen=True)
class ScoreKind:
    """The score of a task's networks; a lower score is better.

    `entry` is its name in a run's log. Where it is `relative`, differences are shares of the dense start's score in
    percent, else points.
    """

    entry: str
    label: str
    relative: bool

    def worse(self, score: float, dense: float) -> float:
        """Give by how much a score is above the dense start's: in percent of it, or in points."""
        return 100 * (score / dense - 1) if self.relative else score - dense

    @property
    def unit(self) -> str:
        """The unit of :meth:`worse`."""
        return "%" if self.relative else "points"


SCORES = {
    "language": ScoreKind("perplexity", "perplexity", relative=True),
    "speech": ScoreKind("character_error_rate", "character error rate, %", relative=False),
}


class Network(Record, frozen=False):
    """A network at the end of a round."""

    phase: str  # the step of the round: ``dense``, ``prune-units``, …
    round: NonNegativeInt
    decision: str  # ``accepted`` or ``rejected``
    inputs: PositiveInt
    units: list[PositiveInt]  # of each layer
    lstm_parameters: PositiveInt
    parameters: PositiveInt
    cycles: PositiveInt | None  # of an iteration by the cycle model; None if it does not fit the preset
    validation: float | None = None  # None if training diverged
    test: float | None = None  # of accepted networks
    milliseconds: PositiveFloat | None = None  # of an iteration with PyTorch's LSTM on a processor, where it was timed

    def layers(self) -> list[tuple[int, int]]:
        """Give inputs and units of each layer."""
        return list(zip((self.inputs, *self.units[:-1]), self.units, strict=True))


class ShrunkRun(Record):
    """A run: its settings, and the networks of all rounds in their order. The first one is the dense start."""

    settings: dict[str, Any]
    networks: list[Network] = Field(min_length=1)

    @property
    def dense(self) -> Network:
        """The dense start."""
        return self.networks[0]

    @property
    def seed(self) -> int:
        """The seed of the first weights."""
        return self.settings["seed"]

    @property
    def score(self) -> ScoreKind:
        """The score of the networks."""
        return SCORES[self.settings["task"]]

    @property
    def kind(self) -> dict[str, Any]:
        """The settings without seed and locations. ``guided`` is ``no`` where there was no profile."""
        found = {name: value for name, value in self.settings.items() if name not in (*LOCATIONS, "seed")}
        return found if any(self.settings.get(name) for name in PROFILES) else found | {"guided": UNGUIDED}

    @property
    def steps(self) -> list[str]:
        """The dense start, and the steps after it."""
        return [DENSE, *self.settings["phases"]]

    def after(self, step: str) -> Network:
        """Give the network that a step left: the last one accepted until then."""
        until = self.steps[: self.steps.index(step) + 1]
        return [one for one in self.networks if one.phase in until and one.decision == ACCEPTED][-1]

    @property
    def shown(self) -> list[tuple[list[str], Network]]:
        """The networks that steps left, each with the names of those steps."""
        found: list[tuple[list[str], Network]] = []
        for step in self.steps:
            network = self.after(step)
            if found and found[-1][1] is network:
                found[-1][0].append(step)
            else:
                found.append(([step], network))
        return found


class ShrinkingStudy(Record):
    """The file of a study."""

    runs: list[ShrunkRun]


def read_runs(paths: Sequence[Path]) -> list[ShrunkRun]:
    """Read runs: each path is the folder of a run, or the file of a study, which stands for its runs.

    Raises :class:`RunError` if there is no such run or study, a run has not ended, tasks differ, or two runs of a kind
    have the same seed.
    """
    runs = [run for path in paths for run in (_read_study(path) if path.is_file() else [_read_run(path)])]
    first = runs[0]
    for number, run in enumerate(runs):
        if run.settings["task"] != first.settings["task"]:
            raise RunError(
                f"runs must have one task, got {first.settings['task']} and {run.settings['task']} (run {number + 1})"
            )
        if any(run.kind == other.kind and run.seed == other.seed for other in runs[:number]):
            raise RunError(f"run {number + 1} has the settings and the seed, {run.seed}, of another run")
    return runs


def write_runs(runs: Sequence[ShrunkRun], path: Path) -> None:
    """Write the file of a study, whole or not at all."""
    write_whole(path, json.dumps(ShrinkingStudy(runs=list(runs)).model_dump(), indent=1) + "\n")


def _read_study(path: Path) -> list[ShrunkRun]:
    study = check(ShrinkingStudy, read_json(path), path, RunError)
    if not study.runs:
        raise RunError(f"{path}: there are no runs in it")
    for one in study.runs:
        _check_settings(one.settings, path)
    return study.runs


def _check_settings(settings: dict, path: Path) -> None:
    if settings.get("task") not in SCORES or not {"seed", "phases"} <= settings.keys():
        raise RunError(
            f"{path}: must be the settings of eta-lstm research compress, got the keys {', '.join(settings)}"
        )


def _read_run(folder: Path) -> ShrunkRun:
    path, log = RunFolder(folder).settings, RunFolder(folder).metrics
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RunError(f"{folder}: there is no run of eta-lstm research compress in it: no {path.name}") from error
    except ValueError as error:
        raise RunError(f"{path}: no TOML: {error}") from error
    _check_settings(settings, path)
    entries = read_log(log) if log.is_file() else []
    if not entries or entries[-1]["kind"] != "test":
        raise RunError(
            f"{folder}: the run has not ended; eta-lstm research compress --resume --out {folder} goes on with it"
        )
    score = SCORES[settings["task"]].entry
    rounds = [_network(entry, score, log) for entry in entries if "decision" in entry]
    paths = [name for name in (*LOCATIONS, *PROFILES) if name in settings]
    names = {name: Path(settings[name]).name for name in paths}  # nobody else has these folders
    return ShrunkRun(settings=settings | names, networks=rounds)


def _network(entry: dict, score: str, source: Path) -> Network:
    table = {name: entry[name] for name in Network.model_fields if name in entry}
    scores = {"validation": entry.get(score), "test": entry.get(f"test_{score}")}
    return check(Network, table | scores, source, RunError)
