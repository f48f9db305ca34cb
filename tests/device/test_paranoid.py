"""A device whose memory lies is found out by golden."""

import json

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.device import GoldenDevice, ParanoidDevice, TrainingShape, open_device
from etalstm.errors import MismatchError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings

SHAPE = TrainingShape(NetworkShape(3, 5, 2), 2, 4, Execution(storage=Storage("ms1", 0.05)))
DRAW = np.random.default_rng(3)
X, DY = DRAW.standard_normal(SHAPE.x_shape, np.float32), DRAW.standard_normal(SHAPE.y_shape, np.float32)


class Other(GoldenDevice):
    """Golden under another name: whatever differs was put there by a test."""

    def __init__(self):
        super().__init__("test")
        self.name = "other"


@pytest.fixture
def session():
    def make(every):
        made = ParanoidDevice(Other(), every).create(SHAPE)
        made.load(initial_parameters(SHAPE.network, 0))
        return made

    return make


def iterate(session):
    session.forward(X)
    session.backward(DY)
    session.update(0.1, 0.9, 1.0)


def spoil(array):
    """Turn over the last bit of the last element."""
    array.reshape(-1).view(np.uint32)[-1] ^= 1


def test_has_the_bits_of_the_device(session):
    checked, plain = session(2), GoldenDevice("test").create(SHAPE)
    plain.load(initial_parameters(SHAPE.network, 0))
    for _ in range(3):
        iterate(checked)
        iterate(plain)
    for ours, theirs in zip(checked.parameters(), plain.parameters(), strict=True):
        assert ours.weights.tobytes() == theirs.weights.tobytes()
    assert (checked.iterations, checked.agreed) == (3, 3)


def test_finds_a_weight_that_changes_between_two_iterations(session):
    checked = session(1)
    iterate(checked)
    iterate(checked)
    spoil(checked._session._layers[1].weights)
    checked._session._take(checked._session._layers)
    checked.forward(X)
    with pytest.raises(MismatchError, match=r"iteration 3 .*: y at \[.*\] is 0x.*, golden's 0x.*; .*, 2, had") as found:
        checked.backward(DY)
    assert (found.value.iteration, found.value.agreed) == (3, 2)


@pytest.mark.parametrize(
    ("hook", "what"),
    [("_dx", "dx"), ("_initial_state_gradients", "dh0"), ("_gradients", "gradient of weights, layer 0")],
)
def test_finds_a_wrong_gradient(session, hook, what):
    checked = session(1)
    right = getattr(checked._session, hook)

    def wrong():
        found = right()
        array = np.array(found if hook == "_dx" else found[0] if hook != "_gradients" else found[0].weights)
        spoil(array)
        return array if hook == "_dx" else (array, found[1]) if hook != "_gradients" else [Spoilt(array, found[0].bias)]

    setattr(checked._session, hook, wrong)
    checked.forward(X)
    with pytest.raises(MismatchError, match=f": {what} at .* 1 of .*; none before was compared"):
        checked.backward(DY)


class Spoilt:
    """Gradients of a layer."""

    def __init__(self, weights, bias):
        self.weights, self.bias = weights, bias


@pytest.mark.parametrize("kind", ["updated", "velocity of"])
def test_finds_a_wrong_update(session, kind):
    checked = session(1)
    update = checked._session._update

    def wrong(rule):
        update(rule)
        spoil((checked._session._layers if kind == "updated" else checked._session._speeds)[0].bias)

    checked._session._update = wrong
    checked.forward(X)
    checked.backward(DY)
    with pytest.raises(MismatchError, match=f"{kind} bias, layer 0 at .* 1 of 20 words differ; none before"):
        checked.update(0.1)


def test_looks_only_where_it_should(session):
    checked = session(4)
    numbers = []
    compare = checked._check_passes
    checked._check_passes = lambda *arguments: numbers.append(checked.iterations) or compare(*arguments)
    for number in range(1, 10):
        if number == 7:
            checked.check_next()
        iterate(checked)
    assert numbers == [1, 5, 7, 9]


def test_a_run_on_a_machine_whose_memory_lies_keeps_the_last_good_checkpoint(tmp_path):
    settings = Settings("digits", preset="test", hidden=5, batch=8, iterations=4, evaluation_batches=1, seed=1,
                        checkpoint_every=2, paranoid=100)  # fmt: skip
    with open_device("sim", "test") as device:
        trainer = Trainer(settings, device, tmp_path / "run")
        inner = trainer.learner.session._session
        forward = inner._forward

        def lying(*arguments):
            outputs = forward(*arguments)
            if trainer.learner.iteration == 3:
                spoil(outputs.c)
            return outputs

        inner._forward = lying
        with pytest.raises(MismatchError, match=r"iteration 4 since the start .*: c at .*; .*, 2, had"):
            trainer.run()
    places = [json.loads(line)["iteration"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert places == [1, 2, 3]
    whole = ["--dataset", "digits", "--preset", "test", "--hidden", "5", "--batch", "8", "--iterations", "4"]
    whole += ["--evaluation-batches", "1", "--seed", "1", "--checkpoint-every", "2"]
    outs = {"run": ["--resume"], "undisturbed": whole}
    for out, options in outs.items():
        assert run(["train", "--device", "sim", *options, "--out", str(tmp_path / out)]) == 0
    resumed, undisturbed = ((tmp_path / out / "checkpoint.safetensors").read_bytes() for out in outs)
    assert resumed == undisturbed


@pytest.mark.parametrize("options", [[], ["--optimizer", "adam"], ["--dropout", "0.2", "--layers", "2"], ["--offload"]])
def test_a_paranoid_run_leaves_the_checkpoint_of_any_other(tmp_path, options):
    arguments = ["train", "--dataset", "digits", "--device", "sim", "--preset", "test", "--hidden", "5", *options]
    arguments += ["--batch", "8", "--iterations", "3", "--evaluation-batches", "1", "--theta", "0.05"]
    for out, more in (("plain", []), ("paranoid", ["--paranoid", "2"])):
        assert run([*arguments, *more, "--out", str(tmp_path / out)]) == 0
    plain, paranoid = ((tmp_path / out / "checkpoint.safetensors").read_bytes() for out in ("plain", "paranoid"))
    assert plain == paranoid


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "golden", "--paranoid", "2"], "device must be another one, got golden"),
        (["--device", "sim", "--paranoid", "0"], "paranoid must be above 0, got 0"),
        (["--device", "sim", "--paranoid", "2", "--pipeline", "2", "--layers", "2"], "must be off with a pipeline"),
    ],
)
def test_refuses(tmp_path, capsys, options, message):
    arguments = ["train", "--dataset", "digits", "--preset", "test", "--out", str(tmp_path / "run"), *options]
    assert run(arguments) == 2
    assert message in capsys.readouterr().err
