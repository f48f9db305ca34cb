"""Trains one network many times, reduced in different ways, and compares what it learnt with what it cost."""

import dataclasses
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from etalstm.data import BROUGHT
from etalstm.data.dataset import LANGUAGE
from etalstm.delta_inputs import input_thresholds_text, read_input_thresholds
from etalstm.device import open_device
from etalstm.storage import KINDS, read_thresholds, thresholds_text
from etalstm.train.loop import Trainer
from etalstm.train.metrics import SHARES, forward_arithmetic, shares
from etalstm.train.settings import Settings
from etalstm.train.significance import MEASURE_EVERY
from etalstm.train.studied import read_study, write_study
from etalstm.weight_format import BF16

OPTIONS = {"learning_rate": "lr"}  # what the command line calls a setting differently
FORM = "policy:theta:tau:share:input_threshold:weight_format"
OF_MS2 = {  # settings that a run may name behind that, and how they are read
    "ms2_steps": int,
    "ms2_full_epochs": int,
    "ms2_without": lambda text: text.replace("+", ","),  # a comma divides runs
}
LATER = ("delta_target", "input_threshold", "weight_format", *OF_MS2)  # what runs of older studies do not name
PER_STEP = ("pydoc", "ptb")  # data sets whose score is a perplexity
SIZES = ("hidden", "layers", "batch", "embedding", "epochs", "learning_rate")  # a page shows them, defaults too


@dataclass(frozen=True)
class Reduction:
    """One way to train: a storage policy, a θ, τ or None, the share of δ that is left or None, Θ, the weights' format.

    The others are settings of MS2. Θ, of delta inputs, is kept as :func:`etalstm.delta_inputs.input_thresholds_text`
    writes it.
    """

    storage: str
    theta: float | tuple[float, ...] = 0.0
    ms2: float | None = None
    delta_target: float | None = None
    input_threshold: str = Settings.input_threshold
    weight_format: str = Settings.weight_format
    ms2_steps: int | None = Settings.ms2_steps
    ms2_full_epochs: int = Settings.ms2_full_epochs
    ms2_without: str = Settings.ms2_without

    @classmethod
    def of(cls, text: str) -> "Reduction":
        """Read ``policy:theta:tau:share:Θ:format``, all but the policy optional.

        θ is as :func:`read_thresholds` takes it, Θ as :func:`read_input_thresholds` does; ``share`` is what is to be
        left of δ, ``format`` that of the weights. Where nothing is between two colons, θ and Θ are 0, τ and ``share``
        are none, and weights are float32. Behind these may be ``name=value`` for each of :data:`OF_MS2`, with colons
        between: ``dense::0.5:ms2_without=compensation+loss``.

        Raises
        ------
        ValueError
            If it is none of these.
        """
        policy, *parts = text.split(":")
        numbers = [part for part in parts if "=" not in part]
        try:
            of_ms2 = dict(part.split("=") for part in parts[len(numbers) :])
            theta, ms2, delta_target, input_threshold, weight_format = numbers + [""] * (5 - len(numbers))
            thresholds = read_input_thresholds(input_threshold or Settings.input_threshold)
            return cls(
                policy, read_thresholds(theta or "0"), float(ms2) if ms2 else None,
                float(delta_target) if delta_target else None, input_thresholds_text(thresholds),
                weight_format or Settings.weight_format, **{n: OF_MS2[n](value) for n, value in of_ms2.items()},
            )  # fmt: skip
        except (ValueError, KeyError) as error:
            named = ", ".join(f"{name}=" for name in OF_MS2)
            raise ValueError(f"a run is {FORM}, all but the policy optional, then {named}, got {text!r}") from error

    @classmethod
    def of_several(cls, text: str) -> list["Reduction"]:
        """Read several with commas between: one begins at each comma before a letter, the others divide thresholds."""
        return [cls.of(part) for part in re.split(",(?=[a-z])", text)]

    @classmethod
    def of_run(cls, run: dict) -> "Reduction":
        """Give what a run of a study, read from its file, was reduced by."""
        theta = run["theta"]
        theta = tuple(theta) if isinstance(theta, list) else theta
        later = {name: run[name] for name in LATER if name in run}
        return cls(run["storage"], theta, run["ms2"], **later)

    @property
    def text(self) -> str:
        """What :meth:`of` reads."""
        others = [f":{value:g}" if value is not None else ":" for value in (self.ms2, self.delta_target)]
        for name in ("input_threshold", "weight_format"):
            value = getattr(self, name)
            others.append(f":{value}" if value != getattr(Settings, name) else ":")
        positional = f"{self.storage}:{thresholds_text(self.theta)}{''.join(others)}".rstrip(":")
        return positional + "".join(f":{n}={value}".replace(",", "+") for n, value in self._of_ms2.items())

    @property
    def _of_ms2(self) -> dict:
        """Give the settings of MS2 that are not the default, by name."""
        chosen = {name: getattr(self, name) for name in OF_MS2}
        return {name: value for name, value in chosen.items() if value != getattr(Settings, name)}

    def __str__(self):
        theta = f", θ {thresholds_text(self.theta).replace(',', ' ')}" if np.any(self.theta) else ""
        tau = f", τ {self.ms2:g}" if self.ms2 is not None else ""
        delta = f", δ {self.delta_target:g}" if self.delta_target is not None else ""
        sent = self.input_threshold != Settings.input_threshold
        inputs = f", Θ {self.input_threshold.replace(',', ' ')}" if sent else ""
        weights = ", bf16 weights" if self.weight_format == BF16 else ""
        return f"{self.storage}{theta}{tau}{self._ms2_text}{delta}{inputs}{weights}"

    @property
    def _ms2_text(self) -> str:
        last = f", last {self.ms2_steps} steps" if self.ms2_steps is not None else ""
        full = f", {self.ms2_full_epochs} full epochs" if "ms2_full_epochs" in self._of_ms2 else ""
        without = f", without {self.ms2_without.replace(',', ' ')}" if self.ms2_without else ""
        return last + full + without


