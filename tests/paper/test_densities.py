"""The densities of the comparison are those of the committed studies."""

import json
from pathlib import Path

import numpy as np
import pytest

from etalstm.paper.densities import densities_of, sources, stream_share
from etalstm.train.metrics import forward_arithmetic
from etalstm.train.study import Reduction

ROOT = Path(__file__).parents[2]
USES = ("dense", "eta", "ms1", "ms2")


def mean(runs, value):
    return float(np.mean([value(run) for run in runs]))


@pytest.mark.parametrize("name", sources()["sets"])
def test_means_and_commands_are_those_of_the_study(name):
    stated = sources()["sets"][name]
    study = json.loads((ROOT / stated["study"]).read_text(encoding="utf-8"))
    assert stated["command"] in (ROOT / stated["study"]).with_suffix(".md").read_text(encoding="utf-8")
    assert stated["hidden"] == study["settings"]["hidden"]
    for use in USES:
        if stated[use] is None:
            continue
        wanted = Reduction.of(stated[use]["run"])
        runs = [run for run in study["runs"] if Reduction.of_run(run) == wanted]
        assert [run["seed"] for run in runs] == stated[use]["seeds"], use
        found = {
            "score": mean(runs, lambda run: run["score"]),
            "delta": mean(runs, lambda run: run["delta_density"]),
            "local": mean(runs, lambda run: np.mean(list(run["densities"].values()))),
            "inputs": mean(runs, forward_arithmetic),
            "cells_skipped": mean(runs, lambda run: run["cells_skipped"]),
        }
        for share in stated[use].keys() & found.keys():
            assert stated[use][share] == pytest.approx(found[share], abs=1e-3), (name, use, share)


def test_a_benchmark_without_a_study_takes_shares_that_are_marked():
    assert densities_of("trec10").own and densities_of("ptb").own
    assumed = densities_of("waymo")
    assert not assumed.own and assumed.data == "trec"
    assert assumed.delta == densities_of("trec10").delta


def test_where_no_cell_is_skipped_ms2_is_ms1():
    ptb = densities_of("ptb")
    assert (ptb.ms2_local, ptb.ms2_backward) == (ptb.ms1_local, 1.0)


def test_streams_are_masks_and_halves_of_words():
    assert stream_share(0.0) == pytest.approx(6 / 32 / 5)
    assert stream_share(1.0) == pytest.approx(6 * (1 / 2 + 1 / 32) / 5)
