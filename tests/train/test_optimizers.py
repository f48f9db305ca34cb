"""Adam and AdamW follow their papers, resume with the same bits, and do not depend on the device."""

import json

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.device import open_device
from etalstm.errors import DivergedError
from etalstm.train.folder import CHECKPOINT, METRICS
from etalstm.train.loop import Trainer
from etalstm.train.model import OutputPass
from etalstm.train.settings import Settings

BOUND = 1e-3  # of four float32 steps against float64 ones, over the size of a step


def adam64(optimizer, values, gradients, rate, decay):
    """Take steps in float64, as the papers have it."""
    first = second = np.zeros_like(values)
    for n, gradient in enumerate(gradients, 1):
        gradient = gradient if optimizer == "adamw" else gradient + decay * values
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        step = rate * (first / (1 - 0.9**n)) / (np.sqrt(second / (1 - 0.999**n)) + 1e-8)
        values = values - step - (rate * decay * values if optimizer == "adamw" else 0)
    return values


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_every_parameter_takes_the_steps_of_the_paper(tmp_path, optimizer):
    rate, decay, count = 0.01, 0.1, 4
    settings = Settings("digits", hidden=5, layers=2, batch=32, optimizer=optimizer, weight_decay=decay, clip=0.0)
    learner = Trainer(settings, open_device("golden"), tmp_path).learner
    batches = learner.data.epoch("train", 32, 8, np.random.default_rng(0))[:count]

    def parameters():
        layers = enumerate(learner.session.parameters())
        found = {f"{n} {name}": getattr(layer, name) for n, layer in layers for name in ("weights", "bias")}
        return {name: array.astype(np.float64) for name, array in (found | learner.model.parameters).items()}

    before, gradients = parameters(), []
    session, model = learner.session, learner.model
    for batch in batches:
        # The gradients that the iteration will find again.
        output_pass = OutputPass(model, batch, 1, 1)
        session.forward_backward(model.inputs(batch.x), output_pass.run, h0=learner.h, c0=learner.c)
        output_pass.end()
        layers = enumerate(session.gradients())
        found = {f"{n} {name}": getattr(layer, name) for n, layer in layers for name in ("weights", "bias")}
        gradients.append({name: array.astype(np.float64) for name, array in (found | model.gradients).items()})
        learner.iterate(batch, rate)
    for name, after in parameters().items():
        each = [entry[name] for entry in gradients]
        expected = adam64(optimizer, before[name], each, rate, 0.0 if name.endswith("bias") else decay)
        assert np.abs(after - expected).max() < BOUND * rate, name


def test_divergence_is_found_before_any_change(tmp_path):
    learner = Trainer(Settings("digits", hidden=4, optimizer="adam"), open_device("golden"), tmp_path).learner
    batch = learner.data.epoch("train", 32, 8, np.random.default_rng(0))[0]
    before = learner.session.parameters()[0].weights
    learner.session._norm_terms = lambda: ([np.array([np.inf], np.float32)], [])
    with pytest.raises(DivergedError):
        learner.iterate(batch, 0.1)
    assert np.array_equal(learner.session.parameters()[0].weights, before)


@pytest.mark.parametrize("optimizer", ["adam", "adamw"])
def test_a_resumed_run_has_the_bits_of_a_whole_one(tmp_path, optimizer):
    common = ["train", "--dataset", "digits", "--hidden", "6", "--layers", "2", "--optimizer", optimizer,
              "--schedule", "plateau", "--decay", "0.5", "--warmup", "5", "--weight-decay", "0.01", "--batch", "256",
              "--patience", "0"]  # fmt: skip
    assert run([*common, "--epochs", "2", "--out", str(tmp_path / "parts")]) == 0
    assert run(["train", "--resume", "--epochs", "6", "--out", str(tmp_path / "parts")]) == 0
    assert run([*common, "--epochs", "6", "--out", str(tmp_path / "whole")]) == 0
    assert (tmp_path / "parts" / CHECKPOINT).read_bytes() == (tmp_path / "whole" / CHECKPOINT).read_bytes()


def test_adam_learns_digits_with_its_default_rate(tmp_path):
    last = Trainer(Settings("digits", optimizer="adam", epochs=8), open_device("golden"), tmp_path).run()
    assert last["accuracy"] >= 0.85


def test_the_machine_gives_adam_the_bits_of_golden(tmp_path):
    for device in ("golden", "sim"):
        arguments = ["train", "--dataset", "digits", "--device", device, "--preset", "test", "--hidden", "5"]
        arguments += ["--batch", "8", "--iterations", "3", "--evaluation-batches", "1", "--optimizer", "adamw"]
        arguments += ["--weight-decay", "0.01", "--schedule", "cosine", "--out", str(tmp_path / device)]
        assert run(arguments) == 0
    golden, sim = ((tmp_path / device / CHECKPOINT).read_bytes() for device in ("golden", "sim"))
    assert golden == sim
    rates = [json.loads(line).get("learning_rate") for line in (tmp_path / "sim" / METRICS).read_text().splitlines()]
    assert rates[0] == 0.002 > rates[1] > rates[2] == 0.0
