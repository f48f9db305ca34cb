"""The simulated card, as a user opens it."""

import json

import pytest

from etalstm.cli.main import run
from etalstm.device import open_device
from etalstm_hw import contract
from etalstm_hw.config import preset
from etalstm_hw.contract import Opcode, Register
from etalstm_hw.contract.image import image_of
from etalstm_sim.nodes import SimulatedNodes


def test_trains_over_the_host_path_with_golden_bits(capsys):
    arguments = [
        "verify",
        "compare",
        "--devices",
        "golden,xdma:sim",
        "--preset",
        "test",
        "--layers",
        "2",
        "--iterations",
        "2",
    ]
    assert run([*arguments, "--storage", "ms1", "--theta", "0.1", "--stall", "0.5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mismatched_words"] == 0 and found["words"] > 5000


def test_a_training_run_leaves_golden_checkpoint(tmp_path):
    for device in ("golden", "xdma:sim"):
        arguments = ["train", "--dataset", "digits", "--device", device, "--preset", "test", "--hidden", "5"]
        arguments += ["--batch", "8", "--iterations", "3", "--evaluation-batches", "1", "--out", str(tmp_path / device)]
        assert run(arguments) == 0
    golden, card = ((tmp_path / name / "checkpoint.safetensors").read_bytes() for name in ("golden", "xdma:sim"))
    assert golden == card


def test_an_interrupt_is_one_event():
    nodes = SimulatedNodes(preset("test"))
    user, events = nodes.open("xdma0_user"), nodes.open("xdma0_events_0")
    assert not events.poll(0)
    nodes.machine.simulation.memory[:32] = list(image_of([contract.encode(Opcode.HALT)]))
    for _ in range(2):
        user.store(Register.PROGRAM_LENGTH, 1)
        user.store(Register.CONTROL, contract.CONTROL_START)
        assert events.poll(10) and not events.poll(0)
    nodes.machine.close()


def test_there_is_one_card_with_the_nodes_asked_for():
    nodes = SimulatedNodes(preset("test"), channels=1)
    assert nodes.cards() == {0: ["c2h_0", "events_0", "h2c_0", "user"]}
    with pytest.raises(FileNotFoundError):
        nodes.open("xdma0_h2c_1")
    nodes.machine.close()


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="channels must be 1 to 4, got 9"):
        open_device("xdma:sim", "test", channels=9)


@pytest.mark.parametrize("name", ["xdma", "xdma:", "xdma:-1", "xdma:x", "xdma:12345"])
def test_names_that_are_no_device_are_refused(name):
    with pytest.raises(ValueError, match=f"unknown device '{name}'; there are: golden, sim, xdma:N, xdma:sim"):
        open_device(name)
