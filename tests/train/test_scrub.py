"""A run on a device whose memory changes ends at the next scrub, and goes on with the bits of an undisturbed run."""

import json

import numpy as np
import pytest

from etalstm.cli.main import run
from etalstm.device import open_device
from etalstm.errors import DamagedMemoryError
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings

SIZES = ["--dataset", "digits", "--preset", "test", "--hidden", "5", "--batch", "8", "--evaluation-batches", "1"]


def settings_of(**more):
    return Settings("digits", preset="test", hidden=5, batch=8, evaluation_batches=1, **more)


def checkpoint_of(folder):
    return (folder / "checkpoint.safetensors").read_bytes()


def trained(folder, *options):
    assert run(["train", *options, "--out", str(folder)]) == 0
    return checkpoint_of(folder)


def spoil(device, session, name):
    """Turn over a bit of an array's first element."""
    array = session.plan.map.memory.arrays[name]
    channel, vector, lane = map(int, np.argwhere(array.elements >= 0)[0])
    start = session.placement.window(channel).start + (array.first + vector) * session.plan.map.memory.vector_bytes
    device.accelerator.transport.simulation.memory[start + 4 * lane] ^= 1


@pytest.mark.parametrize("name", ["rows0", "velocity0", "x0"])
def test_a_run_whose_memory_changes_keeps_the_last_good_checkpoint(tmp_path, name):
    settings = settings_of(iterations=4, checkpoint_every=2, seed=1, scrub=4)
    with open_device("sim", "test") as device:
        trainer = Trainer(settings, device, tmp_path / "run")
        session = trainer.learner.session
        backward = session.backward

        def spoiling(*arguments, **options):
            back = backward(*arguments, **options)
            if trainer.learner.iteration == 3:
                spoil(device, session, name)
            return back

        session.backward = spoiling
        with pytest.raises(DamagedMemoryError, match="layer 0: "):
            trainer.run()
    places = [json.loads(line)["iteration"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert places == [1, 2, 3]
    whole = [*SIZES, "--device", "sim", "--iterations", "4", "--seed", "1", "--checkpoint-every", "2"]
    assert trained(tmp_path / "run", "--resume", "--device", "sim") == trained(tmp_path / "undisturbed", *whole)


def test_scrubs_before_an_update_after_the_one_before_and_before_checkpoints(tmp_path):
    with open_device("sim", "test") as device:
        trainer = Trainer(settings_of(iterations=7, checkpoint_every=4, scrub=3), device, tmp_path / "run")
        session, calls = trainer.learner.session, []
        for name in ("scrub", "update"):
            work = getattr(session, name)
            setattr(session, name, lambda *given, n=name, do=work, **named: (calls.append(n), do(*given, **named)))
        trainer.run()
    # 1 to 3, with a scrub after 2 and before 3; 4, a checkpoint; 5, 6 like 2, 3; 7, a checkpoint
    assert "".join(name[0] for name in calls) == "uussuusussuus"


@pytest.mark.parametrize(
    "options",
    [[], ["--optimizer", "adam"], ["--dropout", "0.2", "--layers", "2"], ["--offload"], ["--paranoid", "2"]],
)
def test_a_scrubbed_run_leaves_the_checkpoint_of_any_other(tmp_path, options):
    arguments = [*SIZES, "--device", "sim", "--iterations", "3", "--theta", "0.05", *options]
    assert trained(tmp_path / "scrubbed", *arguments, "--scrub", "1") == trained(tmp_path / "plain", *arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "golden", "--scrub", "2"], "device must be another one, got golden"),
        (["--device", "sim", "--scrub", "0"], "scrub must be above 0, got 0"),
    ],
)
def test_refuses(tmp_path, capsys, options, message):
    assert run(["train", *SIZES, "--out", str(tmp_path / "run"), *options]) == 2
    assert message in capsys.readouterr().err
