"""The storages ``auto`` pick what is smaller, or faster, the same on every device."""

import json

import numpy as np
import pytest

from etalstm.device import TrainingShape, open_device
from etalstm.errors import CallOrderError
from etalstm.network.execution import Execution
from etalstm.network.shape import NetworkShape, initial_parameters
from etalstm.network.storage import Storage, Usage
from etalstm.train.control import PROBE_EPOCHS, Chooser, words_per_element
from etalstm.train.folder import CHECKPOINT, METRICS
from etalstm.train.loop import Trainer
from etalstm.train.settings import Settings


def usage(density, skipped=0, delta=0.0):
    """A layer of 4 cells with 100 elements each, `density` of every kind of P and `delta` of δ kept."""
    counts = {"elements": 400, "real": 400, "deltas": 1600, "delta_kept": int(1600 * delta)}
    return Usage(cells=4, skipped=skipped, kept=(int(100 * density) * (4 - skipped),) * 6, **counts)


def epoch(chooser, *densities):
    chooser.measure([usage(density) for density in densities])
    chooser.end_epoch()
    return chooser.policies


def test_words_count_masks_and_leave_out_skipped_cells():
    assert words_per_element(usage(0.5)) == pytest.approx(6 * 0.5 + 6 / 32)
    assert words_per_element(usage(0.5, skipped=3)) == words_per_element(usage(0.5))
    assert words_per_element(usage(0.5, skipped=4)) == pytest.approx(6 / 32)


def test_a_layer_is_dense_while_its_streams_would_be_larger():
    chooser = Chooser(2)
    assert chooser.policies == ("ms1", "ms1")
    assert epoch(chooser, 0.81, 0.79) == ("dense", "ms1")
    for _ in range(PROBE_EPOCHS - 1):
        assert epoch(chooser, 0.0, 0.9) == ("dense", "dense"), "what a dense layer would keep is not known"
    assert epoch(chooser, 0.0, 0.9) == ("ms1", "dense"), "it is measured again"
    assert epoch(chooser, 0.3, 0.0) == ("ms1", "ms1")


def test_the_fastest_is_dense_only_where_all_of_delta_is_left():
    chooser = Chooser(2, "auto-fastest")
    for densities, expected in (
        ((0.9, 0.96), ("ms1", "dense")),
        ((0.96, 0.0), ("dense", "dense")),
    ):
        chooser.measure([usage(0.99, delta=density) for density in densities])
        chooser.end_epoch()
        assert chooser.policies == expected, "whatever is smaller"


def test_the_mean_over_an_epoch_decides():
    chooser = Chooser(1)
    for density in (0.9, 0.9, 0.5):
        chooser.measure([usage(density)])
    chooser.end_epoch()
    assert chooser.policies == ("ms1",)


def test_state_goes_through_a_checkpoint():
    chooser, other = Chooser(2), Chooser(2)
    chooser.measure([usage(0.9), usage(0.1)])
    other.state = json.loads(json.dumps(chooser.state))
    other.end_epoch()
    assert other.policies == ("dense", "ms1") and chooser.policies == ("ms1", "ms1")


def run(folder, iterations=9, resume=False):
    """Train two layers whose densities lie on either side of what ``auto`` looks for; give what each iteration kept."""
    settings = Settings(
        "digits", hidden=12, layers=2, batch=256, epochs=4, iterations=iterations, theta=0.026,
        storage="auto", evaluation_batches=1,
    )  # fmt: skip
    with open_device("golden") as opened:
        Trainer(settings, opened, folder, resume).run()
    entries = [json.loads(line) for line in (folder / METRICS).read_text().splitlines()]
    return [entry["policies"] for entry in entries if entry["kind"] == "iteration"]


def test_a_resumed_run_chooses_alike(tmp_path):
    expected = run(tmp_path / "whole")
    assert expected == [["ms1", "ms1"]] * 4 + [["ms1", "dense"]] * 5
    run(tmp_path / "parts", iterations=3)
    run(tmp_path / "parts", iterations=6, resume=True)
    assert run(tmp_path / "parts", resume=True) == expected
    assert (tmp_path / "parts" / CHECKPOINT).read_bytes() == (tmp_path / "whole" / CHECKPOINT).read_bytes()


def test_the_machine_chooses_as_golden_does_and_keeps_its_bits():
    network = NetworkShape(5, 19, 2)
    shape = TrainingShape(network, 4, 5, Execution(storage=Storage("ms1", 0.026)), masked=True)
    found = []
    with open_device("sim", "test") as machine:
        for device in (open_device("golden"), machine):
            session, chooser, outputs = device.create(shape), Chooser(2), []
            session.load(initial_parameters(network, 1))
            generator = np.random.default_rng(2)
            for storage in (shape.execution.storage, Storage(("dense", "ms1"), 0.026), Storage("dense")):
                session.store_as(storage)
                x, dy = (generator.standard_normal(size, np.float32) for size in (shape.x_shape, shape.y_shape))
                session.forward(x, [5, 2, 3, 5])
                outputs.append(session.backward(dy).dx)
                if storage == shape.execution.storage:
                    chooser.measure(session.usage())
                session.update(0.1, 0.9)
            weights = [entry.weights for entry in (*session.parameters(), *session.velocities())]
            found.append((chooser.state, [array.view(np.uint32) for array in (*outputs, *weights)]))
    (expected_state, expected), (state, actual) = found
    assert state == expected_state
    for number, (a, b) in enumerate(zip(expected, actual, strict=True)):
        np.testing.assert_array_equal(b, a, err_msg=f"tensor {number}")


def test_storage_is_changed_only_to_what_fits():
    session = open_device("golden").create(TrainingShape(NetworkShape(2, 3, 2), 1, 2))
    with pytest.raises(ValueError, match="one for each of 2 layers"):
        session.store_as(Storage(("ms1",)))
    session.load(initial_parameters(NetworkShape(2, 3, 2), 1))
    session.forward(np.zeros((2, 1, 2), np.float32))
    session.store_as(Storage("ms1"))
    with pytest.raises(CallOrderError, match="forward"):
        session.backward(np.zeros((2, 1, 3), np.float32))
