"""Speech models: loss and error rate, and runs that grow and shrink them."""

import math
from functools import partial

import numpy as np
import pytest
import torch

from etalstm.cli.main import run
from etalstm.data.speech import CLASSES, SpeechBatch, labels_of
from etalstm.device import open_device
from etalstm.research.compress import mask_of, prune
from etalstm.research.compress.changes import Guides
from etalstm.research.compress.network import INPUTS, Sizes
from etalstm.research.compress.task import MaskedSpeechModel, SpeechModel
from etalstm.research.compress_settings import CompressSettings
from tests.data.an4_files import contents, write_an4
from tests.research.compress.runs import check_interrupted, files_of, make_run, rounds_of

SIZES = Sizes(CLASSES, 4, (6, 5))
SMALL = {
    "hidden": 8, "batch": 4, "stack": 2, "epochs": 2, "retrain_epochs": 1, "growth_epochs": 1, "rounds": 2, "seed": 3,
    "tolerance": 900.0, "unit_ratio": 0.3, "profile": "p.json", "guided": "growth",
}  # fmt: skip


@pytest.fixture
def data(tmp_path):
    return write_an4(tmp_path / "data")


@pytest.fixture
def go(make_profile):
    return partial(make_run, Guides(make_profile([2, 4, 6, 8])))


def settings_of(data, **options):
    return CompressSettings.of({"task": "speech", "data": str(data), **SMALL, **options})


def batch_of(*utterances, seed=0):
    """Give a batch of (steps, text), the longest first."""
    random = np.random.default_rng(seed)
    lengths, labels = np.array([steps for steps, _ in utterances]), [labels_of(text) for _, text in utterances]
    x = np.zeros((lengths[0], len(lengths), SIZES.inputs), np.float32)
    for b, steps in enumerate(lengths):
        x[:steps, b] = random.normal(size=(steps, SIZES.inputs))
    return SpeechBatch(x, lengths, np.concatenate(labels), np.array([len(one) for one in labels]))


def model_of(kind=SpeechModel, sizes=SIZES, likely=None):
    """Give a model; with a likely label one that always finds this, with 0 one whose labels are all as likely."""
    torch.manual_seed(5)
    model = kind(sizes)
    if likely is not None:
        with torch.no_grad():
            model.output.weight.zero_()
            model.output.bias.zero_()
            model.output.bias[likely] = 9.0 * (likely > 0)
    return model.eval()


def test_the_loss_adds_all_paths_of_a_text():
    """In two steps A is A A, A blank, or blank A; in three steps AA is A blank A alone."""
    model, steps = model_of(likely=0), math.log(CLASSES)
    one = model.loss(batch_of((2, "A")), [])[0].item()
    other = model.loss(batch_of((3, "AA")), [])[0].item()
    assert one == pytest.approx(2 * steps - math.log(3)) and other == pytest.approx(3 * steps / 2)
    both = model.loss(batch_of((3, "AA"), (2, "A")), [])[0].item()
    assert both == pytest.approx((one + other) / 2), "each by its characters, then the mean"


def test_what_fills_a_batch_changes_nothing():
    model, pair = model_of(), batch_of((7, "AB"), (4, "B"))
    alone = SpeechBatch(pair.x[:4, 1:], pair.lengths[1:], pair.labels[2:], pair.label_lengths[1:])
    pair.x[4:, 1] = 99.0
    first = SpeechBatch(pair.x[:, :1], pair.lengths[:1], pair.labels[:2], pair.label_lengths[:1])
    losses = [model.loss(batch, [])[0].item() for batch in (first, alone, pair)]
    assert losses[2] == pytest.approx((losses[0] + losses[1]) / 2)


def test_the_error_rate_is_of_all_characters_in_percent():
    model = model_of(likely=2)  # A, at every step
    batches = [batch_of((9, "AB"), (5, "BC")), batch_of((4, "A"))]
    with torch.no_grad():
        assert [one.tolist() for one in model.recognised(batches[0])] == [[2], [2]]
        assert model.score(batches) == pytest.approx(100 * (1 + 2 + 0) / 5)