def train_once(settings: Settings, report: Callable[[dict], None] = lambda entry: None) -> dict:
    """Train one run and give what it learnt and cost.

    Returns
    -------
    dict
        ``score`` on the test split (accuracy or perplexity), ``validation``: that of the last whole epoch on the
        validation split, the densities and :func:`shares` of the last epoch's iterations, and ``saved``: the shares
        over the whole run.
    """
    iterations, epochs = [], [{}]

    def collect(entry):
        if entry["kind"] in ("iteration", "epoch"):
            (iterations if entry["kind"] == "iteration" else epochs).append(entry)
        report(entry)

    with tempfile.TemporaryDirectory() as folder, open_device(settings.device, settings.preset) as device:
        last = Trainer(settings, device, Path(folder)).run(collect)
    if last["kind"] != "test":
        raise KeyboardInterrupt
    final = [entry for entry in iterations if entry["epoch"] == iterations[-1]["epoch"]]
    result = {"score": score_of(last), "validation": score_of(epochs[-1])}
    result |= shares(final)
    result["densities"] = {kind: float(np.mean([entry["densities"][kind] for entry in final])) for kind in KINDS}
    return result | {"saved": last["saved"]}


def score_of(entry: dict) -> float | None:
    """Give an evaluation's accuracy or perplexity, None if it has neither."""
    return entry.get("accuracy", entry.get("perplexity"))


def run_study(
    settings: Settings, reductions: list[Reduction], seeds: int, path: Path, report: Callable[[str], None]
) -> dict:
    """Train every reduction with every seed; results that `path` holds already are not trained again.

    Parameters
    ----------
    settings : Settings
        Of all runs; the seed and what a reduction has are replaced.
    reductions : list of Reduction
    seeds : int
        Seeds 0 to `seeds` - 1.
    path : Path
        JSON file, written after every run.
    report : callable
        Given a line of text after every run.

    Returns
    -------
    dict
        ``settings`` and ``runs``: a list of what :func:`train_once` gives, with reduction and seed.

    Raises
    ------
    ValueError
        If `path` holds a study of other settings.
    RunError
        If it holds no study.
    """
    ignored = ("seed", "data", *(field.name for field in dataclasses.fields(Reduction)))
    common = {name: value for name, value in dataclasses.asdict(settings).items() if name not in ignored}
    defaults = {name: value for name, value in dataclasses.asdict(_data_of(common)).items() if name in common}
    study = read_study(path) if path.exists() else {"settings": common, "runs": []}
    if defaults | study["settings"] != common:  # a setting that came after the study was made is its default
        raise ValueError(f"{path} holds a study of other settings; move it away or choose another folder")
    done = {(Reduction.of_run(run), run["seed"]) for run in study["runs"]}
    for seed in range(seeds):  # seeds outermost: an interrupted study has some of everything
        for reduction in reductions:
            if (reduction, seed) in done:
                continue
            chosen = dataclasses.asdict(reduction)
            result = train_once(dataclasses.replace(settings, **chosen, seed=seed))
            study["runs"].append(chosen | {"seed": seed} | result)
            write_study(path, study)
            report(f"{reduction}, seed {seed}: {result['score']:.4g}, footprint {result['footprint']:.3f}")
    return study


def _data_of(settings: dict) -> Settings:
    """Give the settings of a study's data, all others their defaults."""
    return Settings(settings["dataset"], task=settings.get("task"))


def is_language(settings: dict) -> bool:
    """Tell whether the score of a study with some settings is a perplexity."""
    return settings["dataset"] in PER_STEP or settings.get("task") == LANGUAGE


