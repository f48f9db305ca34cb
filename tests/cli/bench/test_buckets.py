"""``eta-lstm bench buckets``: padding and cycles of an epoch, with and without buckets."""

import json

import numpy as np
import pytest

from etalstm.cli.bench.buckets import IterationCycles, spread, static_buckets
from etalstm.cli.main import run
from etalstm.data import Batch
from etalstm.device import open_device
from etalstm.network.shape import NetworkShape
from tests.data.test_datasets import write_imdb, write_trec


def write_sentences(directory):
    """104 sentences of 1 to 13 words."""
    (directory / "ptb.train.txt").write_text("".join("cat " * (1 + n % 13) + "\n" for n in range(104)))


def found(capsys, *options):
    assert run(["bench", "buckets", "--json", *map(str, options)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_automatic_buckets_leave_the_least_padding(capsys):
    none, static, auto = found(capsys)
    assert [entry["buckets"] for entry in (none, static, auto)] == ["none", "20,40,60,80", "auto"]
    assert none["padding"] > static["padding"] > 0.05 > auto["padding"] > 0
    assert none["batches"] == static["batches"] == auto["batches"] == 125
    assert none["steps"] == 125 * 80 > static["steps"] > auto["steps"]
    assert "cycles" not in none


def test_every_data_set_whose_folder_is_there_is_measured(capsys, tmp_path):
    for name, write in (("ptb", write_sentences), ("trec", write_trec), ("imdb", write_imdb)):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    entries = found(capsys, "--data", tmp_path, "--static", "9,13", "--batch", 8)
    assert [entry["data"] for entry in entries] == ["ptb"] * 3 + ["trec"] * 3 + ["imdb"] * 3
    assert entries[0]["steps"] == 13 * 14, "a sentence ends with a word of its own"
    assert {entry["count"] for entry in entries if entry["buckets"].startswith("9,13,")} == {3}


def test_a_folder_without_data_sets_is_refused(capsys, tmp_path):
    assert run(["bench", "buckets", "--data", str(tmp_path)]) == 2
    assert "must have one of the folders ptb, trec, imdb" in capsys.readouterr().err


def test_cycles_are_beside_those_of_the_real_steps(capsys):
    none, _, auto = found(capsys, "--preset", "test", "--input", 2, "--hidden", 3, "--batch", 2, "--batches", 2)
    assert none["cycles"] > 1.5 * auto["cycles"]
    assert none["of_real_steps"] > 1.5 and auto["of_real_steps"] == pytest.approx(1, abs=0.02)


def test_a_batch_without_padding_takes_what_its_real_steps_take():
    with open_device("sim", "test") as device:
        cycles = IterationCycles(device, NetworkShape(2, 3), 2, 6)
        assert cycles.of_real_steps(np.array([4, 4])) == cycles.of(4, np.array([4, 4]))
        four, five, between = (cycles.of_real_steps(np.array(each)) for each in ([4, 4], [5, 5], [4, 5]))
        assert between == (four + five) / 2


def test_batches_are_chosen_evenly_by_their_steps():
    batches = [
        Batch(np.zeros((steps, 1), np.int64), np.array([steps]), np.zeros(1, np.int64), np.ones(1, np.float32))
        for steps in (5, 1, 4, 2, 3, 6)
    ]
    assert [len(batch.x) for batch in spread(batches, 3)] == [2, 4, 6]
    assert len(spread(batches, 9)) == 6


def test_static_buckets_end_with_the_longest_sequence():
    assert static_buckets(None, 18) == "5,9,14,18"
    assert static_buckets("4,17", 18) == static_buckets("4,17,18,30", 18) == "4,17,18"
    with pytest.raises(ValueError, match="static must be numbers of steps with commas between, got 'auto'"):
        static_buckets("auto", 18)
