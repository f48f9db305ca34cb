"""Training runs of a network whose cell is no LSTM."""

import pytest

from etalstm.cli.main import run
from etalstm.data import open_data
from etalstm.device import open_device
from etalstm.errors import CheckpointError
from etalstm.network.cells import CELLS
from etalstm.train.folder import CHECKPOINT
from etalstm.train.learner import Learner
from etalstm.train.settings import Settings
from etalstm.train.trained import load
from tests.network.cells.two_stages import TWO_STAGES
from tests.runs import DIGITS, PYDOC, changed, done, train

HLSTM = changed(DIGITS, cell="hlstm", iterations=6)


@pytest.mark.parametrize("options", [[], ["--theta", "0.05", "--optimizer", "adam"]], ids=["dense sgd", "ms1 adam"])
def test_a_run_on_the_machine_leaves_goldens_checkpoint(tmp_path, options):
    for device in ("golden", "sim"):
        arguments = ["train", "--dataset", "digits", "--device", device, "--preset", "test", "--hidden", "9"]
        arguments += ["--batch", "8", "--iterations", "3", "--evaluation-batches", "1", "--cell", "hlstm"]
        assert run([*arguments, "--out", str(tmp_path / device), *options]) == 0
    golden, sim = ((tmp_path / device / CHECKPOINT).read_bytes() for device in ("golden", "sim"))
    assert golden == sim


def test_a_run_goes_on_with_the_same_bits(tmp_path):
    train(tmp_path / "whole", HLSTM)
    train(tmp_path / "parts", changed(HLSTM, iterations=3))
    train(tmp_path / "parts", HLSTM, resume=True)
    assert (tmp_path / "whole" / CHECKPOINT).read_bytes() == (tmp_path / "parts" / CHECKPOINT).read_bytes()
    assert done(tmp_path / "whole")[-1] == done(tmp_path / "parts")[-1]


def test_a_trained_network_is_evaluated_and_learns(tmp_path):
    last = train(tmp_path, changed(HLSTM, iterations=150, epochs=8, learning_rate=0.3))
    assert last["accuracy"] > 0.5
    with load(tmp_path, checkpoint="last") as model:
        assert model.evaluate(open_data(HLSTM))["loss"] == last["loss"]
        with pytest.raises(ValueError, match=r"export as .onnx: only for cell lstm, got cell hlstm"):
            model.export(tmp_path / "model.onnx")


def test_tokens_are_not_shared_and_the_run_says_why():
    settings = changed(PYDOC, cell="hlstm", shared_tokens="auto")
    learner = Learner(settings, open_data(settings), open_device("golden"))
    assert learner.sharing.count is None and learner.sharing.reason.endswith("off, as the cell is hlstm")


def test_a_cell_with_other_local_gradients_is_kept_dense(tmp_path, monkeypatch):
    monkeypatch.setitem(CELLS, TWO_STAGES.name, TWO_STAGES)
    settings = changed(DIGITS, cell=TWO_STAGES.name, iterations=1)
    assert train(tmp_path, settings)["iteration"] == 1
    expected = "local gradients i, f, g, o, s, r: with cell two stages, which has u, q, r, o, s, .* dense, got ms1"
    with pytest.raises(ValueError, match=expected):
        train(tmp_path, changed(settings, iterations=2, storage="ms1"), resume=True)


def test_refuses_a_checkpoint_of_another_cell(tmp_path):
    train(tmp_path, changed(HLSTM, iterations=1))
    with pytest.raises(CheckpointError, match="cell"):
        train(tmp_path, changed(DIGITS, iterations=2), resume=True)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"ms2": 0.3}, "ms2"),
        ({"ms2_steps": 3}, "ms2_steps"),
        ({"layers": 2, "dropout": 0.2}, "dropout"),
        ({"pipeline": 2}, "pipeline"),
    ],
)
def test_refuses_what_only_an_lstm_can_do(options, name):
    with pytest.raises(ValueError, match=f"{name}: only for cell lstm, got cell hlstm"):
        Settings("digits", cell="hlstm", **options)