def summarise(study: dict) -> list[dict]:
    """Average a study's runs over seeds.

    Returns
    -------
    list of dict
        For each reduction, in the order of its first run: ``name``, ``seeds``, mean ``score``, ``deviation`` (of one
        run; 0 for a single one), mean ``validation`` (None if a run has none), and the means of what a run costs.
    """
    groups: dict[Reduction, list[dict]] = {}
    for run in study["runs"]:
        groups.setdefault(Reduction.of_run(run), []).append(run)
    rows = []
    for reduction, runs in groups.items():
        scores = [run["score"] for run in runs]
        row = {"name": str(reduction), **dataclasses.asdict(reduction), "seeds": len(runs)}
        row |= {"score": float(np.mean(scores)), "deviation": float(np.std(scores, ddof=1)) if len(runs) > 1 else 0.0}
        validations = [run.get("validation") for run in runs]  # studies made before it was noted have none
        row["validation"] = None if None in validations else float(np.mean(validations))
        row |= {
            name: float(np.mean([run[name] for run in runs])) for name in (*SHARES, "real_footprint", "cells_skipped")
        }
        row["input_density"] = forward_arithmetic(row)
        row["densities"] = {kind: float(np.mean([run["densities"][kind] for run in runs])) for kind in KINDS}
        row["saved"] = {key: float(np.mean([run["saved"][key] for run in runs])) for key in runs[0]["saved"]}
        rows.append(row)
    return rows


def command_of(study: dict, seeds: int) -> str:
    """Give the command that makes a study, whatever made it in several steps; folders are named, not shown."""
    settings = study["settings"]
    defaults = dataclasses.asdict(_data_of(settings))
    chosen = {OPTIONS.get(n, n): value for n, value in settings.items() if n in SIZES or value != defaults[n]}
    data_set = {name: settings[name] for name in ("dataset", "task") if settings.get(name)}
    chosen = data_set | chosen | {"seeds": seeds}
    chosen["runs"] = ",".join(Reduction.of_run(row).text for row in summarise(study))
    data = " --data DIR" if settings["dataset"] in BROUGHT else " --data FILE" if settings.get("task") else ""
    options = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in chosen.items())
    return f"eta-lstm study density {options}{data} --out DIR"


def markdown(study: dict, seeds: int) -> str:
    """Write a study as a page: what was trained, the table, and what its columns mean."""
    settings, rows = study["settings"], summarise(study)
    data = settings["dataset"] or f"a file of one's own ({settings['task']})"
    score, factor, places = ("perplexity", 1, 3) if is_language(settings) else ("accuracy %", 100, 1)
    head = ["run", "seeds", score, "validation", "footprint", "of real cells", "whole run", "P kept", "i f g o s r",
            "x, h sent", "δ nonzero", "backward products", "all products", "cells skipped"]  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        kinds = row["densities"].values()
        scores = [row["score"], row["deviation"]] if row["seeds"] > 1 else [row["score"]]
        cells = [row["name"], row["seeds"], " ± ".join(f"{factor * value:.{places}f}" for value in scores)]
        cells += ["" if row["validation"] is None else f"{factor * row['validation']:.{places}f}"]
        cells += [f"{row[name]:.3f}" for name in ("footprint", "real_footprint")] + [f"{row['saved']['footprint']:.3f}"]
        cells += [f"{np.mean(list(kinds)):.2f}", " ".join(f"{kind:.2f}".lstrip("0") or "0" for kind in kinds)]
        cells += [
            f"{row[name]:.3f}" for name in ("input_density", "delta_density", "backward_arithmetic", "arithmetic")
        ]
        lines.append("| " + " | ".join(map(str, [*cells, f"{row['cells_skipped']:.2f}"])) + " |")
    return "\n".join([f"# What reductions cost on {data}", "", "Made with", "",
                      f"    {command_of(study, seeds)}", "", *lines, "", EXPLANATION, ""])  # fmt: skip


EXPLANATION = f"""\
Test score at the end of training, mean over seeds ± standard deviation of one run; **validation**: the same score on
the validation split, by which θ and τ are to be chosen. All else are means over the iterations of the last epoch, but
for *whole run*. **footprint**: words that cells keep for their backward pass (masks included, every block's odd bf16
half word counted whole) over five dense float32 tensors i, f, g, o, c; **of real cells**: the same words over those
tensors without the padding of short sequences; **whole run**: the footprint over all iterations, the full ones before
and between skipping included; the largest moment is that of a full one. **P kept**: nonzero share of the six local
gradients in cells that are not skipped. **x, h sent**: nonzero share of what the forward pass broadcasts; a run with Θ
in its name has delta inputs. **δ nonzero**: of all cells, skipped ones counted as zeros; a run with δ in its name
prunes to that share. **products**: multiplications in the matrix products that are left once zero broadcast factors are
skipped, padding not counted on either side. Full iterations (one in {MEASURE_EVERY}) are part of these means."""