def test_features_are_no_dimension_and_a_compact_model_finds_the_same():
    model, batch = model_of(MaskedSpeechModel), batch_of((9, "AB"), (5, "B"))
    assert [one.name for one in model.dimensions] == ["units_0", "units_1"] and INPUTS not in model.sizes.units
    for dimension, count in zip(model.dimensions, (4, 3), strict=True):
        prune(dimension, count)
    small = model.compact()
    assert model.sizes == Sizes(CLASSES, 4, (4, 3)) and small.layers[0].input_size == 4
    with torch.no_grad():
        losses = [one.loss(batch, [])[0].item() for one in (model, small)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_units_of_two_directions_stay():
    model = MaskedSpeechModel(Sizes(CLASSES, 4, (6, 5), directions=2))
    assert not model.dimensions and len(model.matrices()) == 8 and model.sizes.layer_inputs == (4, 12)
    mask_of(model.layers[0], "weight_hh_l0_reverse").set(rows=torch.arange(24) % 3 > 0)
    small, batch = model.compact(), batch_of((9, "AB"), (5, "B"))
    assert not (small.layers[0].weight_hh_l0_reverse[::3]).any()
    with torch.no_grad():
        assert model.loss(batch, [])[0] == small.loss(batch, [])[0]
    with pytest.raises(ValueError, match="directions must be 1 or 2, got 3"):
        Sizes(CLASSES, 4, (6,), directions=3)


def test_all_steps_together(data, tmp_path, go):
    last = go(settings_of(data), tmp_path / "run")
    rounds = rounds_of(tmp_path / "run")
    phases = ["dense", "grow-weights", "prune-units", "prune-units", "grow-units", "prune-weights", "prune-weights"]
    assert [one["phase"] for one in rounds] == phases
    assert all(one["decision"] == "accepted" and one["inputs"] == 26 for one in rounds)
    assert [one["units"] for one in rounds][1:5] == [[8, 8], [6, 6], [5, 5], [6, 6]]
    assert last["fold"] > 2 and last["character_error_rate"] == last["loss"] == rounds[-1]["test_character_error_rate"]
    assert rounds[0]["limit"] == rounds[0]["character_error_rate"] + 900


def test_two_directions_lose_weights_only(data, tmp_path, go):
    phases = ("grow-weights", "prune-weights")
    last = go(settings_of(data, phases=phases, bidirectional=True), tmp_path / "run")
    dense = rounds_of(tmp_path / "run")[0]["lstm_parameters"]
    assert dense == 2 * 32 * (26 + 8 + 2) + 2 * 32 * (16 + 8 + 2) and last["fold"] > 2


def test_a_run_that_goes_on_has_the_bits_of_one_that_was_not_interrupted(data, tmp_path, go):
    settings = settings_of(data, dropout=0.2, rounds=1)
    check_interrupted(go, settings, tmp_path, [3, 6, 11, 18])


def test_golden_and_the_simulated_machine_leave_the_same_bits(tmp_path, go):
    data = write_an4(tmp_path / "data", contents(rounds=1))
    options = {"hidden": 4, "layers": 1, "epochs": 1, "growth_epochs": 0, "rounds": 1, "batch": 8, "stack": 3}
    settings = settings_of(data, phases=("prune-units", "prune-weights"), **options)
    golden = go(settings, tmp_path / "golden")
    with open_device("sim", "test") as device:
        assert go(settings, tmp_path / "sim", device) == golden
    assert files_of(tmp_path / "golden") == files_of(tmp_path / "sim")


@pytest.fixture
def begin(data, tmp_path):
    small = ["--hidden", "6", "--batch", "4", "--stack", "2", "--epochs", "1", "--retrain", "1", "--preset", "test"]
    given = ["research", "compress", "--task", "speech", "--data", str(data), *small, "--out", str(tmp_path / "run")]
    return lambda *options: run([*given, *options])


def test_the_command_prints_what_each_round_gave(begin, capsys):
    assert begin("--phases", "prune-units,prune-weights", "--rounds", "1", "--tolerance", "900") == 0
    shown = capsys.readouterr()
    assert "26/6/6" in shown.out and "test character error rate" in shown.out and "accepted" in shown.out
    assert "character_error_rate" in shown.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--grow-to", "4", "--steps", "9"], "--steps is only used with --task language"),
        (["--grow-to", "4", "--task", "language"], "--stack is only used with --task speech"),
        (
            ["--bidirectional", "--phases", "prune-units"],
            "prune-units needs layers of one direction, got bidirectional",
        ),
        (["--grow-to", "4", "--stack", "9"], "steps of 9 frames are too few for"),
        (["--grow-to", "4", "--task", "text"], "task must be language or speech, got 'text'"),
        (["--phases", "prune-weights", "--batch", "17"], "batch must be at most 16, the utterances in train, got 17"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, message, begin, capsys):
    assert begin(*options) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
