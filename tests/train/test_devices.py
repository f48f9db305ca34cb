"""Training does not depend on the device."""

import json
import re

import pytest

from etalstm.cli.main import run
from etalstm.device import open_device
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings

TRUNCATED = ["--theta", "0.05", "--ms2-steps", "3", "--ms2-full-epochs", "0"]


@pytest.mark.parametrize(
    "options", [[], ["--theta", "0.05", "--ms2", "0.3"], TRUNCATED], ids=["dense", "reduced", "truncated"]
)
def test_a_run_on_the_machine_leaves_golden_checkpoint(tmp_path, options):
    for device in ("golden", "sim"):
        arguments = ["train", "--dataset", "digits", "--device", device, "--preset", "test", "--hidden", "5"]
        arguments += ["--batch", "8", "--iterations", "3", "--evaluation-batches", "1", "--out", str(tmp_path / device)]
        assert run([*arguments, *options]) == 0
    golden, sim = ((tmp_path / device / "checkpoint.safetensors").read_bytes() for device in ("golden", "sim"))
    assert golden == sim


OWN = {
    "language": ("t.txt", "the cat saw the dog and the dog saw the cat. " * 20, ["--steps", "6"]),
    "classify": ("r.csv", "".join(f"{'fine ' * (n % 4 + 1)}{n % 3},{n % 3}\n" for n in range(60)), []),
    "tag": ("t.tsv", "".join(f"the\tD\ndog\tN\n{'!' * (n % 2)}\n".replace("!", "!\tP\n") for n in range(60)), []),
    "regress": ("r.csv", "".join(f"{'fine ' * (n % 4 + 1)},{n % 4}\n" for n in range(60)), []),
}


@pytest.mark.parametrize("task", OWN)
def test_own_files_are_learnt_alike_on_every_device(tmp_path, task):
    name, content, options = OWN[task]
    (tmp_path / name).write_text(content)
    columns = ["--text", "1", "--label", "2"] if task in ("classify", "regress") else []
    tied = ["--tied"] if task == "language" else []
    for device in ("golden", "sim"):
        arguments = ["train", "--data", str(tmp_path / name), "--task", task, "--device", device, "--preset", "test"]
        arguments += ["--hidden", "5", "--embedding", "5", "--batch", "4", "--iterations", "3", "--warmup", "2"]
        arguments += ["--evaluation-batches", "1", "--out", str(tmp_path / device), *options, *columns, *tied]
        assert run(arguments) == 0
    golden, sim = ((tmp_path / device / "checkpoint.safetensors").read_bytes() for device in ("golden", "sim"))
    assert golden == sim


def test_an_evaluation_keeps_nothing_for_a_backward_pass(tmp_path):
    """Its forward pass writes the states of the cells, and none of what an iteration's forward pass keeps besides."""
    settings = Settings("digits", hidden=9, batch=8, iterations=1, evaluation_batches=1, storage="ms1")
    with open_device("sim", "test") as device:
        trainer = Trainer(settings, device, tmp_path)
        written = []
        counters = trainer.learner.session.counters
        trainer.learner.session.counters = lambda: (
            written.append(counters()["write_bytes"]["intermediates"]) or counters()
        )
        trainer.run()
    steps, batch, hidden = 8, 8, 9
    training, evaluation = written
    states = evaluation / (4 * steps * batch)
    assert hidden <= states < 3 * hidden and training > 3 * evaluation, f"{training} and {evaluation} bytes"


@pytest.mark.parametrize("option", ["--memory-budget", "--offload"])
def test_intermediates_on_the_host_leave_golden_checkpoint(tmp_path, capsys, option):
    common = ["train", "--dataset", "digits", "--preset", "test", "--hidden", "19", "--batch", "8", "--iterations", "2"]
    common += ["--evaluation-batches", "1", "--storage", "ms1"]
    value = [str(least_memory(capsys))] if option == "--memory-budget" else []
    for device, options in (("golden", []), ("sim", [option, *value])):
        assert run([*common, "--device", device, "--out", str(tmp_path / device), *options]) == 0
    golden, sim = ((tmp_path / device / "checkpoint.safetensors").read_bytes() for device in ("golden", "sim"))
    assert golden == sim
    entry = json.loads((tmp_path / "sim" / "metrics.jsonl").read_text().splitlines()[0])
    assert (entry["memory"]["segments"] > 2) == (option == "--memory-budget")
    assert entry["memory"]["host"]["written"]["intermediates"] > 0 and entry["bytes"]["read"]["intermediates"] > 0


def least_memory(capsys):
    """What the run needs in as many segments as it takes, should nothing be dropped."""
    run(["plan", "--preset", "test", "--hidden", "19", "--batch", "8", "--storage", "ms1", "--memory-budget", "1"])
    return int(re.search(r"needs at least ([\d,]+)", capsys.readouterr().err)[1].replace(",", ""))
