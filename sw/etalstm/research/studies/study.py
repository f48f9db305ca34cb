"""Trains one network many times, with different reductions, and compares scores with costs.

The file of a study is checked field by field.
"""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import NonNegativeInt

from etalstm.errors import RunError
from etalstm.host.checkout import commit
from etalstm.host.durable import write_whole
from etalstm.host.strict import check, read_json
from etalstm.network.arithmetic import FLOAT32 as IN_FLOAT32
from etalstm.network.execution import FLOAT32
from etalstm.network.storage import KINDS
from etalstm.research.studies.reduction import Reduction
from etalstm.research.studies.subject import Subject, others_of, score_of
from etalstm.train.metrics import SHARES, forward_multiplications, rename_shares, shares
from etalstm.train.rules import source_of
from etalstm.train.sealed import Record
from etalstm.train.significance import EPOCHS_FULL


class StudiedRun(Record):
    """A run of a study: its reduction, its scores and costs; see :func:`result_of`.

    `commit` is that of the code that trained, see :func:`etalstm.host.checkout.commit`; of studies made before it was
    noted it is the commit that brought the run's figures. `rule_source` is what
    :func:`etalstm.train.rules.source_of` said of the pruning rule. `delta_digits` are the digits of δ over its
    elements, None with float32. Studies made earlier lack `validation`, `others`, `delta_target`, `input_threshold`,
    `weight_format`, `arithmetic`, `delta_digits`, or what `ms2_` begins.
    """

    storage: str
    theta: float | list[float]
    ms2: float | None
    delta_target: float | None = None
    input_threshold: str = "0"
    weight_format: str = FLOAT32
    arithmetic: str = IN_FLOAT32.name
    delta_bits: int | None = None
    ms2_steps: int | None = None
    ms2_full_epochs: int = EPOCHS_FULL
    ms2_without: str = ""
    rule: str | None = None
    rule_source: str | None = None
    seed: NonNegativeInt
    commit: str | None = None
    score: float
    validation: float | None = None
    others: dict[str, float] = {}  # noqa: RUF012  a field's default, which pydantic copies
    footprint: float
    multiplications: float
    backward_multiplications: float
    delta_density: float
    delta_digits: float | None = None
    real_footprint: float
    cells_skipped: float
    densities: dict[str, float]
    saved: dict[str, float]


class Study(Record):
    """A study: the settings of all its runs, and the runs."""

    settings: dict[str, Any]
    runs: list[StudiedRun]


def read_study(path: Path) -> dict:
    """Read a study; :class:`RunError`, naming file and field, if it is none."""
    study = read_json(path)
    for run in study.get("runs", ()) if isinstance(study, dict) else ():
        for values in (run, run.get("saved")) if isinstance(run, dict) else ():
            rename_shares(values)
    check(Study, study, path, RunError)
    return study


def read_command(page: Path) -> str:
    """Give the command that a study's page names; :class:`RunError` if it is no such page."""
    found = [line.strip() for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("    eta-lstm ")]
    if len(found) != 1:
        raise RunError(f"{page}: expected the page of a study, with its command; found {len(found)} commands")
    return found[0]


