"""Training runs in length buckets: what they print and log, that they go on with the same bits, what they refuse."""

import math
import re

import numpy as np
import pytest

import etalstm.train
from etalstm.cli.main import run
from etalstm.device import open_device
from etalstm.train.folder import CHECKPOINT
from etalstm.train.loop import Trainer
from etalstm.train.model import evaluate
from etalstm.train.settings import Settings
from tests.runs import changed, done, log

WORDS = ["the", "cat", "and", "a", "dog", "saw", "what", "he", "had", "seen", "of", "it"]
OPTIONS = {
    "plain": {},
    "layered": {"layers": 3, "dropout": 0.3},
    "reduced": {"layers": 2, "ms2": 0.3, "storage": "ms1-bf16", "theta": 0.05, "delta_target": 0.4},
    "shared": {"shared_tokens": "auto"},
    "delta": {"input_threshold": "0.1"},
}
FULL_EPOCHS = 3  # of a run that skips cells, before it skips any


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Sentences of 2 to 9 words."""
    generator = np.random.default_rng(0)
    rows = [(" ".join(generator.choice(WORDS, 2 + n % 8)), n % 2) for n in range(70)]
    path = tmp_path_factory.mktemp("texts") / "t.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return path


def settings(texts, buckets="auto", **more):
    sizes = {"hidden": 6, "embedding": 5, "batch": 4, "epochs": FULL_EPOCHS + 1}
    return Settings(task="classify", data=str(texts), buckets=buckets, **(sizes | more))


def train(out, chosen, resume=False):
    return Trainer(chosen, open_device("golden"), out, resume).run()


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_resumed_run_has_the_bits_and_the_log_of_an_uninterrupted_one(texts, tmp_path, options):
    chosen = settings(texts, **options)
    train(tmp_path / "whole", chosen)
    for number, stop in enumerate((5, 47)):  # an epoch has 14 iterations: one stop is where cells are skipped
        train(tmp_path / "a", changed(chosen, iterations=stop), resume=number > 0)
    train(tmp_path / "a", chosen, resume=True)
    assert (tmp_path / "a" / CHECKPOINT).read_bytes() == (tmp_path / "whole" / CHECKPOINT).read_bytes()
    assert done(tmp_path / "a") == done(tmp_path / "whole")


def test_the_log_tells_the_share_of_padding(texts, tmp_path):
    found = {}
    for buckets in ("none", "5,9", "auto"):
        train(tmp_path / buckets, settings(texts, buckets, epochs=1))
        entries = log(tmp_path / buckets)
        iterations = [entry["padding"] for entry in entries if entry["kind"] == "iteration"]
        (found[buckets],) = [entry["padding"] for entry in entries if entry["kind"] == "epoch"]
        assert len(iterations) == 14 and min(iterations) >= 0
        assert found[buckets] <= max(iterations)
    assert found["none"] > 0.3 > found["5,9"] > found["auto"] > 0
    assert found["auto"] < 0.08


def test_an_evaluation_in_buckets_finds_the_loss_of_one_without(texts, tmp_path):
    found = []
    for buckets in ("none", "auto"):
        trainer = Trainer(settings(texts, buckets), open_device("golden"), tmp_path / buckets)
        learner, data = trainer.learner, trainer.data
        batches = data.epoch("test", 4, learner.steps)
        found.append(evaluate(learner.session, learner.model, batches, data).loss)
    expected, loss = found
    assert {len(batch.x) for batch in batches} > {9} and loss.weight == expected.weight == 7
    assert loss.correct == expected.correct and math.isclose(loss.total, expected.total, rel_tol=1e-6)


def test_a_trained_network_is_evaluated_in_the_buckets_of_its_run(texts, tmp_path):
    last = train(tmp_path, settings(texts, "4,7", epochs=1))
    with etalstm.train.load(tmp_path, checkpoint="last") as model:
        data = etalstm.data.open_data(model.settings)
        assert model.evaluate(data) == {name: last[name] for name in ("loss", "accuracy")}
        assert model.evaluate(data, steps=7)["loss"] == pytest.approx(last["loss"], rel=1e-6)
        assert model.evaluate(data, steps=9)["loss"] != pytest.approx(last["loss"], rel=1e-6), "7 steps are a cut"


def arguments(texts, out, *options):
    sizes = ["--hidden", 4, "--embedding", 4, "--batch", 4, "--iterations", 2, "--evaluation-batches", 1]
    return [*map(str, ["train", "--task", "classify", "--data", texts, *sizes, "--out", out, *options])]


def test_the_buckets_are_printed_once(texts, tmp_path, capsys):
    assert run(arguments(texts, tmp_path, "--buckets", "4,9")) == 0
    (sizes,) = re.findall(r"buckets, by their most steps \(and training sequences\): (.*)", capsys.readouterr().err)
    short, longer = map(int, re.fullmatch(r"4 \((\d+)\), 9 \((\d+)\)", sizes).groups())
    assert short + longer == 56 and 15 <= short <= 27


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--buckets", "8,4"], "buckets must be above 0 and ascend, got '8,4'"),
        (["--buckets", "short,long"], "buckets must be numbers of steps with commas between, auto or none"),
        (["--buckets", "4,9,20"], "bucket 20 is empty: it is for 10 to 20 steps, the training sequences have 2 to 9"),
        (["--buckets", "auto", "--steps", "9"], "steps must not be given, got 9"),
        (["--buckets", "auto", "--batch", "60"], "batch must be at most 56, the sequences in train, got 60"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused_by_its_name(texts, tmp_path, capsys, options, message):
    assert run(arguments(texts, tmp_path / "a", *options)) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "a" / CHECKPOINT).exists()


def test_a_text_has_no_buckets(tmp_path, capsys):
    options = ["train", "--dataset", "pydoc", "--buckets", "auto", "--out", str(tmp_path / "a")]
    assert run(options) == 2
    assert "pydoc are no sequences of lengths of their own: buckets must be none" in capsys.readouterr().err


def test_a_run_does_not_go_on_with_other_buckets(texts, tmp_path, capsys):
    assert run(arguments(texts, tmp_path, "--buckets", "auto")) == 0
    assert run(["train", "--resume", "--out", str(tmp_path), "--iterations", "4", "--buckets", "none"]) == 2
    assert "its buckets is auto, here it is none" in capsys.readouterr().err
    assert run(["train", "--resume", "--out", str(tmp_path), "--iterations", "4"]) == 0


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_run_on_the_machine_leaves_golden_checkpoint(texts, tmp_path, options):
    iterations = 46 if "ms2" in options else 4  # 42 skip no cells
    few = {"iterations": iterations, "evaluation_batches": 3, "device": "sim", "preset": "test"}
    chosen = settings(texts, **(options | few))
    for name in ("golden", "sim"):
        with open_device(name, "test") as device:
            Trainer(chosen, device, tmp_path / name).run()
    golden, sim = ((tmp_path / name / CHECKPOINT).read_bytes() for name in ("golden", "sim"))
    assert golden == sim


def test_a_shorter_batch_takes_fewer_cycles(texts, tmp_path):
    chosen = settings(texts, "3,9", batch=8, iterations=7, evaluation_batches=1, preset="test")
    with open_device("sim", "test") as device:
        Trainer(chosen, device, tmp_path).run()
    entries = [entry for entry in log(tmp_path) if entry["kind"] == "iteration"]
    cycles = sorted(entry["cycles"] for entry in entries)
    assert cycles[0] < 0.6 * cycles[-1] and len({entry["memory"]["reserved"]["weights"] for entry in entries}) == 1
