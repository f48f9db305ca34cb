"""What is not zero in training, by benchmark: measured in the studies under ``docs/density``, on the golden trainer."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from etalstm.hw.contract import STREAM_BLOCK
from etalstm.storage import DENSE_TENSORS, KINDS

PATH = Path(__file__).with_name("densities.json")


@dataclass(frozen=True)
class Densities:
    """Shares of a benchmark.

    Members
    -------
    data : str
        Data set that they were measured on.
    own : bool
        That is the benchmark's own data set; else the shares are assumed to be another's.
    delta, local, inputs : float
        Of η-LSTM: nonzero shares of δ and of the local gradients, and the share of x and h that is sent.
    ms1_local : float
        Nonzero share of the local gradients where only these are pruned.
    ms2_delta, ms2_local, ms2_backward : float
        Where cells are skipped, too: the nonzero share of δ of all cells, that of the local gradients in cells that are
        not skipped, and the share of these cells. Without a study with skipped cells, those of MS1, and 1.
    """

    data: str
    own: bool
    delta: float
    local: float
    inputs: float
    ms1_local: float
    ms2_delta: float
    ms2_local: float
    ms2_backward: float


@cache
def sources() -> dict:
    """Give the file as it is: for each data set the study's command, its runs with their seeds, and their means."""
    return json.loads(PATH.read_text(encoding="utf-8"))


def densities_of(benchmark: str) -> Densities:
    """Give the shares of a benchmark; one without a study takes those that the file names for it."""
    known = sources()
    data = known["benchmarks"].get(benchmark, known["assumed"])
    means = known["sets"][data]
    eta, ms1, ms2 = means["eta"], means["ms1"], means["ms2"]
    skipping = ms2 or ms1 | {"cells_skipped": 0.0}
    skipping = skipping["delta"], skipping["local"], 1 - skipping["cells_skipped"]
    shares = eta["delta"], eta["local"], eta["inputs"], ms1["local"], *skipping
    return Densities(data, benchmark in known["benchmarks"], *shares)


def stream_share(local: float) -> float:
    """Give the bytes of bfloat16 streams, masks included, over those of five dense tensors."""
    return len(KINDS) * (local / 2 + 1 / STREAM_BLOCK) / DENSE_TENSORS
