"""Reductions: the ways to train that a study compares."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from etalstm.network.delta_inputs import input_thresholds_text, read_input_thresholds
from etalstm.network.execution import BF16
from etalstm.network.storage import read_thresholds, thresholds_text
from etalstm.train.settings import Settings

FORM = "policy:theta:tau:share:input_threshold:weight_format"
NAMED: dict[str, Callable[[str], Any]] = {  # settings that a run may name behind FORM, and how they are read
    "ms2_steps": int,
    "ms2_full_epochs": int,
    "ms2_without": lambda text: text.replace("+", ","),  # a comma divides runs
    "rule": str,
    "arithmetic": str,
    "delta_bits": int,
}
SHARES = ("delta", "local", "inputs", "cells_skipped")  # that a run leaves, as files of densities name them
LATER = ("delta_target", "input_threshold", "weight_format", *NAMED)  # missing in runs of older studies


@dataclass(frozen=True)
class Reduction:
    """One way to train: a storage policy, a θ, τ or None, the share of δ that is left or None, Θ, the weights' format.

    The other fields are settings of MS2, a pruning rule, and the arithmetic. Θ, of delta inputs, is stored as
    :func:`etalstm.network.delta_inputs.input_thresholds_text` writes it.
    """

    storage: str
    theta: float | tuple[float, ...] = 0.0
    ms2: float | None = None
    delta_target: float | None = None
    input_threshold: str = str(Settings.input_threshold)
    weight_format: str = Settings.weight_format
    ms2_steps: int | None = Settings.ms2_steps
    ms2_full_epochs: int = Settings.ms2_full_epochs
    ms2_without: str = Settings.ms2_without
    rule: str | None = Settings.rule
    arithmetic: str = Settings.arithmetic
    delta_bits: int | None = Settings.delta_bits

    @classmethod
    def of(cls, text: str) -> "Reduction":
        """Read ``policy:theta:tau:share:Θ:format``, all but the policy optional.

        θ is as :func:`read_thresholds` takes it, Θ as :func:`read_input_thresholds` does; ``share`` is what is to be
        left of δ, ``format`` that of the weights. Where nothing is between two colons, θ and Θ are 0, τ and ``share``
        are none, and weights are float32. Behind these may be ``name=value`` for each of :data:`NAMED`, with colons
        between: ``dense::0.5:ms2_without=compensation+loss``. Raises ``ValueError`` if it is none of these.
        """
        policy, *fields = text.split(":")
        numbers = [field for field in fields if "=" not in field]
        try:
            named = dict(field.split("=") for field in fields[len(numbers) :])
            theta, ms2, delta_target, input_threshold, weight_format = numbers + [""] * (5 - len(numbers))
            thresholds = read_input_thresholds(input_threshold or str(Settings.input_threshold))
            return cls(
                policy, read_thresholds(theta or "0"), float(ms2) if ms2 else None,
                float(delta_target) if delta_target else None, input_thresholds_text(thresholds),
                weight_format or Settings.weight_format, **{n: NAMED[n](value) for n, value in named.items()},
            )  # fmt: skip
        except (ValueError, KeyError) as error:
            others = ", ".join(f"{name}=" for name in NAMED)
            raise ValueError(f"a run is {FORM}, all but the policy optional, then {others}, got {text!r}") from error

    @classmethod
    def of_several(cls, text: str) -> list["Reduction"]:
        """Read several with commas between: one begins at each comma before a letter, the others divide thresholds."""
        return [cls.of(each) for each in re.split(",(?=[a-z])", text)]

    @classmethod
    def of_run(cls, run: dict) -> "Reduction":
        """Give the reduction of a study's run, as its file has it."""
        theta = run["theta"]
        theta = tuple(theta) if isinstance(theta, list) else theta
        later = {name: run[name] for name in LATER if name in run}
        return cls(run["storage"], theta, run["ms2"], **later)

    @property
    def text(self) -> str:
        """The text that :meth:`of` reads."""
        others = [f":{value:g}" if value is not None else ":" for value in (self.ms2, self.delta_target)]
        for name in ("input_threshold", "weight_format"):
            value = getattr(self, name)
            others.append(f":{value}" if value != getattr(Settings, name) else ":")
        positional = f"{self.storage}:{thresholds_text(self.theta)}{''.join(others)}".rstrip(":")
        return positional + "".join(f":{n}={value}".replace(",", "+") for n, value in self._named.items())

    @property
    def _named(self) -> dict:
        """Give the settings of :data:`NAMED` that are not the default, by name."""
        chosen = {name: getattr(self, name) for name in NAMED}
        return {name: value for name, value in chosen.items() if value != getattr(Settings, name)}

    def __str__(self):
        theta = f", θ {thresholds_text(self.theta).replace(',', ' ')}" if np.any(self.theta) else ""
        tau = f", τ {self.ms2:g}" if self.ms2 is not None else ""
        delta = f", δ {self.delta_target:g}" if self.delta_target is not None else ""
        sent = self.input_threshold != Settings.input_threshold
        inputs = f", Θ {self.input_threshold.replace(',', ' ')}" if sent else ""
        weights = ", bf16 weights" if self.weight_format == BF16 else ""
        rule = f", rule {self.rule}" if self.rule else ""
        arithmetic = f", {self.arithmetic}" if "arithmetic" in self._named else ""
        bits = f", δ of {self.delta_bits} bits" if self.delta_bits else ""
        return f"{self.storage}{theta}{tau}{self._ms2_text}{delta}{inputs}{weights}{rule}{arithmetic}{bits}"

    @property
    def _ms2_text(self) -> str:
        last = f", last {self.ms2_steps} steps" if self.ms2_steps is not None else ""
        full = f", {self.ms2_full_epochs} full epochs" if "ms2_full_epochs" in self._named else ""
        without = f", without {self.ms2_without.replace(',', ' ')}" if self.ms2_without else ""
        return last + full + without
