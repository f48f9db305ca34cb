"""``eta-lstm research translate`` and ``eta-lstm research attention``."""

import json
import re

import pytest

from etalstm.cli.main import run
from tests.nn.parity import DEVICES

SMALL = ["--hidden", "8", "--embedding", "6", "--batch", "8", "--epochs", "1", "--longest", "9"]
SMALL_BENCH = ["--hidden", "8", "--batch", "3", "--steps", "4", "--tokens", "20", "--runs", "1"]


@pytest.fixture
def begin(corpus, tmp_path):
    files = ["--data", str(corpus), "--source", "de", "--target", "en"]
    return lambda *options: run(
        ["research", "translate", "train", *files, *SMALL, "--out", str(tmp_path / "run"), *options]
    )


def test_a_model_is_trained_used_scored_and_trained_further(begin, tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert begin() == 0
    assert re.search(
        r"36 training pairs, left out 0 longer and 0 blank ones; \d+ tokens of de", capsys.readouterr().err
    )
    assert run(["research", "translate", "run", folder, "Ein Hund .", "Eine Frau ."]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert run(["research", "translate", "evaluate", folder, "--beam", "1"]) == 0
    assert re.match(r"BLEU \d+\.\d\d of 5 sentences, beam 1 \(nrefs:1.*version", capsys.readouterr().out)
    assert run(["research", "translate", "train", "--resume", "--epochs", "2", "--out", folder]) == 0
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert kinds.count("epoch") == 2 and kinds[-1] == "test"


def test_a_run_is_not_lost(begin, capsys):
    assert begin() == 0
    assert begin() == 2
    assert "holds a run already" in capsys.readouterr().err
    assert begin("--overwrite") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hidden", "7"], "hidden must be even"),
        (["--engine", "gold"], "engine must be one of golden, sim"),
        (["--theta", "x"], "theta"),
        (["--least-count", "99"], "least_count must be at most"),
        (["--longest", "2"], "every training pair has more than longest = 2 tokens"),
        (["--target", "fr"], "must hold train.fr or train.fr.gz or fr-train.txt"),
        (["--resume", "--overwrite"], "there must be one of them, got both"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, message, begin, capsys):
    assert begin(*options) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") <= 2


def test_a_corpus_of_blank_pairs_is_refused(begin, corpus, capsys):
    for side, text in (("de", "Hund\n\n"), ("en", "\ndog\n")):
        (corpus / f"train.{side}").write_text(text)
    assert begin() == 2
    assert "every training pair has a blank sentence" in capsys.readouterr().err


def test_a_beginning_needs_data(tmp_path, capsys):
    assert run(["research", "translate", "train", "--out", str(tmp_path / "run")]) == 2
    assert "--data must be given where a run begins" in capsys.readouterr().err


def test_a_folder_without_a_run_is_named(tmp_path, capsys):
    assert run(["research", "translate", "run", str(tmp_path), "Hund"]) == 2
    assert "settings.toml: there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["additive", "dot"])
def test_the_bench_gives_equal_bits_and_all_figures(kind, device, capsys):
    assert run(["research", "attention", *SMALL_BENCH, "--kind", kind, "--device", device, "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["equal"] and figures["auto"] == "off"
    assert figures["attention"]["again"]["peak_bytes"] > 0 and figures["iteration"]["time"] > 0


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--device=tpu", "device must be one of cpu, cuda, got 'tpu'"),
        ("--kind=soft", "attention must be one of additive, dot, got 'soft'"),
        ("--tokens=4", "tokens must be above 4, the special ones, got 4"),
    ],
)
def test_what_the_bench_cannot_measure_is_refused(option, message, capsys):
    assert run(["research", "attention", *SMALL_BENCH, option]) == 2
    assert message in capsys.readouterr().err


def test_the_bench_is_told_in_words(capsys):
    assert run(["research", "attention", *SMALL_BENCH]) == 0
    assert "equal bits in both cases" in capsys.readouterr().out
