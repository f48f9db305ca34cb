"""The file of a study: what was trained and what came of it, checked field by field."""

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, NonNegativeInt

from etalstm.errors import RunError
from etalstm.host.durable import write_whole
from etalstm.host.strict import check
from etalstm.network.execution import FLOAT32
from etalstm.train.significance import EPOCHS_FULL


class StudiedRun(BaseModel):
    """A run of a study: how it was reduced, what it learnt and what that cost; see :func:`train_once`.

    `commit` is that of the code that trained, see :func:`etalstm.host.checkout.commit`; of studies made before it was
    noted it is the commit that brought the run's figures. Studies made earlier lack `validation`, `others`,
    `delta_target`, `input_threshold`, `weight_format`, or what `ms2_` begins.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    storage: str
    theta: float | list[float]
    ms2: float | None
    delta_target: float | None = None
    input_threshold: str = "0"
    weight_format: str = FLOAT32
    ms2_steps: int | None = None
    ms2_full_epochs: int = EPOCHS_FULL
    ms2_without: str = ""
    seed: NonNegativeInt
    commit: str | None = None
    score: float
    validation: float | None = None
    others: dict[str, float] = {}
    footprint: float
    arithmetic: float
    backward_arithmetic: float
    delta_density: float
    real_footprint: float
    cells_skipped: float
    densities: dict[str, float]
    saved: dict[str, float]


class Study(BaseModel):
    """A study: the settings of all its runs, and the runs."""

    model_config = ConfigDict(strict=True, extra="forbid")

    settings: dict[str, Any]
    runs: list[StudiedRun]


def read_study(path: Path) -> dict:
    """Read a study.

    Raises
    ------
    RunError
        If it is no file of a study: the message names file and field.
    """
    try:
        study = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path}: no JSON: {error}") from error
    check(Study, study, path, RunError)
    return study


def write_study(path: Path, study: dict) -> None:
    """Write a study whole; :class:`OSError` if that cannot be."""
    write_whole(path, json.dumps(study, indent=1) + "\n")


def read_command(page: Path) -> str:
    """Give the command that a study's page names.

    Raises
    ------
    RunError
        If it is no such page.
    """
    found = [line.strip() for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("    eta-lstm ")]
    if len(found) != 1:
        raise RunError(f"{page}: expected the page of a study, with its command; found {len(found)} commands")
    return found[0]
