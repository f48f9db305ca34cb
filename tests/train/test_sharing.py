"""Training runs in which equal tokens share what they add to the gates' sums."""

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.data import Batches
from etalstm.device import TrainingShape
from etalstm.device.machine.hardware import HardwareDevice
from etalstm.network.shape import NetworkShape
from etalstm.train.folder import CHECKPOINT
from etalstm.train.learner import choose_sharing
from etalstm.train.settings import Settings
from etalstm_hw.config import preset
from tests.plan.machine import InterpretedAccelerator
from tests.runs import DIGITS, log, train

WORDS = ["the", "cat", "and", "a", "dog", "saw", "what", "he", "had", "seen", "of", "it"]


@pytest.fixture
def texts(tmp_path):
    """Sentences of unequal lengths."""
    generator = np.random.default_rng(0)
    rows = [(" ".join(generator.choice(WORDS, 2 + n % 5)), n % 2) for n in range(60)]
    (tmp_path / "t.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    return tmp_path / "t.csv"


def learn(texts, out, *options):
    arguments = ["train", "--data", str(texts), "--task", "classify", "--preset", "test", "--hidden", "5", "--layers"]
    arguments += ["2", "--embedding", "5", "--batch", "4", "--iterations", "3", "--evaluation-batches", "1"]
    assert run([*arguments, "--out", str(out), *options]) == 0
    return (out / CHECKPOINT).read_bytes()


@pytest.mark.parametrize("options", [["--theta", "0.05", "--ms2", "0.3"], ["--dropout", "0.3"]], ids=["one", "layered"])
def test_a_run_that_shares_leaves_the_checkpoint_of_one_that_does_not(tmp_path, texts, options):
    plain = learn(texts, tmp_path / "plain", *options)
    for device in ("golden", "sim"):
        assert learn(texts, tmp_path / device, *options, "--device", device, "--shared-tokens", "8") == plain, device


def test_a_run_goes_on_with_other_shared_tokens_and_says_so(tmp_path, texts, capsys):
    whole = learn(texts, tmp_path / "whole")
    learn(texts, tmp_path / "a", "--iterations", "1", "--shared-tokens", "auto")
    room = log(tmp_path / "a")[0]["shared_tokens"]
    assert 0 < room <= len(WORDS) + 1
    assert f"shared tokens: {room} of a batch" in capsys.readouterr().err
    arguments = ["--resume", "--out", str(tmp_path / "a"), "--iterations", "3", "--shared-tokens", "off"]
    assert run(["train", *arguments]) == 0
    assert (tmp_path / "a" / CHECKPOINT).read_bytes() == whole
    resumed = next(entry for entry in log(tmp_path / "a") if entry["kind"] == "resumed")
    assert resumed["changed"]["shared_tokens"] == ["auto", "off"]


@pytest.mark.parametrize("options", [["--input-threshold", "0.1"], ["--input-target", "0.5"]], ids=" ".join)
def test_changes_of_x_are_not_shared(tmp_path, texts, capsys, options):
    learn(texts, tmp_path / "a", *options, "--shared-tokens", "auto")
    assert "shared tokens: off, as delta inputs send changes of x" in capsys.readouterr().err
    arguments = ["train", "--data", str(texts), "--task", "classify", "--out", str(tmp_path / "b"), *options]
    assert run([*arguments, "--shared-tokens", "3"]) == 2
    assert "shared_tokens must be off, got 3" in capsys.readouterr().err


def test_vectors_are_not_shared(tmp_path):
    with pytest.raises(ValueError, match="inputs of digits are vectors, not tokens: shared_tokens must be off, got 3"):
        train(tmp_path, Settings(DIGITS.dataset, shared_tokens=3))


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "many"], ids=repr)
def test_refuses_what_is_no_number_of_tokens(value):
    with pytest.raises(ValueError, match="shared_tokens must be"):
        Settings("trec", shared_tokens=value)


@pytest.mark.parametrize(("tokens", "reason"), [(3, "3 of a batch"), (500, "off, as it does not pay")])
def test_a_device_shares_where_that_pays(tokens, reason):
    x = np.arange(32 * 16).reshape(32, 16) % tokens
    data = Batches(*[[(x, np.zeros(32, int))]] * 3, "classify", 2, 16, tokens=tokens)
    shape = TrainingShape(NetworkShape(64, 64), 32, 16)
    device = HardwareDevice("interpreter", "sim", InterpretedAccelerator(preset("sim")))
    assert choose_sharing(Settings(shared_tokens="auto"), data, device, shape).reason == f"shared tokens: {reason}"
