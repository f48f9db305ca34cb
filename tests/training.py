"""The same random training run on a device and on golden, compared word by word."""

from dataclasses import replace

import numpy as np

from etalstm.device import open_device
from etalstm.device.comparison import RandomRun, compare
from etalstm.network.execution import Execution
from etalstm.network.shape import initial_parameters
from etalstm_hw.config import preset


def assert_same_training(device, shape, iterations, seed, loss="per-step", skip_cells=0.0, delta_threshold=0.0):
    sessions = {"golden": open_device("golden").create(shape), device.name: device.create(shape)}
    found = compare(sessions, shape, RandomRun(iterations, loss, seed, skip_cells, delta_threshold))
    assert found.words > 0
    assert not found.mismatched_words, f"seed {seed}: {found}"
    return sessions[device.name]


def after_backward(device, shape, lengths, seed):
    """Give a session after a forward and a backward pass of random data, its norm, and the counts of its layers."""
    generator = np.random.default_rng(seed)
    x, dy = (generator.standard_normal(size, np.float32) for size in (shape.x_shape, shape.y_shape))
    session = device.create(shape)
    session.load(initial_parameters(shape.network, seed))
    session.forward(x, np.array(lengths))
    norm = session.backward(dy).norm
    counts = [(usage.delta_kept, usage.delta_digits, usage.saturated, usage.products) for usage in session.usage()]
    return session, norm, counts


def with_changes(shape, **changes):
    """Give a training shape with other members, and with other choices of its execution."""
    choices = {name: changes.pop(name) for name in [*changes] if hasattr(shape.execution, name)}
    return replace(shape, execution=replace(shape.execution, **choices), **changes)


def arithmetic_of(name):
    """How a preset's machine computes."""
    return Execution(arithmetic="int8" if preset(name).integers else "float32")
