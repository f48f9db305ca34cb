"""Shares that are not zero in training, by benchmark, as the studies under ``docs/density`` measured them."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from etalstm.network.storage import DENSE_TENSORS, KINDS
from etalstm_hw.contract import STREAM_BLOCK

PATH = Path(__file__).with_name("densities.json")
SHARES = ("delta", "local", "inputs", "cells_skipped")  # of a chosen run

INSTEAD = {"eta": "ms1", "ms2": "ms1", "ms1": "dense"}
"""By use, the use whose shares stand in for it where no run of a study keeps the dense network's score."""


@dataclass(frozen=True)
class Shares:
    """Shares of a network's work and memory that are left."""

    delta: float  # nonzero share of δ of all cells
    local: float  # nonzero share of the local gradients, in cells that are not skipped
    inputs: float  # share of x and h that is sent
    backward: float  # share of the cells that are not skipped


@dataclass(frozen=True)
class Densities:
    """Shares of a benchmark, and the data set that they were measured on.

    They are its `own`, or assumed to be another's. `eta` is with all means, `ms1` with small local gradients dropped
    and nothing else, `ms2` with skipped cells besides.
    """

    data: str
    own: bool
    eta: Shares
    ms1: Shares
    ms2: Shares


@cache
def sources() -> dict:
    """Give the file as it is: for each data set the study's command, its runs with their seeds, and their means."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def densities_of(benchmark: str) -> Densities:
    """Give the shares of a benchmark; one without a study takes the shares that the file assumes."""
    known = sources()
    data = known["benchmarks"].get(benchmark, known["assumed"])
    means = known["sets"][data]
    return Densities(data, benchmark in known["benchmarks"], *(_shares(means, use) for use in ("eta", "ms1", "ms2")))


def _shares(means: dict, use: str) -> Shares:
    one = {"inputs": 1.0, "cells_skipped": 0.0} | _instead(means, use)
    return Shares(one["delta"], one["local"], one["inputs"], 1 - one["cells_skipped"])


def _instead(means: dict, use: str) -> dict:
    """Give the means for a use, or for the use that stands in for it."""
    return means[use] or _instead(means, INSTEAD[use])


def stream_share(local: float) -> float:
    """Give the bytes of bfloat16 streams, masks included, over those of five dense tensors."""
    return len(KINDS) * (local / 2 + 1 / STREAM_BLOCK) / DENSE_TENSORS
