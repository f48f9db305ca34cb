"""Training runs whose passes read weights as bfloat16."""

from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from etalstm.cli.main import run
from etalstm.data import open_data
from etalstm.train.checkpoint import Checkpoint
from etalstm.train.folder import CHECKPOINT, RunFolder
from etalstm.train.settings import Settings
from etalstm.train.trained import load
from tests.runs import DIGITS, changed, log, train

REDUCED = ["--theta", "0.05", "--ms2", "0.3", "--slices", "2"]


@pytest.mark.parametrize("options", [[], REDUCED, ["--optimizer", "adam"]], ids=["dense", "reduced", "adam"])
def test_a_run_on_the_machine_leaves_golden_checkpoint(tmp_path, options):
    for device in ("golden", "sim"):
        arguments = ["train", "--dataset", "digits", "--device", device, "--preset", "test", "--hidden", "9"]
        arguments += ["--batch", "8", "--iterations", "3", "--evaluation-batches", "1", "--weight-format", "bf16"]
        assert run([*arguments, "--out", str(tmp_path / device), *options]) == 0
    golden, sim = ((tmp_path / device / CHECKPOINT).read_bytes() for device in ("golden", "sim"))
    assert golden == sim


def test_the_weights_of_a_checkpoint_are_float32(tmp_path):
    train(tmp_path, changed(DIGITS, iterations=3, weight_format="bf16"))
    weights = load_file(tmp_path / CHECKPOINT)["lstm.0.weights"]
    assert (weights.view(np.uint32) & 0xFFFF).any()
    assert Checkpoint.read(tmp_path / CHECKPOINT).description.run.weight_format == "bf16"


@pytest.mark.parametrize("formats", [("float32", "bf16"), ("bf16", "float32")], ids=str)
def test_a_run_goes_on_with_the_other_weight_format_and_says_so(tmp_path, formats):
    """Within an epoch, too: the first of the new iterations begins with the old run's weights."""
    before, after = formats
    train(tmp_path, changed(DIGITS, iterations=3, weight_format=before))
    saved = load_file(tmp_path / CHECKPOINT)
    said = []
    train(
        tmp_path, changed(DIGITS, iterations=4, learning_rate=1e-30, momentum=0, weight_format=after), True, said.append
    )
    assert said[0]["kind"] == "resumed" and said[0]["changed"]["weight_format"] == [before, after]
    formats_of_log = [entry["weight_format"] for entry in log(tmp_path) if entry["kind"] == "iteration"]
    assert formats_of_log == [before] * 3 + [after]
    np.testing.assert_array_equal(load_file(tmp_path / CHECKPOINT)["lstm.0.weights"], saved["lstm.0.weights"])


def test_a_trained_network_is_evaluated_with_the_weights_that_its_run_has_read(tmp_path):
    last = train(tmp_path, changed(DIGITS, iterations=30, weight_format="bf16"))
    settings = RunFolder(tmp_path).read_settings()
    for weight_format, agrees in (("bf16", True), ("float32", False)):
        RunFolder(tmp_path).write_settings(replace(settings, weight_format=weight_format))
        with load(tmp_path, checkpoint="last") as model:
            assert (model.evaluate(open_data(settings))["loss"] == last["loss"]) == agrees, weight_format


def test_refuses_another_weight_format():
    with pytest.raises(ValueError, match="weight_format must be one of float32, bf16, got 'half'"):
        Settings("digits", weight_format="half")
