"""The same random training run on a device and on golden, compared word by word."""

from etalstm.comparison import compare
from etalstm.device import open_device


def assert_same_training(device, shape, iterations, seed, loss="per-step"):
    sessions = {"golden": open_device("golden").create(shape), device.name: device.create(shape)}
    found = compare(sessions, shape, iterations, loss, seed)
    assert found.words > 0
    assert not found.mismatched_words, f"seed {seed}: {found}"
