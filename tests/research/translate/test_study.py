import json

import pytest

from etalstm.cli.main import run
from etalstm.research.translate.trainer import Trainer, Translation

SMALL = "--hidden 8 --embedding 6 --batch 8 --epochs 2 --seeds 2 --lower"


def arguments(corpus, out, *more):
    given = [
        "research",
        "study",
        "translation",
        "--data",
        str(corpus),
        "--source",
        "de",
        "--target",
        "en",
        "--out",
        str(out),
    ]
    return [*given, *SMALL.split(), *more]


def test_a_study_compares_bleu_and_what_the_layers_keep(corpus, tmp_path, monkeypatch, capsys):
    more = "--runs", "dense,ms1-bf16:0.1"
    assert run(arguments(corpus, tmp_path / "study", *more)) == 0
    runs = json.loads((tmp_path / "study" / "density.json").read_text())["runs"]
    assert [(one["storage"], one["seed"]) for one in runs] == [(s, n) for n in range(2) for s in ("dense", "ms1-bf16")]
    dense, reduced, *_ = runs
    assert dense["footprint"] == 1 and 0 < reduced["footprint"] < 0.6
    assert 0 < reduced["delta_density"] < dense["delta_density"] <= 1
    assert reduced["others"].keys() == {"bleu_beam"} and reduced["validation"] is not None
    page = (tmp_path / "study" / "density.md").read_text()
    assert "| run | seeds | BLEU | BLEU with a beam | validation |" in page and "translation from de to en" in page
    command = next(line for line in page.splitlines() if "eta-lstm research study" in line)
    assert "--lower " in command and "--hidden 8" in command and command.endswith("--data DIR --out DIR")

    monkeypatch.setattr(Trainer, "run", lambda *_: pytest.fail("trained again"))
    assert run(arguments(corpus, tmp_path / "study", *more)) == 0
    assert run(arguments(corpus, tmp_path / "study", "--hidden", "6")) == 2
    assert "other settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runs", "message"),
    [("dense::0.5", "a translation model has no ms2: it must be off, got 0.5"), ("dense:::::bf16", "no weight_format"),
     ("ms9:0.1", "ms9")],
)  # fmt: skip
def test_what_a_translation_model_does_not_have_is_refused_before_anything_is_trained(
    corpus, tmp_path, capsys, runs, message
):
    assert run(arguments(corpus, tmp_path / "study", "--runs", f"dense,{runs}")) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "study").exists()


def test_runs_with_integers_stand_beside_those_with_float32(corpus, tmp_path):
    runs = "dense,dense:0:arithmetic=int8:delta_bits=15"
    assert run(arguments(corpus, tmp_path / "study", "--runs", runs)) == 0
    found = json.loads((tmp_path / "study" / "density.json").read_text())["runs"]
    floats, integers = found[::2], found[1::2]
    assert [(one["arithmetic"], one["delta_bits"]) for one in integers] == [("int8", 15)] * 2
    assert all(one["arithmetic"] == "float32" for one in floats)
    for one, other in zip(floats, integers, strict=True):
        assert one["seed"] == other["seed"] and other["delta_density"] < one["delta_density"]


def test_defaults_are_those_of_a_run():
    assert Translation().defaults({"source": "de", "target": "en"})["hidden"] == 256
