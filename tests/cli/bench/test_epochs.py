"""What buckets and boards make of an epoch, by the cycle model."""

import json
from collections import Counter

import numpy as np
import pytest

from etalstm.cli.application import run
from etalstm.cli.bench.epochs import ALONE, PIPELINE, SHARED, anchors, line, sum_epoch

SIZES = ("bench", "epochs", "--preset", "test", "--hidden", "4", "--layers", "2", "--batch", "16", "--boards", "2")


def test_an_epoch_is_shorter_in_buckets_and_on_boards(capsys):
    assert run([*SIZES, "--json"]) == 0
    entries = [json.loads(text) for text in capsys.readouterr().out.splitlines()]
    found = {(entry["arrangement"], entry["buckets"]): entry for entry in entries}
    assert len(found) == len(entries) == 9 and entries[0]["speedup"] == 1
    for arrangement in (ALONE, SHARED, PIPELINE):
        none, given, auto = (found[arrangement, buckets] for buckets in ("none", "20,40,60,80", "auto"))
        assert none["padding"] > given["padding"] > auto["padding"]
        assert none["cycles"] > given["cycles"] > auto["cycles"]
        assert none["speedup"] < given["speedup"] < auto["speedup"]
    assert found[ALONE, "none"]["network_bytes"] == 0 < found[PIPELINE, "none"]["network_bytes"]
    assert "2 pipeline" in line(entries[-1])


def test_steps_between_the_modelled_ones_are_interpolated():
    steps = anchors([3, 81, 9])
    assert steps == [3, 9, 27, 81]
    numbers = np.array([[10 * n, 100 * n + 7, n] for n in steps], float)
    assert sum_epoch(Counter({3: 2, 50: 1}), steps, numbers) == {
        "cycles": 5621,
        "network_bytes": 56,
        "seconds": 0.56,
    }


@pytest.mark.parametrize("boards", ["1", "2,x", ","])
def test_refuses_numbers_of_boards_that_are_none(boards, capsys):
    assert run(["bench", "epochs", "--boards", boards]) == 2
    assert "boards must be numbers above 1 with commas between, got" in capsys.readouterr().err
