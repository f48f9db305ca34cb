"""Training does not depend on the device."""

import pytest

from etalstm.cli import run


@pytest.mark.parametrize("options", [[], ["--theta", "0.05", "--ms2", "0.3"]], ids=["dense", "reduced"])
def test_a_run_on_the_machine_leaves_golden_checkpoint(tmp_path, options):
    for device in ("golden", "sim"):
        arguments = ["train", "--dataset", "digits", "--device", device, "--preset", "test", "--hidden", "5"]
        arguments += ["--batch", "8", "--iterations", "3", "--evaluation-batches", "1", "--out", str(tmp_path / device)]
        assert run([*arguments, *options]) == 0
    golden, sim = ((tmp_path / device / "checkpoint.safetensors").read_bytes() for device in ("golden", "sim"))
    assert golden == sim
