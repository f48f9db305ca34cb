"""Shares that are not zero in training, by benchmark, as studies measured them.

Those of float32 are of the studies under ``docs/density``, those of integers of the ones under ``docs/integers``.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from etalstm.network.arithmetic import INT8
from etalstm.network.storage import DENSE, DENSE_TENSORS, KINDS
from etalstm.research.studies.reduction import Reduction
from etalstm_hw.contract import STREAM_BLOCK

PATH, INTEGER_PATH = (Path(__file__).with_name(name) for name in ("densities.json", "integer_densities.json"))
# Where no study has counted them: digits of each δ that is not zero, the most that any study has, and the bits of δ.
DIGITS, DELTA_BITS = 1.3, 15

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


@dataclass(frozen=True)
class IntegerShares:
    """Shares of a network's work and memory that are left with integers.

    Members
    -------
    left : Shares    with all means; of x and h, zeros count as not sent
    digits : float   that are not zero, of each element of δ of all cells
    delta_bits : int
    changes : bool   x and h are sent as changes
    own : bool       measured with integers
    """

    left: Shares
    digits: float
    delta_bits: int
    changes: bool
    own: bool = True


@cache
def sources(path: Path = PATH) -> dict:
    """Give a file as it is: for each data set the study's command, its runs with their seeds, and their means."""
    return json.loads(path.read_text(encoding="utf-8"))


def densities_of(benchmark: str) -> Densities:
    """Give the shares of a benchmark; one without a study takes the shares that the file assumes."""
    known = sources()
    data = known["benchmarks"].get(benchmark, known["assumed"])
    means = known["sets"][data]
    return Densities(data, benchmark in known["benchmarks"], *(_shares(means, use) for use in ("eta", "ms1", "ms2")))


def integer_shares_of(benchmark: str) -> IntegerShares:
    """Give the shares of a benchmark with integers; those of float32 where no run with integers keeps the score."""
    known = sources(INTEGER_PATH)
    means = known["sets"].get(known["benchmarks"].get(benchmark), {}).get("eta")
    if means is None:
        left = densities_of(benchmark).eta
        return IntegerShares(left, DIGITS * left.delta, DELTA_BITS, left.inputs < 1, own=False)
    run = Reduction.of(means["run"])
    changes = run.input_threshold != Reduction(DENSE).input_threshold
    return IntegerShares(_of_means(means), means["digits"], run.delta_bits or INT8.delta_bits, changes)


def _shares(means: dict, use: str) -> Shares:
    return _of_means({"inputs": 1.0, "cells_skipped": 0.0} | _instead(means, use))


def _of_means(means: dict) -> Shares:
    return Shares(means["delta"], means["local"], means["inputs"], 1 - means["cells_skipped"])


def _instead(means: dict, use: str) -> dict:
    """Give the means for a use, or for the use that stands in for it."""
    return means[use] or _instead(means, INSTEAD[use])


def stream_share(local: float) -> float:
    """Give the bytes of bfloat16 streams, masks included, over those of five dense tensors."""
    return len(KINDS) * (local / 2 + 1 / STREAM_BLOCK) / DENSE_TENSORS