def run_study(
    subject: Subject, settings, reductions: list[Reduction], seeds: int, path: Path, report: Callable[[str], None]
) -> dict:
    """Train every reduction with every seed, 0 to `seeds` - 1; results that `path` holds already are not trained again.

    `settings` are those of all runs, a dataclass as the subject has them; the seed and what a reduction has are
    replaced. `path` is a JSON file, written after every run; its folder is made if need be. `report` is given a line of
    text after every run. Gives ``settings`` and ``runs``: a list of what :func:`result_of` gives, with reduction, seed
    and :func:`commit`.

    ``ValueError`` if `path` holds a study of other settings or runs of a rule whose file has changed since, or the
    subject cannot be reduced so; :class:`RunError` if it holds no study.
    """
    planned = [(reduction, seed) for seed in range(seeds) for reduction in reductions]  # every reduction soon has a run
    chosen = {one: subject.reduced(settings, *one) for one in planned}  # refused before any training
    ignored = ("seed", "data", *(field.name for field in dataclasses.fields(Reduction)))
    common = {name: value for name, value in dataclasses.asdict(settings).items() if name not in ignored}
    defaults = {name: value for name, value in subject.defaults(common).items() if name in common}
    study: dict[str, Any] = read_study(path) if path.exists() else {"settings": common, "runs": []}
    if defaults | study["settings"] != common:  # a setting that came after the study was made is its default
        raise ValueError(f"{path} holds a study of other settings; move it away or choose another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    done, code = {(Reduction.of_run(run), run["seed"]) for run in study["runs"]}, commit()
    sources = {one.rule: source_of(one.rule) for one in reductions if one.rule}
    _check_sources(study, sources, path)
    if done & set(planned):
        report(f"{len(done & set(planned))} of {len(planned)} runs are taken from {path}")
    for reduction, seed in planned:
        if (reduction, seed) in done:
            continue
        result = result_of(subject.train(chosen[reduction, seed]))
        noted = {"rule_source": reduction.rule and sources[reduction.rule], "seed": seed, "commit": code}
        study["runs"].append(dataclasses.asdict(reduction) | noted | result)
        write_whole(path, json.dumps(study, indent=1) + "\n")
        none = ", no cell skipped" if reduction.ms2 and not result["cells_skipped"] else ""
        report(f"{reduction}, seed {seed}: {result['score']:.4g}, footprint {result['footprint']:.3f}{none}")
    return study


def _check_sources(study: dict, sources: dict[str, str], path: Path) -> None:
    """Raise ``ValueError`` if a run of the study was trained with another text of its pruning rule."""
    for run in study["runs"]:
        rule = run.get("rule")
        if rule in sources and run.get("rule_source") != sources[rule]:
            raise ValueError(f"{path} holds runs of rule {rule} as it was; move it away or choose another folder")


def result_of(entries: list[dict]) -> dict:
    """Give the scores and costs of a run, from the entries of its log.

    They are a dict of ``score`` on the test split, see :data:`etalstm.research.studies.subject.SCORES`, ``validation``:
    that of the last whole epoch on the validation split, ``others``: further scores on the test split, the
    densities and :func:`shares` of the last epoch's iterations, and ``saved``: the shares over the whole run.
    :class:`RunError` if its device does not count what it keeps and computes.
    """
    iterations = [entry for entry in entries if entry["kind"] == "iteration"]
    epochs = [{}, *(entry for entry in entries if entry["kind"] == "epoch")]
    final = [entry for entry in iterations if entry["epoch"] == iterations[-1]["epoch"]]
    if "densities" not in final[-1]:
        raise RunError("the log does not say what was kept and computed: this device does not count it")
    test = entries[-1]
    result = {"score": score_of(test), "validation": score_of(epochs[-1]), "others": others_of(test)}
    result |= shares(final)
    result["densities"] = {kind: float(np.mean([entry["densities"][kind] for entry in final])) for kind in KINDS}
    if "delta_digits" in final[-1]:
        result["delta_digits"] = float(np.mean([entry["delta_digits"] for entry in final]))
    return result | {"saved": shares(iterations)}


def _mean_of_all(runs: list[dict], name: str) -> float | None:
    """Give the mean over runs, None if one has no such number: it was made before that was noted."""
    known = [run[name] for run in runs if run.get(name) is not None]
    return float(np.mean(known)) if len(known) == len(runs) else None


def summarise(study: dict) -> list[dict]:
    """Average a study's runs over seeds.

    Gives a list of dicts: for each reduction, in the order of its first run: ``name``, ``seeds`` (how many),
    ``seed_numbers`` (a list), mean ``score``, ``deviation`` (of one run; 0 for a single one), means of ``validation``
    and ``delta_digits`` (None if a run has none), means of ``others``, and the means of what a run costs.
    """
    by_reduction: dict[Reduction, list[dict]] = {}
    for run in study["runs"]:
        by_reduction.setdefault(Reduction.of_run(run), []).append(run)
    rows = []
    for reduction, runs in by_reduction.items():
        scores = [run["score"] for run in runs]
        row = {"name": str(reduction), **dataclasses.asdict(reduction), "seeds": len(runs)}
        row["seed_numbers"] = sorted(run["seed"] for run in runs)
        row |= {"score": float(np.mean(scores)), "deviation": float(np.std(scores, ddof=1)) if len(runs) > 1 else 0.0}
        row |= {name: _mean_of_all(runs, name) for name in ("validation", "delta_digits")}
        others = runs[0].get("others", {})
        row["others"] = {name: float(np.mean([run["others"][name] for run in runs])) for name in others}
        row |= {
            name: float(np.mean([run[name] for run in runs])) for name in (*SHARES, "real_footprint", "cells_skipped")
        }
        row["input_density"] = forward_multiplications(row)
        row["densities"] = {kind: float(np.mean([run["densities"][kind] for run in runs])) for kind in KINDS}
        row["local_density"] = float(np.mean(list(row["densities"].values())))
        row["saved"] = {key: float(np.mean([run["saved"][key] for run in runs])) for key in runs[0]["saved"]}
        rows.append(row)
    return rows
